package platformtest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/trial"
)

// KindMaker makes a kind over a state directory: two of one directory are two processes
// as far as they can tell.
type KindMaker func(state string) platforms.Kind

// RunWithRunner runs a package's tests and returns their exit code. The path of the
// runner, built for them, is in runner meanwhile.
func RunWithRunner(m *testing.M, runner *string) int {
	directory, err := os.MkdirTemp("", "platformtest-")
	if err == nil {
		defer os.RemoveAll(directory)
		*runner = filepath.Join(directory, "perennial-runner")
		build := exec.Command("go", "build", "-o", *runner, "github.com/perennial-ml/perennial/runner/perennial-runner")
		build.Env, build.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
		err = build.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Keys are those of a section with some as a test has them.
func Keys(usual, more map[string]any) map[string]any {
	all := maps.Clone(usual)
	maps.Copy(all, more)
	return all
}

// Options are keys as a kind is given them.
func Options(t *testing.T, keys map[string]any) json.RawMessage {
	content, err := json.Marshal(keys)
	require.NoError(t, err)
	return content
}

// RunSection is Run for a kind with a section of the keys that are made for each test.
func RunSection(t *testing.T, kind KindMaker, keys func(t *testing.T) map[string]any) {
	Run(t, func(t *testing.T) Subject {
		state, section := t.TempDir(), Options(t, keys(t))
		require.NoError(t, kind(state).Check(section))
		return Subject{
			Kind:    func(*testing.T) platforms.Kind { return kind(state) },
			Options: func() json.RawMessage { return section },
			Job:     ShellJob,
		}
	})
}

// RequireFault holds a kind to refusing a section because of one field, alone.
func RequireFault(t *testing.T, kind platforms.Kind, keys map[string]any, field string) {
	t.Helper()
	var faults platforms.OptionFaults
	require.ErrorAs(t, kind.Check(Options(t, keys)), &faults, field)
	require.Len(t, faults, 1)
	require.Equal(t, field, faults[0].Field)
}

// Opened is a section of an experiment of its own, as a test uses it.
type Opened struct {
	platforms.Platform
	t          *testing.T
	kind       KindMaker
	state      string
	experiment string
	mutex      sync.Mutex
	keys       map[string]any
}

// Open opens a section.
func Open(t *testing.T, kind KindMaker, keys map[string]any) *Opened {
	o := &Opened{t: t, kind: kind, state: t.TempDir(), experiment: trial.NewExperimentID(), keys: maps.Clone(keys)}
	o.Platform = o.Again()
	return o
}

// Again opens the section once more, as another process does.
func (o *Opened) Again() platforms.Platform { return o.By(o.kind) }

// By opens the section as another process does, by a kind that is made otherwise.
func (o *Opened) By(make KindMaker) platforms.Platform {
	kind := make(o.state)
	opened := kind.Open(Section(kind.Traits.Name, o.experiment, func() json.RawMessage {
		o.mutex.Lock()
		defer o.mutex.Unlock()
		return Options(o.t, o.keys)
	}))
	o.t.Cleanup(func() { require.NoError(o.t, opened.Close()) })
	return opened
}

// Set changes a key, as who renews a secret does.
func (o *Opened) Set(key string, value any) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.keys[key] = value
}

// Job is a trial's first attempt, with a command.
func (o *Opened) Job(sequence int, command string) platforms.Job {
	job := ShellJob(o.t, trial.Key{Experiment: o.experiment, Sequence: sequence, Attempt: 1}, Behaviour{})
	job.Command = command
	return job
}

// Start submits a trial's first attempt.
func (o *Opened) Start(sequence int, command string) platforms.Handle {
	o.t.Helper()
	handle, err := o.Submit(o.t.Context(), o.Job(sequence, command))
	require.NoError(o.t, err)
	return handle
}

// Read is what a run printed, or one of its replicas.
func (o *Opened) Read(handle platforms.Handle, of platforms.Log) string {
	o.t.Helper()
	reader, err := o.Platform.(platforms.WithLogs).Logs(o.t.Context(), handle, of)
	require.NoError(o.t, err)
	defer reader.Close()
	text, err := io.ReadAll(reader)
	require.NoError(o.t, err)
	return string(text)
}

// Prepared is the workspace of a code directory.
func (o *Opened) Prepared(code string) platforms.Workspace {
	o.t.Helper()
	workspace, err := o.Prepare(o.t.Context(), platforms.Bundle{CodeDirectory: code})
	require.NoError(o.t, err)
	return workspace
}

// Reported is what a run has reported.
func (o *Opened) Reported(handle platforms.Handle) []string {
	o.t.Helper()
	var all []metrics.Record
	for cursor := platforms.Cursor(""); ; {
		records, next, err := o.Collect(o.t.Context(), handle, cursor)
		require.NoError(o.t, err)
		if len(records) == 0 {
			return values(all)
		}
		all, cursor = append(all, records...), next
	}
}

// Await polls until a run is as wanted.
func (o *Opened) Await(handle platforms.Handle, wanted func(platforms.Report) bool) (last platforms.Report) {
	o.t.Helper()
	require.Eventually(o.t, func() bool {
		reports, err := o.Poll(o.t.Context(), platforms.Ask(handle))
		if err == nil {
			last = reports[0]
		}
		return err == nil && wanted(last)
	}, patience, 50*time.Millisecond, "it never came to be so")
	return last
}

// End cancels a run and awaits its end.
func (o *Opened) End(handle platforms.Handle) platforms.Report {
	o.t.Helper()
	require.NoError(o.t, o.Cancel(o.t.Context(), handle, trial.Intent{Cause: trial.CauseUser}))
	return o.Await(handle, Over)
}

// AwaitFault polls until that is refused, and returns why: what was said just before is as
// good for a moment.
func (o *Opened) AwaitFault(handle platforms.Handle) (err error) {
	o.t.Helper()
	require.Eventually(o.t, func() bool {
		_, err = o.Poll(o.t.Context(), platforms.Ask(handle))
		return err != nil
	}, patience, 20*time.Millisecond)
	return err
}

// Problems are what Try finds.
func (o *Opened) Problems() (texts []string) {
	o.t.Helper()
	states, err := o.Platform.(platforms.WithHosts).Try(o.t.Context())
	require.NoError(o.t, err)
	for _, problem := range states[0].Problems {
		texts = append(texts, problem.Text)
	}
	return texts
}

// Many is how many trials tests run that are to show what many cost: a few, or as many as
// PERENNIAL_MANY_TRIALS says.
func Many(t *testing.T, few int) int {
	text, set := os.LookupEnv("PERENNIAL_MANY_TRIALS")
	if !set {
		return few
	}
	number, err := strconv.Atoi(text)
	require.NoError(t, err)
	return number
}

// RunMany runs trials with a command, so many at once, as the poller does it: the
// platform is asked again and again, and what it has no room for waits.
func (o *Opened) RunMany(number, atOnce int, command string, tick func()) {
	submitted, running := 0, []platforms.Handle{}
	for ended := 0; ended < number; tick() {
		for submitted < number && len(running) < atOnce {
			handle, err := o.Submit(o.t.Context(), o.Job(submitted, command))
			if platforms.NoRoom(err) {
				break
			}
			require.NoError(o.t, err)
			running, submitted = append(running, handle), submitted+1
		}
		reports, err := o.Poll(o.t.Context(), platforms.Ask(running...))
		require.NoError(o.t, err)
		var left []platforms.Handle
		for i, report := range reports {
			if !Over(report) {
				left = append(left, running[i])
				continue
			}
			require.Equal(o.t, platforms.Exited, report.Phase, report.Reason.Text)
			require.Zero(o.t, report.Exit.Code)
			ended++
		}
		running = left
	}
}

// Tick is what the poller waits between two polls, here.
func Tick() { time.Sleep(20 * time.Millisecond) }

// Succeeded, Running and Over are what Await is often asked for.
func Succeeded(report platforms.Report) bool {
	return report.Phase == platforms.Exited && report.Exit.Code == 0
}

func Running(report platforms.Report) bool { return report.Phase == platforms.Running }

func Over(report platforms.Report) bool { return report.Phase.Definite() }
