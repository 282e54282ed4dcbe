package endtoend

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
)

// short is a plan whose trials take about a second.
func short(trials, concurrency int) Plan {
	return Plan{Trials: trials, Concurrency: concurrency, Steps: "3", Pause: "0.3"}
}

// long is a plan whose trials outlast any restart of the host, which takes some
// seconds on a busy machine.
func long(trials, concurrency int) Plan {
	return Plan{Trials: trials, Concurrency: concurrency, Steps: "20", Pause: "0.5"}
}

// endless is a plan whose trials outlast whatever a test does with them.
func endless(trials, concurrency int) Plan {
	return Plan{Trials: trials, Concurrency: concurrency, Steps: "2000", Pause: "0.5"}
}

func TestStory1_ATrialWhenNothingGoesWrong(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	run := h.Follow(h.Experiment(short(6, 2)))
	finished := run.Finished(Patience)
	require.Equal(t, "DONE", finished.Status)
	require.Equal(t, 6, finished.Trials["SUCCEEDED"])
	require.Zero(t, run.Wait(Patience))
	h.RequireExactlyOnce(run.ID(), 6, nil)
	for id, exported := range h.Export(run.ID()) {
		require.Regexp(t, `"n": ?(5\.0|5|1e3)\b`, string(exported.Parameter), "%s: numbers keep their spelling", id)
	}
	view := h.Show(run.ID())
	require.Equal(t, "DONE", view.Status)
	require.Equal(t, 6.0, view.Best.Metric)
	h.Await("the end of the workflow", func() bool {
		return h.Status(run.ID(), view.Temporal.WorkflowID) == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
	})
	h.RequireNothingLeft()
}

func TestStory2_TheHostIsKilledBeforeItHandsOverTheClaim(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	h.With("PERENNIAL_CRASH_POINT=submit.lock-held-before-exec").Serve()
	first := h.Processes(Host)
	require.Len(t, first, 1)
	run := h.Follow(h.Experiment(short(3, 2)))
	h.Await("the crash of the first host", func() bool { return !anyAlive(h, first) })
	require.Equal(t, "DONE", run.Finished(Patience).Status)
	h.RequireExactlyOnce(run.ID(), 3, nil)
	h.RequireNothingLeft()
}

func TestStory2_TheHostIsKilledInTheMomentARunnerAppears(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	run := h.Follow(h.Experiment(short(4, 2)))
	for range 3 {
		before := map[int]bool{}
		for _, process := range h.Processes(Runner) {
			before[process.PID] = true
		}
		appeared := func() bool {
			for _, process := range h.Processes(Runner) {
				if !before[process.PID] {
					return true
				}
			}
			return run.Ended()
		}
		h.Await("a new runner", appeared)
		h.KillAndAwait(Host)
	}
	require.Equal(t, "DONE", run.Finished(Patience).Status)
	h.RequireExactlyOnce(run.ID(), 4, nil)
	h.RequireNothingLeft()
}

func TestStory2_ARunnerThatIsSlowToStartIsAdoptedAndNeverStartedTwice(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	h.With("PERENNIAL_CRASH_POINT=runner.started-before-child-exec:stall").Serve()
	run := h.Follow(h.Experiment(short(1, 1)))
	h.Await("a stalled runner", func() bool { return len(h.Processes(Runner)) == 1 })
	stalled := h.Processes(Runner)
	h.KillAndAwait(Host)
	h.AwaitState(run.ID(), 0, "RUNNING", 1)
	h.Await("another host", func() bool { return len(h.Processes(Host)) == 1 })
	require.Equal(t, stalled, h.Processes(Runner), "the new host started a second runner")
	h.KillAndAwait(Runner)
	require.Equal(t, "DONE", run.Finished(Patience).Status)
	require.Equal(t, 2, h.Trial(run.ID(), 0).Attempts)
	h.RequireExactlyOnce(run.ID(), 1, map[string]bool{stalled[0].Attempt(): true})
	h.RequireNothingLeft()
}

// daemonised is a trial that leaves a process which has a session of its own and
// no environment, and whose second attempt writes down whether that one lives.
const daemonised = `#!/bin/sh
note() { printf '%s %s %s %s\n' "$PERENNIAL_TRIAL" "$PERENNIAL_ATTEMPT" $$ "$*" >> "$LEDGER"; }
note start "$(cksum < "$PERENNIAL_PARAMETERS" | tr ' ' '-')"
if [ "$PERENNIAL_ATTEMPT" = 1 ]; then
  setsid env -i sleep 600 > /dev/null 2>&1 &
  echo $! > daemon
  note metric 1001
  echo "perennial: intermediate 1001"
  sleep 600
fi
grep -q '^State:.[^ZX]' "/proc/$(cat daemon)/status" 2> /dev/null && note start twin
sleep 2
note metric 1
echo "perennial: final 1"
note end
`

