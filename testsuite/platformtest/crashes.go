package platformtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// jobVariable names the file of the job that Main submits.
const jobVariable = "PLATFORMTEST_JOB"

// Main belongs at the beginning of TestMain of a package that calls RunCrashes.
// In a process that the suite started to submit a job and be killed it does that
// and never returns; else it returns at once. find makes a Subject, of which Kind and
// Options are used, by Subject.Environment.
func Main(find func() Subject) {
	path := os.Getenv(jobVariable)
	if path == "" {
		return
	}
	if err := submitFile(find(), path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func submitFile(subject Subject, path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var job platforms.Job
	if err := json.Unmarshal(content, &job); err != nil {
		return err
	}
	kind := subject.Kind(nil)
	platform := kind.Open(Section(kind.Traits.Name, job.Key.Experiment, subject.Options))
	_, err = platform.Submit(context.Background(), job)
	return err
}

// RunCrashes kills submitters, runners and trials at every crash point that
// concerns a platform whose runs are processes of this machine, below our runner.
// It may reach them by a connection: see Subject.Arm.
func RunCrashes(t *testing.T, make Maker) {
	for _, test := range crashes {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(newWorld(t, make))
		})
	}
}

var crashes = []struct {
	name string
	run  func(*world)
}{
	{"submit.lock-held-before-exec", submitterDies},
	{"submit.lock-held-before-exec:stall", submitterStalls},
	{"runner.started-before-child-exec", runnerDiesBeforeTheCommand},
	{"runner.killed", runnerIsKilled},
	{"runner.killed-while-child-daemonised", runnerDiesBesideADaemon},
	{"runner.read-before-journal-append", runnerDiesBeforeTheJournal},
	{"runner.child-dead-before-exit-record", runnerDiesBeforeTheExitRecord},
	{"runner.exit-noted-before-clean-up", runnerDiesBeforeTheCleanUp},
	{"runner.frozen", runnerIsFrozen},
	{"cancel.intent-before-TERM", runnerDiesBeforeTerm},
	{"cancel.TERM-before-KILL", runnerDiesBeforeKill},
	{"host.orderly-shutdown", trialIsTerminatedFirst},
	{"host.orderly-shutdown:runner-first", runnerIsTerminatedFirst},
}

func submitterDies(w *world) {
	job := w.job(0, threeSteps())
	submitter := w.submitElsewhere(job, "submit.lock-held-before-exec")
	w.awaitDeath(submitter, job.Key)
	handle := w.only()
	require.False(w.t, w.poll(handle).Phase.Definite())
	require.Zero(w.t, w.starts(job))
	w.reopen()
	require.Equal(w.t, handle, w.submit(job))
	require.Equal(w.t, threeStepsValues, values(w.collectEnd(handle)))
	require.Equal(w.t, 1, w.starts(job))
}

func submitterStalls(w *world) {
	job := w.job(0, threeSteps())
	stalled := w.submitElsewhere(job, "submit.lock-held-before-exec:stall")
	require.Eventually(w.t, func() bool {
		handles, err := w.List(w.ctx)
		return err == nil && len(handles) == 1 && w.poll(handles[0]).Phase == platforms.Waiting
	}, patience, 10*time.Millisecond)
	ctx, cancel := context.WithTimeout(w.ctx, 300*time.Millisecond)
	defer cancel()
	_, err := w.Submit(ctx, job)
	require.Equal(w.t, platforms.Transient, platforms.CodeOf(err))
	require.Error(w.t, err)
	require.Zero(w.t, w.starts(job))
	w.disarm()
	require.NoError(w.t, stalled.Process.Kill())
	w.requireKilled(stalled.Wait())
	require.Equal(w.t, threeStepsValues, values(w.collectEnd(w.submit(job))))
	require.Equal(w.t, 1, w.starts(job))
}

func runnerDiesBeforeTheCommand(w *world) {
	job := w.job(0, threeSteps())
	w.loseRunner(job, "runner.started-before-child-exec")
	require.Zero(w.t, w.starts(job))
	w.requireNextAttemptRuns()
}

func runnerIsKilled(w *world) {
	job := w.job(0, Behaviour{Intermediates: []float64{1}, Forever: true})
	handle := w.submit(job)
	report := w.waitFor(handle, platforms.Running)
	require.NoError(w.t, unix.Kill(w.process(report).Runner.PID, unix.SIGKILL))
	require.False(w.t, w.waitFor(handle, platforms.Lost).Reason.Zero())
	w.requireNothingAlive(report)
	require.Equal(w.t, handle, w.submit(job), "a begun run never starts again")
	require.Equal(w.t, platforms.Lost, w.poll(handle).Phase)
	w.requireNextAttemptRuns()
}

