// The program pictures remakes the pictures of the README from real runs: its
// arguments are the starter to run, an experiment's file for terminal.png and
// web-ui.png, one for the pictures of the dashboard, which runs five times as many
// trials as it says, and the directory to write them into.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/testsuite/webui"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: pictures STARTER EXPERIMENT.yml LARGER-EXPERIMENT.yml DIRECTORY")
		os.Exit(2)
	}
	if err := remake(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// studio is a starter with a state directory of its own.
type studio struct{ starter, home, directory string }

func remake(starter, file, larger, directory string) (err error) {
	if webui.BrowserProgram() == "" {
		return errors.New("no Chromium is installed: apt-get install chromium")
	}
	home, err := os.MkdirTemp("", "pictures-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	s := studio{starter, home, directory}
	defer s.run("serve", "--stop")
	printed, err := s.run("run", file)
	if err != nil {
		return err
	}
	if err := s.picture("terminal.png", 740, func(b *webui.Browser) error {
		return b.Show(terminal("$ starter run "+filepath.Base(file), printed))
	}); err != nil {
		return err
	}
	if err := s.picture("web-ui.png", 1150, s.openExperiment); err != nil {
		return err
	}
	return s.dashboard(larger)
}

// dashboard runs an experiment for long enough to have something to show, and takes
// pictures of its pages.
func (s studio) dashboard(file string) error {
	view, err := s.larger(file)
	if err != nil {
		return err
	}
	page := func(path, script string, texts ...string) func(*webui.Browser) error {
		return func(b *webui.Browser) error { return s.openPage(b, path, script, texts...) }
	}
	at := "/e/" + view.ID
	for name, open := range map[string]func(*webui.Browser) error{
		"dashboard.png":          page(at, "", "Best trial", "Slots"),
		"dashboard-dark.png":     page(at, "localStorage.setItem('theme', '\"dark\"'), location.reload()", "Best trial", "Slots"),
		"dashboard-analysis.png": page(at+"/analysis", "", "The forest guesses"),
		"dashboard-curves.png":   page(at+"/curves", "", "Intermediate results"),
		"dashboard-trials.png":   page(at+"/trials", "", "trials"),
		"dashboard-trial.png":    page(fmt.Sprintf("%s/t/%d", at, view.Best.Sequence), "", "Curve", "Output"),
	} {
		if err := s.picture(name, heights[name], open); err != nil {
			return err
		}
	}
	return nil
}

// heights are those of windows for the pictures of the dashboard.
var heights = map[string]int{"dashboard.png": 1150, "dashboard-dark.png": 1150, "dashboard-analysis.png": 800, "dashboard-curves.png": 990,
	"dashboard-trials.png": 1150, "dashboard-trial.png": 1150}

type larger struct {
	ID     string `json:"id"`
	Limits struct {
		MaxTrials int `json:"maxTrials"`
	} `json:"limits"`
	Best struct {
		Sequence int `json:"sequence"`
	} `json:"best"`
}

// larger runs the experiment of a file to its end, five times as far as it says.
func (s studio) larger(file string) (view larger, err error) {
	if _, err := s.run("run", file, "--detach"); err != nil {
		return view, err
	}
	if view, err = s.shown(); err != nil {
		return view, err
	}
	if _, err := s.run("update", "max-trials", view.ID, fmt.Sprint(5*view.Limits.MaxTrials)); err != nil {
		return view, err
	}
	if _, err := s.run("resume", view.ID); err != nil {
		return view, err
	}
	return s.shown(view.ID)
}

// shown is an experiment, the only active one where none is named.
func (s studio) shown(id ...string) (view larger, err error) {
	text, err := s.run(append([]string{"show", "--output", "json"}, id...)...)
	if err != nil {
		return view, err
	}
	return view, json.Unmarshal([]byte(text), &view)
}

// openPage opens a page of the dashboard by a fresh link, and waits until its charts are
// drawn.
func (s studio) openPage(browser *webui.Browser, path, script string, texts ...string) error {
	link, err := s.run("dashboard", "--print")
	if err != nil {
		return err
	}
	host, _, _ := strings.Cut(strings.TrimSpace(link), "/?")
	if err := browser.Open(strings.TrimSpace(link), "Experiments"); err != nil {
		return err
	}
	if err := browser.Open(host+path, texts...); err != nil || script == "" {
		time.Sleep(time.Second)
		return err
	}
	if _, err := browser.Run("(" + script + ", '')"); err != nil {
		return err
	}
	time.Sleep(time.Second)
	return browser.Await(texts...)
}

func (s studio) run(arguments ...string) (string, error) {
	command := exec.Command(s.starter, arguments...)
	command.Env = append(os.Environ(), "PERENNIAL_HOME="+s.home)
	command.WaitDelay = time.Second // a host it starts may keep its pipes open
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return "", fmt.Errorf("starter %s: %w\n%s", strings.Join(arguments, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// openExperiment opens the page of the finished experiment by a fresh link, since
// each lets in one browser.
func (s studio) openExperiment(browser *webui.Browser) error {
	shown, err := s.run("show", "--output", "json")
	if err != nil {
		return err
	}
	var view struct {
		Temporal struct {
			WebUI string `json:"webUI"`
		} `json:"temporal"`
	}
	if err := json.Unmarshal([]byte(shown), &view); err != nil {
		return err
	}
	return browser.Open(view.Temporal.WebUI, "COMPLETED", "Round • wait for news")
}

func (s studio) picture(name string, height int, open func(*webui.Browser) error) error {
	browser := webui.OpenBrowser(context.Background(), 1400, height)
	defer browser.Close()
	if err := open(browser); err != nil {
		return err
	}
	png, err := browser.Picture()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.directory, name), png, 0o644)
}

const style = `body { background: #1d2330; color: #dbe2ee; margin: 0; padding: 22px 28px; }
pre { font: 15px/1.45 "DejaVu Sans Mono", monospace; white-space: pre-wrap; } b { color: #7fd1a5; }`

// head and tail are the lines of a terminal that are shown of more.
const head, tail = 15, 7

// terminal is a page that looks like a terminal. Links are cut before their
// token, and the middle of much is left out.
func terminal(prompt, printed string) string {
	var lines []string
	for line := range strings.Lines(printed) {
		shown, _, _ := strings.Cut(strings.TrimRight(line, "\n"), "?t=")
		lines = append(lines, html.EscapeString(shown))
	}
	if len(lines) > head+tail {
		lines = slices.Concat(lines[:head], []string{"…"}, lines[len(lines)-tail:])
	}
	return fmt.Sprintf("<!doctype html><meta charset=utf-8><style>%s</style><pre><b>%s</b>\n%s</pre>",
		style, html.EscapeString(prompt), strings.Join(lines, "\n"))
}
