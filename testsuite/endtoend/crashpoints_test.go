package endtoend

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheRunnerDiesAtEachOfItsCrashPoints(t *testing.T) {
	for _, point := range []string{
		"runner.started-before-child-exec", "runner.read-before-journal-append", "runner.child-dead-before-exit-record",
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			h := NewHome(t)
			// Three runners that die in a row would fail the trial.
			h.With("PERENNIAL_CRASH_POINT=" + point + ":" + filepath.Join(t.TempDir(), "crashed")).Serve()
			run := h.Follow(h.Experiment(short(2, 1)))
			h.Await("a runner", func() bool { return len(h.Processes(Runner)) > 0 || h.Trial(run.ID(), 0).Attempts > 1 })
			h.KillAndAwait(Host)
			require.Equal(t, "DONE", run.Finished(2*Patience).Status)
			row := h.Trial(run.ID(), 0)
			require.Greater(t, row.Attempts, 1, "the crash point was not reached")
			crashed := map[string]bool{}
			for attempt := 1; attempt < row.Attempts; attempt++ {
				crashed[fmt.Sprintf("%s/%d", row.ID, attempt)] = true
			}
			h.RequireExactlyOnce(run.ID(), 2, crashed)
			h.RequireNothingLeft()
		})
	}
}

func TestAHostThatDiesAsItStartsATrialStartsEachOnce(t *testing.T) {
	for _, point := range []string{"round.asked-before-start", "round.started-before-answer"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			h := NewHome(t)
			crashed := filepath.Join(t.TempDir(), "crashed")
			h.With("PERENNIAL_CRASH_POINT=" + point + ":" + crashed).Serve()
			run := h.Follow(h.Experiment(short(4, 2)))
			require.Equal(t, "DONE", run.Finished(2*Patience).Status)
			require.FileExists(t, crashed, "the crash point was not reached")
			h.RequireExactlyOnce(run.ID(), 4, nil)
			h.RequireNothingLeft()
		})
	}
}

func TestARunnerThatDiesWhileItEndsItsTrialLeavesNothingAndTheTrialIsEnded(t *testing.T) {
	for _, point := range []string{"cancel.intent-before-TERM", "cancel.TERM-before-KILL"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			h := NewHome(t)
			h.With("PERENNIAL_CRASH_POINT=" + point).Serve()
			run := h.Follow(h.Experiment(long(2, 1)))
			id := run.ID()
			h.AwaitState(id, 0, "RUNNING", 1)
			h.Must("kill", id, "0")
			ended := h.AwaitState(id, 0, "USER_CANCELED", 1)
			require.Equal(t, 1, ended.Attempts)
			h.KillAndAwait(Host)
			require.Equal(t, "DONE", run.Finished(2*Patience).Status)
			require.Equal(t, "SUCCEEDED", h.Trial(id, 1).State)
			h.RequireNothingLeft()
		})
	}
}

func TestAThousandTrialsSurviveKillsOfTheHostAndContinueAsNew(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	run := h.Follow(h.Experiment(Plan{Trials: 1200, Concurrency: 100, Script: "#!/bin/sh\n",
		Platform: "  platform: fake\n  duration: [0.1, 0.5]\n  intermediates: [1, 2]\n  final: 3\n"}))
	id := run.ID()
	for _, reached := range []int{150, 500, 900} {
		h.Await(fmt.Sprintf("%d trials", reached), func() bool { return h.Show(id).Trials["SUCCEEDED"] >= reached })
		h.KillAndAwait(Host)
	}
	began := time.Now()
	finished := run.Finished(3 * Patience)
	t.Logf("the last 300 of 1200 trials took %v after a kill", time.Since(began).Round(time.Second))
	require.Equal(t, 1200, finished.Trials["SUCCEEDED"])
	seen := map[string]bool{}
	for n, row := range h.Trials(id) {
		require.Equal(t, n, row.Sequence)
		require.Equal(t, 1, row.Attempts, "%+v", row)
		require.False(t, seen[row.ID], "trial ids repeat")
		seen[row.ID] = true
	}
	for _, exported := range h.Export(id) {
		require.Equal(t, []string{"1", "2", "3"}, exported.Intermediate)
	}
	h.RequireNothingLeft()
}
