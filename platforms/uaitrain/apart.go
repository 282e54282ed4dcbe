package uaitrain

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/archives"
	"github.com/perennial-ml/perennial/platforms/internal/verbs"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/runner/stream"
	"github.com/perennial-ml/perennial/trial"
)

//go:embed apart.py
var apartScript []byte

// lateLists is for how many intervals a job is not looked for whose answer was lost: in
// a bucket nothing keeps a second one from running the trial too.
const lateLists = 3

// apart is UAI-Train as a verbs.Service for a section whose code and output lie in a
// bucket. Metrics come by the job's log while it runs, which may leave some out, and
// whole with its output, which is there once the job is over.
type apart struct{ cluster }

// input is where the code of an experiment lies: its key in the bucket, and the
// directory in jobs.
type input struct {
	Hash  string `json:"hash"`  // of the code
	Place string `json:"place"` // the last word of its directory
}

// inputPlace is the directory of an input in the bucket, and in jobs.
func (a apart) inputPlace(in input) (path, there string) {
	if a.Input != "" {
		return directory(a.Input) + in.Place + "/", inputThere + "/" + in.Place
	}
	return directory(a.UFile) + root + "/experiments/" + a.section.Experiment + "/" + in.Place + "/", inputThere
}

// places begin the names of all objects of the experiment's.
func (a apart) places() []string {
	places := []string{a.key(directory(a.UFile) + root + "/experiments/" + a.section.Experiment + "/")}
	if a.Input != "" {
		places = append(places, a.key(directory(a.Input)+a.placeName("")))
	}
	return places
}

func (a apart) placeName(hash string) string {
	return root + "-" + a.section.Experiment + "-" + hash
}

func (p *platform) packed() archives.Archives {
	return archives.Archives{Directory: filepath.Join(p.StateDirectory, "platforms", Name, "code")}
}

// Prepare implements verbs.Service, as do all that follow: code, runner and what starts
// it are brought into the bucket once, named by what they hold.
func (a apart) Prepare(ctx context.Context, codeDirectory string) (json.RawMessage, error) {
	hash, err := a.packed().Pack(codeDirectory)
	if err != nil {
		return nil, codeFault(err)
	}
	return a.upload(ctx, hash)
}

func (a apart) upload(ctx context.Context, hash string) (json.RawMessage, error) {
	runner, err := os.ReadFile(a.Runner)
	if err != nil {
		return nil, platforms.Errorf(platforms.NotFound, "prepare", "the runner is missing, build it or install starter again: %w", err)
	}
	digest := sha256.New()
	for _, part := range [][]byte{runner, apartScript, []byte(hash)} {
		fmt.Fprintf(digest, "%d ", len(part))
		digest.Write(part)
	}
	in := input{Hash: hash, Place: a.placeName(fmt.Sprintf("%.16x", digest.Sum(nil)))}
	script := filepath.Join(a.packed().Directory, "start.py")
	if err := rundir.WriteFile(script, apartScript, 0o644); err != nil {
		return nil, platforms.Errorf(platforms.Transient, "prepare", "%w", err)
	}
	path, _ := a.inputPlace(in)
	for name, from := range map[string]string{"start.py": script, "perennial-runner": a.Runner, "code.tar.gz": a.packed().Path(hash)} {
		if err := (bucket{a.client}).put(ctx, from, a.key(path)+name); err != nil {
			return nil, err
		}
	}
	return json.Marshal(in)
}

func (a apart) Submit(ctx context.Context, wanted verbs.Submission) (json.RawMessage, error) {
	return a.submit(ctx, wanted, lateLists*a.Interval, func() (load, error) {
		if string(wanted.Job.Workspace) != "null" {
			return a.load(wanted)
		}
		made, err := a.Prepare(ctx, wanted.Job.CodeDirectory)
		if err != nil {
			return load{}, err
		}
		wanted.Job.Workspace = made
		return a.load(wanted)
	})
}

// load is what a run's job runs. Each time that one is made it has an output of its own.
func (a apart) load(wanted verbs.Submission) (load, error) {
	var in input
	if err := json.Unmarshal(wanted.Job.Workspace, &in); err != nil || in.Hash == "" {
		return load{}, errors.New("the code was not brought into the bucket yet")
	}
	job, err := a.job(wanted).Encode()
	if err != nil {
		return load{}, err
	}
	path, there := a.inputPlace(in)
	if a.Input != "" {
		path = directory(a.Input)
	}
	output := fmt.Sprintf("%s%s/experiments/%s/trials/%s/%x/", directory(a.UFile), root, a.section.Experiment, wanted.Key.String(), time.Now().UnixNano())
	return load{strings.Join([]string{there + "/start.py", in.Hash, squeezed(job)}, " "), path, output}, nil
}