// runnerDiesBesideADaemon leaves a process that neither the session nor the
// environment betrays: it is dead when anybody hears that the run is lost.
func runnerDiesBesideADaemon(w *world) {
	job := w.job(0, threeSteps())
	job.Command = "/usr/bin/env -i /usr/bin/setsid /bin/sleep 3600 </dev/null >/dev/null 2>&1 & sleep 3600"
	handle := w.loseRunner(job, "runner.killed-while-child-daemonised")
	require.Empty(w.t, w.alive(w.poll(handle)))
	w.requireNextAttemptRuns()
}

func runnerDiesBeforeTheJournal(w *world) {
	job := w.job(0, threeSteps())
	handle := w.loseRunner(job, "runner.read-before-journal-append")
	found := values(w.collect(handle))
	require.Equal(w.t, threeStepsValues[:len(found)], append([]string{}, found...))
	w.requireNextAttemptRuns()
}

func runnerDiesBeforeTheExitRecord(w *world) {
	job := w.job(0, threeSteps())
	handle := w.loseRunner(job, "runner.child-dead-before-exit-record")
	require.Equal(w.t, threeStepsValues, values(w.collect(handle)), "the journal is whole before the exit record")
	require.Equal(w.t, handle, w.submit(job))
	require.Equal(w.t, 1, w.starts(job))
	w.requireNextAttemptRuns()
}

// runnerDiesBeforeTheCleanUp leaves what a command left that had ended: its own end
// stands, and nothing of it runs again.
func runnerDiesBeforeTheCleanUp(w *world) {
	job := w.job(0, threeSteps())
	job.Command = "/usr/bin/env -i /usr/bin/setsid /bin/sleep 3600 </dev/null >/dev/null 2>&1 & " + job.Command
	require.NoError(w.t, w.submitElsewhere(job, "runner.exit-noted-before-clean-up").Wait())
	w.disarm()
	handle := w.only()
	report := w.waitFor(handle, platforms.Exited)
	require.Zero(w.t, report.Exit.Code)
	require.Empty(w.t, w.alive(report))
	require.Equal(w.t, threeStepsValues, values(w.collectEnd(handle)))
	require.Equal(w.t, handle, w.submit(job))
	require.Equal(w.t, 1, w.starts(job))
}

// runnerIsFrozen has a runner that lives and does nothing: that is told, is no end,
// and keeps nobody from ending the trial.
func runnerIsFrozen(w *world) {
	handle := w.begin(0, Behaviour{Intermediates: []float64{1}, Forever: true})
	report := w.waitFor(handle, platforms.Running)
	require.NoError(w.t, unix.Kill(w.process(report).Runner.PID, unix.SIGSTOP))
	require.Eventually(w.t, func() bool {
		report := w.poll(handle)
		require.Equal(w.t, platforms.Running, report.Phase)
		return report.Reason.Code == "runner-frozen"
	}, patience, 10*time.Millisecond)
	intent := trial.Intent{Cause: trial.CauseUser, Decision: "d-1"}
	w.cancel(handle, intent)
	require.Equal(w.t, &intent, w.waitFor(handle, platforms.Exited).Intent)
	require.Empty(w.t, w.alive(report))
}

func runnerDiesBeforeTerm(w *world) {
	w.cancelInto("cancel.intent-before-TERM", w.job(0, Behaviour{Forever: true}))
}

func runnerDiesBeforeKill(w *world) {
	job := w.job(0, threeSteps())
	job.Command = "trap '' TERM; echo started >>'" + w.witness(job) + "'; while :; do sleep 0.1; done"
	w.cancelInto("cancel.TERM-before-KILL", job)
}

// cancelInto cancels a run whose runner dies of it: the intent is known all the
// same, and a repeated cancel leaves no process.
func (w *world) cancelInto(point string, job platforms.Job) {
	w.t.Helper()
	require.NoError(w.t, w.submitElsewhere(job, point).Wait())
	w.disarm()
	handle := w.only()
	report := w.waitFor(handle, platforms.Running)
	require.Eventually(w.t, func() bool { return w.starts(job) == 1 }, patience, 10*time.Millisecond)
	intent := trial.Intent{Cause: trial.CauseEarlyStop, Decision: "d-1"}
	w.cancel(handle, intent)
	require.Equal(w.t, &intent, w.waitFor(handle, platforms.Lost).Intent)
	w.cancel(handle, intent)
	require.Empty(w.t, w.alive(report))
	require.Equal(w.t, platforms.Lost, w.poll(handle).Phase)
}

func trialIsTerminatedFirst(w *world) {
	w.shutDown(func(process rundir.Process) []int { return []int{-process.Child.PID, process.Runner.PID} })
}

func runnerIsTerminatedFirst(w *world) {
	w.shutDown(func(process rundir.Process) []int { return []int{process.Runner.PID, -process.Child.PID} })
}

