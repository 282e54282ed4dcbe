// Package platformtest holds every platform to the contract of package platforms.
//
// A platform's test says how to make one (Maker) and calls Run; where runs are
// processes beside a runner it also calls RunCrashes, which kills whoever is in
// the middle of something at every crash point by name. Unreliable wraps a
// platform with the faults that networks have.
package platformtest

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/trial"
)

// patience bounds every wait: far more than any step takes on two busy cores, so
// that only a hang meets it.
const patience = 60 * time.Second

// Subject is one platform under test, with a state of its own.
type Subject struct {
	// Kind returns the platform's kind over the subject's state. It may be called any
	// number of times; two kinds are two processes as far as they can tell.
	Kind func(t *testing.T) platforms.Kind
	// Options returns the options of the section that is opened, at any time; nil:
	// there are none.
	Options func() json.RawMessage
	// Job returns a job that behaves as asked.
	Job func(t *testing.T, key trial.Key, behaviour Behaviour) platforms.Job
	// Environment are variables, NAME=value, with which the function given to Main
	// finds the same state in another process. Only RunCrashes needs them.
	Environment []string
	// Arm has whatever starts runs at the far end of a connection that is made from
	// now on reach a crash point; "" disarms. Nil: what starts them is the process
	// that calls Submit, and the point is in its environment. Only for RunCrashes.
	Arm func(t *testing.T, point string)
	// Directory is the path on this machine of a run's directory; nil: it is
	// Report.Output. Only for RunCrashes.
	Directory func(report platforms.Report) string
	// Witness is the path on this machine of the file to which a job's command
	// appends a line as it starts; nil: it is in the job's workspace. Only for
	// RunCrashes.
	Witness func(job platforms.Job) string
}

// Maker returns a fresh subject.
type Maker func(t *testing.T) Subject

// Behaviour is what a run shall do.
type Behaviour struct {
	Intermediates []float64 // reported first, as steps 0, 1 …
	Forever       bool      // then it runs until it is ended
	Final         *float64  // else it reports this, if there is one
	ExitCode      int       // and ends with this code
}

// Command returns a shell command that behaves so, in our own protocol. Each
// metric is written in two halves with a pause between them. The command appends
// a line to the file witness as it starts, unless that is empty.
func (b Behaviour) Command(witness string) string {
	var script strings.Builder
	if witness != "" {
		fmt.Fprintf(&script, "echo started >>'%s'\n", witness)
	}
	for _, value := range b.Intermediates {
		fmt.Fprintf(&script, "printf 'perennial: interm'; sleep 0.01; printf 'ediate %v\\n'\n", value)
	}
	if b.Forever {
		script.WriteString("exec sleep 3600\n")
	}
	if b.Final != nil {
		fmt.Fprintf(&script, "printf 'perennial: final '; sleep 0.01; echo %v\n", *b.Final)
	}
	fmt.Fprintf(&script, "exit %d\n", b.ExitCode)
	return script.String()
}

// ShellJob returns a complete job that runs Command in a directory of its own.
func ShellJob(t *testing.T, key trial.Key, behaviour Behaviour) platforms.Job {
	code := t.TempDir()
	parameters := json.RawMessage(`{"x": 5.0}`)
	return platforms.Job{
		Key:        key,
		Workspace:  platforms.Workspace{Directory: code},
		Command:    behaviour.Command(filepath.Join(code, "witness")),
		Parameter:  []byte(`{"parameter_id": 0, "parameter_source": "algorithm", "parameters": {"x": 5.0}, "parameter_index": 0}`),
		Parameters: parameters,
		Grace:      time.Second,
	}
}

// Section is the section of an experiment with these options, whatever they are when
// it is asked for them; nil: there are none.
func Section(platform, experiment string, options func() json.RawMessage) platforms.Section {
	section := platforms.Section{Platform: platform, Experiment: experiment}
	if options != nil {
		section.Resolve = func(context.Context) (json.RawMessage, error) { return options(), nil }
	}
	return section
}

// world is one subject with one section open and a context that ends the test rather
// than hang.
type world struct {
	t *testing.T
	Subject
	platforms.Platform
	traits     platforms.Traits
	ctx        context.Context
	experiment string
}

