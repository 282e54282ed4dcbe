package dashboard

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/dashboard/importance"
	"github.com/perennial-ml/perennial/dashboard/views"
	"github.com/perennial-ml/perennial/record"
)

// still is what the pages of one experiment need once there is no host to ask.
type still struct {
	Taken   time.Time      `json:"taken"`
	Home    string         `json:"home"` // the page that is shown first
	Leaf    string         `json:"leaf"` // the picture of the pages, as an address
	Answers map[string]any `json:"answers"`
	Trials  []stillTrial   `json:"trials"`
}

type stillTrial struct {
	views.WholeTrial
	Final *string `json:"final"`
}

// WriteStill writes the pages of one experiment, as it is now, as one HTML file that needs
// nothing and asks nobody: everything but what trials wrote is in it.
func WriteStill(ctx context.Context, out io.Writer, reader views.Reader, id string) error {
	built, err := readBuilt()
	if err != nil {
		return err
	}
	s := &server{Options: Options{Reader: reader}}
	e, err := reader.Store.Experiment(ctx, id)
	if err != nil {
		return err
	}
	shot := still{Taken: time.Now(), Home: "/e/" + e.ID, Leaf: "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte(built.leaf))}
	if shot.Answers, err = s.stillAnswers(ctx, e); err != nil {
		return err
	}
	if shot.Trials, err = s.stillTrials(ctx, e); err != nil {
		return err
	}
	return built.write(out, e.Name, shot)
}

// stillAnswers are those of the API, by path, but for trials.
func (s *server) stillAnswers(ctx context.Context, e record.Experiment) (map[string]any, error) {
	at := ExperimentPath{Experiment: e.ID}
	whole, err := s.experiment(ctx, &at)
	if err != nil {
		return nil, err
	}
	results, err := s.results(ctx, &at)
	if err != nil {
		return nil, err
	}
	line, err := s.timeline(ctx, &at)
	if err != nil {
		return nil, err
	}
	curves, err := s.curves(ctx, &curvesInput{ExperimentPath: at, Limit: 2000, Points: 120})
	if err != nil {
		return nil, err
	}
	path := "/experiments/" + e.ID
	answers := map[string]any{path: whole.Body, path + "/results": results.Body, path + "/timeline": line.Body, path + "/curves": curves.Body}
	rows, err := s.Store.Trials(ctx, e.ID)
	for _, metric := range append([]string{""}, slices.Sorted(maps.Keys(results.Body.Metrics))...) {
		answers[path+"/importance "+metric] = weighed{Answer: importance.Of(resultsOf(rows, metric)), Method: importance.Method, Least: importance.Least, UpTo: e.LastEvent}
	}
	return answers, err
}

func (s *server) stillTrials(ctx context.Context, e record.Experiment) ([]stillTrial, error) {
	list, err := s.Reader.Trials(ctx, e, record.Listing{})
	if err != nil {
		return nil, err
	}
	all := make([]stillTrial, len(list))
	for i, listed := range listedTrials(list) {
		whole, _, err := s.Whole(ctx, e, list[i])
		if err != nil {
			return nil, err
		}
		all[i] = stillTrial{whole, listed.Final}
	}
	return all, nil
}

// builtPage is what make has built, as texts.
type builtPage struct{ script, style, leaf string }

var (
	scriptOf = regexp.MustCompile(`<script [^>]*src="/([^"]+)"`)
	styleOf  = regexp.MustCompile(`<link rel="stylesheet" [^>]*href="/([^"]+)"`)
)

func readBuilt() (built builtPage, err error) {
	page, err := embedded.ReadFile(builtPages + "/" + entry)
	if errors.Is(err, fs.ErrNotExist) {
		return built, errors.New("this starter was built without the dashboard's pages: make build builds them")
	}
	script, style := scriptOf.FindSubmatch(page), styleOf.FindSubmatch(page)
	if err != nil || script == nil || style == nil {
		return built, errors.Join(err, errors.New("the dashboard's pages are not as make builds them"))
	}
	for name, into := range map[string]*string{string(script[1]): &built.script, string(style[1]): &built.style, "leaf.svg": &built.leaf} {
		text, wrong := embedded.ReadFile(builtPages + "/" + name)
		*into, err = string(text), errors.Join(err, wrong)
	}
	// Within a page nothing in a script may look like its end.
	built.script = strings.ReplaceAll(built.script, "</script", `<\/script`)
	return built, err
}

// write writes the file. Only the two texts that it names by their sums are obeyed.
func (b builtPage) write(out io.Writer, name string, shot still) error {
	text := bufio.NewWriter(out)
	fmt.Fprintf(text, `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src %s; style-src %s; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>%s</title>
<link rel="icon" type="image/svg+xml" href="%s">
<style>%s</style>
</head>
<body>
<div id="app"></div>
<noscript>This page draws what it holds by JavaScript of its own.</noscript>
<script type="application/json" id="still">`, sum(b.script), sum(b.style), html.EscapeString(name), shot.Leaf, b.style)
	if err := json.NewEncoder(text).Encode(shot); err != nil { // which has no < in it: JSON can say that otherwise
		return err
	}
	fmt.Fprintf(text, "</script>\n<script type=\"module\">%s</script>\n</body>\n</html>\n", b.script)
	return text.Flush()
}

func sum(text string) string {
	digest := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) + "'"
}