func TestStory3_TheRunnerIsKilled(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	run := h.Follow(h.Experiment(Plan{Trials: 1, Concurrency: 1, Script: daemonised}))
	id := run.ID()
	h.Await("the daemon", func() bool { return len(h.Ledger()[h.Trial(id, 0).ID]) == 1 && exists(h.Work, "daemon") })
	// Nothing but its pid gives the daemon away, so the runner must have noted it.
	daemon, err := os.ReadFile(filepath.Join(h.Work, "daemon"))
	require.NoError(t, err)
	noted := filepath.Join(h.Dir, "experiments", id, "trials", h.Trial(id, 0).ID, "attempt-1", "process.json")
	h.Await("the runner's note of the daemon", func() bool {
		content, _ := os.ReadFile(noted)
		return strings.Contains(string(content), `"pid":`+strings.TrimSpace(string(daemon))+`,`)
	})
	killed := h.KillAndAwait(Runner)
	require.Len(t, killed, 1)
	require.Equal(t, "DONE", run.Finished(Patience).Status)
	require.Equal(t, 2, h.Trial(id, 0).Attempts)
	require.Contains(t, reasons(run, 0), "runner-died", "the user sees why there is a second attempt")
	h.RequireExactlyOnce(id, 1, map[string]bool{killed[0].Attempt(): true})
	h.RequireNothingLeft()
}

func exists(elements ...string) bool {
	_, err := os.Stat(filepath.Join(elements...))
	return err == nil
}

// reasons are all that was said of a trial while it was followed.
func reasons(run *Following, sequence int) (codes []string) {
	for _, event := range run.Events() {
		if event.Trial != nil && event.Trial.Sequence == sequence {
			codes = append(codes, event.Trial.Reason.Code)
		}
	}
	return codes
}

func trialWorkflow(id string, sequence int) string {
	return "experiment-" + id + "/trial-" + strconv.Itoa(sequence)
}

func TestStory4_TerminateOnATrialThatRuns(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	run := h.Follow(h.Experiment(long(2, 2)))
	id := run.ID()
	h.AwaitRunning(id, 2)
	h.Terminate(id, trialWorkflow(id, 0))
	// resume on a running experiment looks after what got lost.
	h.Must("resume", id, "--detach")
	h.Await("another workflow of the trial", func() bool {
		return h.Status(id, trialWorkflow(id, 0)) != enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
	})
	require.Equal(t, "DONE", run.Finished(2*Patience).Status)
	h.RequireExactlyOnce(id, 2, nil)
	h.RequireNothingLeft()
}

func TestStory4_TerminateOnATrialThatWasNotSubmittedYet(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	h.With("PERENNIAL_CRASH_POINT=submit.lock-held-before-exec:stall").Serve()
	run := h.Follow(h.Experiment(short(1, 1)))
	id := run.ID()
	h.Await("the trial", func() bool { return len(h.Trials(id)) == 1 && h.Trial(id, 0).Attempts == 1 })
	h.Terminate(id, trialWorkflow(id, 0))
	h.KillAndAwait(Host)
	require.Equal(t, "DONE", run.Finished(2*Patience).Status)
	h.RequireExactlyOnce(id, 1, nil)
	h.RequireNothingLeft()
}

func TestStory4_TerminateAndResetOnTheExperiment(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	run := h.Follow(h.Experiment(long(6, 2)))
	id := run.ID()
	workflow := h.Show(id).Temporal.WorkflowID
	h.AwaitRunning(id, 2)
	h.Reset(id, workflow)
	h.Await("a run after the reset", func() bool { return h.Status(id, workflow) == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING })
	h.AwaitState(id, 1, "SUCCEEDED", 1)
	h.AwaitRunning(id, 2)
	h.Terminate(id, workflow)
	h.Must("resume", id, "--detach")
	h.Await("a run after the termination", func() bool { return h.Status(id, workflow) == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING })
	require.Equal(t, "DONE", run.Finished(2*Patience).Status)
	h.RequireExactlyOnce(id, 6, nil)
	h.RequireNothingLeft()
}