func newWorld(t *testing.T, make Maker) *world {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	w := &world{t: t, Subject: make(t), ctx: ctx, experiment: trial.NewExperimentID()}
	w.Platform = w.open()
	t.Cleanup(w.endAll)
	return w
}

// open opens the experiment's section as a new process would.
func (w *world) open() platforms.Platform {
	kind := w.Kind(w.t)
	w.traits = kind.Traits
	return kind.Open(Section(kind.Traits.Name, w.experiment, w.Options))
}

// endAll leaves no run behind, whatever the test did.
func (w *world) endAll() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	handles, err := w.List(ctx)
	require.NoError(w.t, err)
	for _, handle := range handles {
		require.NoError(w.t, w.Cancel(ctx, handle, trial.Intent{Cause: trial.CauseUser}))
	}
	w.ctx = ctx
	for _, handle := range handles {
		w.waitUntil(handle, func(report platforms.Report) bool {
			return report.Phase.Definite() || report.Phase == platforms.Absent
		})
	}
	require.NoError(w.t, w.Close())
}

func (w *world) key(sequence, attempt int) trial.Key {
	return trial.Key{Experiment: w.experiment, Sequence: sequence, Attempt: attempt}
}

func (w *world) job(sequence int, behaviour Behaviour) platforms.Job {
	return w.Job(w.t, w.key(sequence, 1), behaviour)
}

func (w *world) submit(job platforms.Job) platforms.Handle {
	w.t.Helper()
	handle, err := w.Submit(w.ctx, job)
	require.NoError(w.t, err)
	return handle
}

func (w *world) begin(sequence int, behaviour Behaviour) platforms.Handle {
	w.t.Helper()
	return w.submit(w.job(sequence, behaviour))
}

// reopen replaces the instance, as a new process would.
func (w *world) reopen() {
	require.NoError(w.t, w.Close())
	w.Platform = w.open()
}

// poll returns how a run is, without what came of its journal.
func (w *world) poll(handle platforms.Handle) platforms.Report {
	w.t.Helper()
	report := w.ask(platforms.Question{Handle: handle})
	report.Journal = nil
	return report
}

func (w *world) ask(question platforms.Question) platforms.Report {
	w.t.Helper()
	reports, err := w.Poll(w.ctx, []platforms.Question{question})
	require.NoError(w.t, err)
	require.Len(w.t, reports, 1)
	return reports[0]
}

func (w *world) waitUntil(handle platforms.Handle, wanted func(platforms.Report) bool) platforms.Report {
	w.t.Helper()
	for {
		report := w.poll(handle)
		if wanted(report) {
			return report
		}
		require.NoError(w.t, w.ctx.Err(), "last report: %+v", report)
		w.rest()
	}
}

// rest gives the platform the time until it can know anything new.
func (w *world) rest() {
	select {
	case <-w.ctx.Done():
	case <-time.After(min(w.traits.PollInterval, 20*time.Millisecond)):
	}
}

func (w *world) waitFor(handle platforms.Handle, phase platforms.Phase) platforms.Report {
	w.t.Helper()
	return w.waitUntil(handle, func(report platforms.Report) bool {
		require.False(w.t, report.Phase.Definite() && report.Phase != phase, "it ended otherwise: %+v", report)
		return report.Phase == phase
	})
}

func (w *world) cancel(handle platforms.Handle, intent trial.Intent) {
	w.t.Helper()
	require.NoError(w.t, w.Cancel(w.ctx, handle, intent))
}

// collect returns everything that is there at present.
func (w *world) collect(handle platforms.Handle) []metrics.Record {
	w.t.Helper()
	var all []metrics.Record
	for cursor := platforms.Cursor(""); ; {
		records, next, err := w.Collect(w.ctx, handle, cursor)
		require.NoError(w.t, err)
		if len(records) == 0 {
			return all
		}
		all, cursor = append(all, records...), next
	}
}

// collectEnd returns everything of a run that has exited.
func (w *world) collectEnd(handle platforms.Handle) []metrics.Record {
	w.t.Helper()
	w.waitUntil(handle, func(report platforms.Report) bool { return report.Phase == platforms.Exited && !report.Pending })
	return w.collect(handle)
}

func values(records []metrics.Record) []string {
	var values []string
	for _, record := range records {
		values = append(values, fmt.Sprintf("%s %s", record.Kind, record.Value))
	}
	return values
}

func pointer[T any](value T) *T { return &value }