func (a apart) job(wanted verbs.Submission) stream.Job {
	return stream.Job{
		Parameter: []byte(wanted.Job.Parameter), Parameters: json.RawMessage(wanted.Job.Parameters),
		Spec: rundir.Spec{
			Key: wanted.Key, Command: wanted.Job.Command, NNIPlatform: "local", GPUs: nil,
			MaxDuration: time.Duration(wanted.MaxDuration * float64(time.Second)),
			Grace:       time.Duration(wanted.Job.Grace * float64(time.Second)),
			LogLimit:    wanted.Job.LogLimit, TrialModule: wanted.Job.TrialModule,
		},
	}
}

// squeezed is a job as one word of a command.
func squeezed(job []byte) string {
	var small bytes.Buffer
	writer := zlib.NewWriter(&small)
	_, _ = writer.Write(job) // into memory
	_ = writer.Close()
	return base64.URLEncoding.EncodeToString(small.Bytes())
}

func (a apart) Poll(ctx context.Context, asked []verbs.Question) ([]verbs.Report, error) {
	reports, open := make([]verbs.Report, len(asked)), map[string]bool{}
	for i, question := range asked {
		known, err := fetched(question)
		if err != nil {
			return nil, platforms.Errorf(platforms.Transient, "poll", "%w", err)
		}
		if known == nil {
			open[question.Name] = true
			continue
		}
		reports[i] = *known
	}
	if len(open) == 0 {
		return reports, nil
	}
	all, err := a.jobs(ctx, "poll")
	if err != nil {
		return nil, err
	}
	found := a.chosen(ctx, all)
	now := turn{logsAPoll, time.Now().Add(fetchPatience)}
	for i, question := range asked {
		if !open[question.Name] {
			continue
		}
		if reports[i], err = a.tell(ctx, question, found[question.Name], &now); err != nil {
			return nil, err
		}
	}
	a.tidy(ctx, found, open)
	return reports, nil
}

// tell tells how a run is: where its job is over, by what that left.
func (a apart) tell(ctx context.Context, question verbs.Question, listed *job, now *turn) (verbs.Report, error) {
	told, one, err := a.report(ctx, question.Run, listed)
	if err != nil || one == nil {
		return told, err
	}
	switch told.Phase {
	case verbs.Gone:
		return a.fetch(question, *one, told, now)
	case verbs.Running:
		told.Started = time.Unix(one.Started, 0)
		told.Records, told.Next = a.logged(ctx, question, one.ID, now)
	}
	return told, nil
}

// Cancel ends a job: nothing can be left beside its trial.
func (a apart) Cancel(ctx context.Context, wanted verbs.Cancellation) error {
	wanted.Force = true
	return a.cluster.Cancel(ctx, wanted)
}

// CleanUp removes the experiment's jobs, and all that is in the bucket of it.
func (a apart) CleanUp(ctx context.Context) error {
	if err := a.cluster.CleanUp(ctx); err != nil {
		return err
	}
	var err error
	for _, place := range a.places() {
		err = errors.Join(err, bucket{a.client}.clear(ctx, "cleanUp", place))
	}
	return err
}

// Logs is what a job left or, while it runs, as much of its log as there is.
func (a apart) Logs(ctx context.Context, question verbs.LogQuestion) (string, error) {
	known, err := fetched(verbs.Question{Run: question.Run})
	if err != nil {
		return "", platforms.Errorf(platforms.Transient, "logs", "%w", err)
	}
	text := ""
	switch {
	case known != nil:
		content, err := os.ReadFile(filepath.Join(leftBy(question.Run), filepath.Base(question.Stream)))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", platforms.Errorf(platforms.Transient, "logs", "%w", err)
		}
		text = string(content)
	case question.Stream == rundir.Stdout && jobOf(question.Run) != "":
		lines, err := a.log(ctx, "logs", jobOf(question.Run))
		if err != nil {
			return "", err
		}
		text = stream.Output(lines)
	}
	return text[min(int(question.From), len(text)):], nil
}

// outside is how a job ended that somebody stopped, and that left no word of it.
func outside(id string) *trial.Exit {
	return &trial.Exit{Code: 143, Signal: "terminated", Outside: true, Text: "UAI-Train's job " + id + " was stopped"}
}