// shutDown ends a run as a machine that goes down does: that is nobody's intent
// and not the trial's fault.
func (w *world) shutDown(order func(rundir.Process) []int) {
	handle := w.begin(0, Behaviour{Intermediates: []float64{1}, Forever: true})
	process := w.process(w.waitFor(handle, platforms.Running))
	// Its metric shows that the command runs, and not only its process.
	require.Eventually(w.t, func() bool { return len(w.collect(handle)) == 1 }, patience, 10*time.Millisecond)
	for _, pid := range order(process) {
		err := unix.Kill(pid, unix.SIGTERM)
		require.True(w.t, err == nil || errors.Is(err, unix.ESRCH), "%v", err)
	}
	report := w.waitFor(handle, platforms.Exited)
	require.True(w.t, report.Exit.Outside, "%+v", report.Exit)
	require.Nil(w.t, report.Intent)
	w.requireNextAttemptRuns()
}

// submitElsewhere submits in a process of its own that reaches a crash point, or
// whose runner does.
func (w *world) submitElsewhere(job platforms.Job, point string) *exec.Cmd {
	w.t.Helper()
	content, err := json.Marshal(job)
	require.NoError(w.t, err)
	path := filepath.Join(w.t.TempDir(), "job.json")
	require.NoError(w.t, os.WriteFile(path, content, 0o600))
	executable, err := os.Executable()
	require.NoError(w.t, err)
	command := exec.CommandContext(w.ctx, executable)
	command.Env = append(os.Environ(), w.Environment...)
	command.Env = append(command.Env, jobVariable+"="+path)
	if w.Arm != nil {
		w.Arm(w.t, point)
	} else {
		command.Env = append(command.Env, rundir.CrashVariable+"="+point)
	}
	command.Stderr = os.Stderr
	require.NoError(w.t, command.Start())
	return command
}

// disarm lets everything that is started from now on live.
func (w *world) disarm() {
	w.t.Helper()
	if w.Arm == nil {
		return
	}
	w.Arm(w.t, "")
	w.reopen()
}

// awaitDeath waits until whoever starts runs has died of its crash point. Where that
// is at the far end of a connection the submitting process is killed, too.
func (w *world) awaitDeath(submitter *exec.Cmd, key trial.Key) {
	w.t.Helper()
	if w.Arm != nil {
		w.waitUntil(platforms.Handle{Format: 1, Platform: w.traits.Name, Key: key}, func(report platforms.Report) bool {
			_, err := os.Stat(w.run(report).Path(rundir.JobFile)) // the last thing before the point
			return report.Reason.Code == "half-made" && err == nil
		})
		_ = submitter.Process.Kill() // it may have failed already, for the connection is gone
		require.Error(w.t, submitter.Wait())
		w.disarm()
		return
	}
	w.requireKilled(submitter.Wait())
}

func (w *world) requireKilled(err error) {
	w.t.Helper()
	var exit *exec.ExitError
	require.ErrorAs(w.t, err, &exit)
	require.Equal(w.t, unix.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())
}

// loseRunner submits a job whose runner dies at a crash point.
func (w *world) loseRunner(job platforms.Job, point string) platforms.Handle {
	w.t.Helper()
	require.NoError(w.t, w.submitElsewhere(job, point).Wait())
	w.disarm()
	handle := w.only()
	report := w.waitFor(handle, platforms.Lost)
	require.False(w.t, report.Reason.Zero())
	require.Nil(w.t, report.Exit)
	return handle
}

// only returns the handle of the one run that there is.
func (w *world) only() platforms.Handle {
	w.t.Helper()
	handles, err := w.List(w.ctx)
	require.NoError(w.t, err)
	require.Len(w.t, handles, 1)
	return handles[0]
}

func (w *world) requireNextAttemptRuns() {
	w.t.Helper()
	job := w.Job(w.t, w.key(0, 2), threeSteps())
	require.Equal(w.t, threeStepsValues, values(w.collectEnd(w.submit(job))))
	require.Equal(w.t, 1, w.starts(job))
}

// starts counts how often a job's command was started.
func (w *world) starts(job platforms.Job) int {
	w.t.Helper()
	content, err := os.ReadFile(w.witness(job))
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	require.NoError(w.t, err)
	return bytes.Count(content, []byte("\n"))
}

func (w *world) witness(job platforms.Job) string {
	if w.Witness != nil {
		return w.Witness(job)
	}
	return filepath.Join(job.Workspace.Directory, "witness")
}

func (w *world) run(report platforms.Report) rundir.Run {
	if w.Directory != nil {
		return rundir.Run{Directory: w.Directory(report)}
	}
	return rundir.Run{Directory: report.Output}
}

func (w *world) process(report platforms.Report) rundir.Process {
	w.t.Helper()
	process, err := w.run(report).ReadProcess()
	require.NoError(w.t, err)
	require.NotNil(w.t, process)
	return *process
}

func (w *world) alive(report platforms.Report) []rundir.Identity {
	w.t.Helper()
	left, err := w.run(report).Processes(report.Key)
	require.NoError(w.t, err)
	return left
}

func (w *world) requireNothingAlive(report platforms.Report) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return len(w.alive(report)) == 0 }, patience, 10*time.Millisecond)
}
