package openpai_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
	"github.com/perennial-ml/perennial/trial"
)

func reusing(t *testing.T) *world {
	return newWorld(t, map[string]any{"reuseMode": nil})
}

// environment is the name of the only job that is not over.
func (w *world) environment() string {
	var alive []string
	for name, state := range w.States() {
		if state == "RUNNING" {
			alive = append(alive, name)
		}
	}
	require.Len(w.t, alive, 1)
	return alive[0]
}

func (w *world) begin(job platforms.Job) platforms.Handle {
	w.t.Helper()
	handle, err := w.Submit(w.t.Context(), job)
	require.NoError(w.t, err)
	return handle
}

func (w *world) cleanUp() {
	w.t.Helper()
	require.NoError(w.t, w.Platform.(platforms.WithCleanup).CleanUp(w.t.Context()))
	require.Eventually(w.t, func() bool { return w.Alive() == 0 }, time.Minute, 20*time.Millisecond, "nothing is billed after its experiment")
}

func TestOneEnvironmentTakesTrialAfterTrialAndEndsWithItsExperiment(t *testing.T) {
	t.Parallel()
	w := reusing(t)
	final := 0.5
	for i := range 20 {
		handle := w.begin(w.job(i, platformtest.Behaviour{Intermediates: []float64{1}, Final: &final}))
		report := w.becomes(handle, platforms.Exited)
		require.Equal(t, 0, report.Exit.Code)
		require.Len(t, report.Journal.Records, 2)
	}
	require.Equal(t, 1, w.Calls("submit"), "20 trials, one job")
	require.Zero(t, w.Refused())
	w.cleanUp()
	handle := w.begin(w.job(99, platformtest.Behaviour{Final: &final}))
	require.Equal(t, 0, w.becomes(handle, platforms.Exited).Exit.Code, "an experiment that is resumed has another")
	require.Equal(t, 2, w.Calls("submit"))
	w.cleanUp()
}

func TestAnEnvironmentThatDiesLosesTheAttemptItHadBegunAndNoOther(t *testing.T) {
	t.Parallel()
	w := reusing(t)
	w.Nodes = 1
	running := w.begin(w.job(1, platformtest.Behaviour{Forever: true}))
	report := w.becomes(running, platforms.Running)
	require.Contains(t, report.Handle.URL, w.environment())
	waiting := w.begin(w.job(2, platformtest.Behaviour{}))
	require.Contains(t, w.becomes(waiting, platforms.Waiting).Reason.Text, "virtual cluster", "the cluster is full, and it says so")
	w.Kill(w.environment())
	require.Contains(t, w.becomes(running, platforms.Lost).Reason.Text, "died")
	require.Equal(t, 0, w.becomes(waiting, platforms.Exited).Exit.Code)
	again := w.job(1, platformtest.Behaviour{})
	again.Key.Attempt = 2
	require.Equal(t, 0, w.becomes(w.begin(again), platforms.Exited).Exit.Code)
	w.cleanUp()
}

func TestAnEnvironmentThatDiesBetweenItsLeaseAndTheStartLosesNothing(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"mailbox.before-lease", "mailbox.leased-before-start"} {
		w := reusing(t)
		w.Environment = []string{rundir.CrashVariable + "=" + point + ":" + filepath.Join(t.TempDir(), "crashed")}
		handle := w.begin(w.job(1, platformtest.Behaviour{}))
		require.Equal(t, platforms.Waiting, w.report(handle).Phase)
		require.Eventually(t, func() bool {
			for _, state := range w.States() {
				if state == "FAILED" {
					return true
				}
			}
			return false
		}, time.Minute, 20*time.Millisecond, "the first environment dies")
		require.Equal(t, 0, w.becomes(handle, platforms.Exited).Exit.Code, point)
		w.cleanUp()
	}
}

func TestATrialsRunnerThatDiesLosesItsTrialAndLeavesTheEnvironment(t *testing.T) {
	t.Parallel()
	w := reusing(t)
	job := w.job(1, platformtest.Behaviour{Forever: true})
	job.Command = "kill -9 $PPID; sleep 600"
	handle := w.begin(job)
	w.becomes(handle, platforms.Lost)
	require.Equal(t, 0, w.becomes(w.begin(w.job(2, platformtest.Behaviour{})), platforms.Exited).Exit.Code)
	require.Equal(t, 1, w.Calls("submit"))
	w.cleanUp()
}

func TestAnEnvironmentWithNothingToDoEndsByItself(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, map[string]any{"reuseMode": nil}, 2*time.Second)
	w.becomes(w.begin(w.job(1, platformtest.Behaviour{})), platforms.Exited)
	// Nobody asks any more: whoever drove the experiment is gone.
	require.Eventually(t, func() bool { return w.Alive() == 0 }, time.Minute, 20*time.Millisecond)
	require.Equal(t, 0, w.becomes(w.begin(w.job(2, platformtest.Behaviour{})), platforms.Exited).Exit.Code)
	require.GreaterOrEqual(t, w.Calls("submit"), 2)
}

func TestEnvironmentsThatNeverHaveATrialAreNotStartedAgainAndAgain(t *testing.T) {
	t.Parallel()
	w := reusing(t)
	w.Cluster.Idle = true // as with an image that does not exist
	handle := w.begin(w.job(1, platformtest.Behaviour{}))
	for range 20 {
		w.pass(time.Second)
		w.report(handle)
	}
	report := w.report(handle)
	require.Equal(t, platforms.Waiting, report.Phase)
	require.Contains(t, report.Reason.Text, "over before it had a trial")
	require.Equal(t, 1, w.Calls("submit"))
	require.NoError(t, w.Cancel(t.Context(), handle, trial.Intent{Cause: trial.CauseUser}))
	require.Equal(t, platforms.Exited, w.becomes(handle, platforms.Exited).Phase)
	require.True(t, strings.HasPrefix(w.report(handle).Exit.Text, "never started"))
}

func TestAStorageThatIsNotThereFailsTheTrialAndNotSilently(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]any{"reuseMode": true, "storageConfigName": "nowhere"})
	_, err := w.Submit(t.Context(), w.job(1, platformtest.Behaviour{}))
	require.Equal(t, platforms.NotFound, platforms.CodeOf(err))
	require.ErrorContains(t, err, "Storage nowhere is not found")
}

func TestHundredsOfTrialsInEnvironmentsNeverMeetALimit(t *testing.T) {
	t.Parallel()
	w := reusing(t)
	w.RunMany(platformtest.Many(t, 200), 10, "echo perennial: final 0.5", func() { w.pass(5 * time.Second) }) // as often as jobs are listed
	require.Zero(t, w.Refused())
	require.Less(t, w.Calls("submit"), 60, "that is what an hour takes")
	t.Logf("calls: %v", w.AllCalls())
	w.cleanUp()
}