func TestStory4_ResetOnATrialThatRuns(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	run := h.Follow(h.Experiment(long(2, 1)))
	id := run.ID()
	h.AwaitRunning(id, 1)
	h.Reset(id, trialWorkflow(id, 0))
	require.Equal(t, "DONE", run.Finished(2*Patience).Status)
	h.RequireExactlyOnce(id, 2, nil)
	h.RequireNothingLeft()
}

func TestStory5_StopWithFourRunningAndResume(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	run := h.Follow(h.Experiment(Plan{Trials: 6, Concurrency: 4, Steps: "6", Pause: "1"}))
	id := run.ID()
	h.AwaitRunning(id, 4)
	h.Must("stop", id)
	require.Equal(t, "STOPPED", run.Finished(Patience).Status)
	require.Equal(t, 3, run.Wait(Patience))
	require.Empty(t, h.Processes(Runner, InTrial))
	interrupted := map[string]bool{}
	for _, row := range h.Trials(id) {
		if row.State == "SUCCEEDED" {
			continue
		}
		require.Equal(t, "USER_CANCELED", row.State)
		require.Equal(t, "stopped", row.Reason.Code)
		interrupted[fmt.Sprintf("%s/%d", row.ID, row.Attempts)] = true
	}
	require.GreaterOrEqual(t, len(interrupted), 4)
	require.Equal(t, "DONE", h.Start("resume", id, "--output", "json").Finished(Patience).Status)
	h.RequireExactlyOnce(id, 6, interrupted)
	h.RequireNothingLeft()
}

func TestStory7_MaxTrialNumberIsRaisedAfterDone(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	run := h.Follow(h.Experiment(short(2, 2)))
	id := run.ID()
	require.Equal(t, "DONE", run.Finished(Patience).Status)
	h.Must("update", "max-trials", id, "5")
	h.Await("five trials done", func() bool { view := h.Show(id); return view.Status == "DONE" && view.Trials["SUCCEEDED"] == 5 })
	h.RequireExactlyOnce(id, 5, nil)
	h.RequireNothingLeft()
}

func TestStory9_TheTemporalDatabaseIsDeletedWhileTrialsRun(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	run := h.Follow(h.Experiment(long(4, 2)))
	id := run.ID()
	h.AwaitRunning(id, 2)
	runners := h.Processes(Runner)
	// Nobody may bring a host up between the two.
	run.Signal(syscall.SIGSTOP)
	h.KillAndAwait(Host)
	require.NoError(t, os.RemoveAll(filepath.Join(h.Dir, "temporal")))
	run.Signal(syscall.SIGCONT)
	require.Equal(t, "DONE", run.Finished(2*Patience).Status)
	require.Len(t, runners, 2)
	h.RequireExactlyOnce(id, 4, nil)
	h.RequireNothingLeft()
}

func TestWhatATrialReportsWhileNobodyWatchesIsThereAfterwards(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	run := h.Follow(h.Experiment(short(2, 2)))
	id := run.ID()
	h.AwaitRunning(id, 2)
	h.KillAndAwait(Host, CLI)
	h.Await("the end of the runners", func() bool { return len(h.Processes(Runner)) == 0 })
	began := time.Now()
	require.Equal(t, "DONE", h.Start("resume", id, "--output", "json").Finished(Patience).Status)
	t.Logf("a host killed and everything settled %v after the next command", time.Since(began).Round(10*time.Millisecond))
	h.RequireExactlyOnce(id, 2, nil)
	h.RequireNothingLeft()
}

func TestTheFirstFailureShowsTheEndOfItsErrors(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	lines := "i=0; while [ $i -lt 30 ]; do i=$((i+1)); echo \"line $i\" >&2; done; exit 7\n"
	run := h.Follow(h.Experiment(Plan{Trials: 2, Concurrency: 1, Script: "#!/bin/sh\n" + lines}))
	finished := run.Finished(Patience)
	require.Equal(t, 2, finished.Trials["FAILED"])
	require.Equal(t, 1, run.Wait(Patience), "no trial succeeded")
	shown := ""
	for _, event := range run.Events() {
		if event.Event == "first-failure" {
			require.Empty(t, shown, "shown once")
			shown = event.Stderr
		}
	}
	require.Equal(t, "line 11", strings.Split(strings.TrimSpace(shown), "\n")[0])
	require.Equal(t, "exit-code", h.Trial(run.ID(), 0).Reason.Code)
	require.Equal(t, 1, h.Trial(run.ID(), 0).Attempts, "a user's failure is a result")
	h.RequireNothingLeft()
}
