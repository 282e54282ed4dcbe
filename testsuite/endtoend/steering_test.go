package endtoend

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestATrialOfOnesOwnATrialKilledByHandAndNewLimits(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	run := h.Follow(h.Experiment(Plan{Trials: 3, Concurrency: 1, Steps: "12", Pause: "0.5"}))
	id := run.ID()
	h.AwaitRunning(id, 1)
	h.Must("kill", id, "0")
	killed := h.AwaitState(id, 0, "USER_CANCELED", 1)
	require.Equal(t, "killed", killed.Reason.Code)
	h.Must("trials", "add", id, `{"x": 0.25, "n": 5.0}`)
	h.Must("update", "max-trials", id, "4")
	h.Must("update", "concurrency", id, "3")
	h.AwaitRunning(id, 2)
	h.Must("tag", id, "steered", "by=hand")
	require.Equal(t, "DONE", run.Finished(2*Patience).Status)
	h.Must("tag", id, "--remove", "steered", "by=command")
	require.Contains(t, h.Must("ls", "--tag", "by=command"), id)
	require.NotContains(t, h.Must("ls", "--tag", "steered"), id)
	require.Equal(t, "DONE", h.Show(id).Status, "a tag goes on with nothing")
	rows, spelled := h.Trials(id), false
	require.Len(t, rows, 4)
	for _, exported := range h.Export(id) {
		spelled = spelled || strings.Contains(string(exported.Parameter), `5.0`) && strings.Contains(string(exported.Parameter), `0.25`)
	}
	require.True(t, spelled, "the numbers of the trial of one's own are spelled as they were given")
	h.RequireNothingLeft()
}

func TestAPausedExperimentStartsNothingUntilItIsResumed(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	run := h.Follow(h.Experiment(short(4, 1)))
	id := run.ID()
	h.AwaitRunning(id, 1)
	h.Must("pause", id)
	h.Await("the end of what ran", func() bool {
		return h.Show(id).Trials["RUNNING"] == 0 && h.Show(id).Trials["WAITING"] == 0 || h.Show(id).Paused && len(h.Processes(Runner)) == 0
	})
	started := len(h.Ledger())
	require.Less(t, started, 4)
	h.KillAndAwait(Host)
	h.Serve()
	require.True(t, h.Show(id).Paused, "also the next host knows")
	require.Len(t, h.Ledger(), started)
	h.Must("resume", id, "--detach")
	require.Equal(t, "DONE", run.Finished(Patience).Status)
	h.RequireExactlyOnce(id, 4, nil)
	h.RequireNothingLeft()
}

func TestMaxTrialDurationIsKeptWhileNobodyWatches(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	plan := long(1, 1)
	plan.More = "maxTrialDuration: 3s\n"
	h.Must("run", h.Experiment(plan), "--detach")
	id := h.only()
	h.AwaitRunning(id, 1)
	h.KillAndAwait(Host)
	h.Await("the runner ends its trial by itself", func() bool { return len(h.Processes(Runner, InTrial)) == 0 })
	run := h.Start("resume", id, "--output", "json")
	finished := run.Finished(Patience)
	require.Equal(t, 1, finished.Trials["EARLY_STOPPED"])
	require.Equal(t, "max-trial-duration", h.Trial(id, 0).Reason.Code)
	require.Equal(t, 1, run.Wait(Patience), "no trial succeeded")
	h.RequireNothingLeft()
}

func TestNoTrialBeginsAfterMaxExperimentDuration(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	plan := Plan{Trials: 50, Concurrency: 2, Steps: "12", Pause: "0.5", More: "maxExperimentDuration: 8s\n"}
	run := h.Follow(h.Experiment(plan))
	id := run.ID()
	require.Equal(t, "DONE", run.Finished(Patience).Status)
	rows := h.Trials(id)
	for _, row := range rows {
		require.Equal(t, "SUCCEEDED", row.State, "what ran at the deadline went on to its end")
		// The first two take six seconds and more, the second two as long again.
		require.Less(t, row.began(t).Sub(rows[0].began(t)), 11*time.Second, "trial %d", row.Sequence)
	}
	require.Zero(t, h.Run("update", "max-duration", id, "1m").Code)
	h.AwaitRunning(id, 2)
	h.Must("stop", id, "--early-stop")
	h.RequireNothingLeft()
}

func (r Trial) began(t *testing.T) time.Time {
	require.NotNil(t, r.Start)
	began, err := time.Parse(time.RFC3339Nano, *r.Start)
	require.NoError(t, err)
	return began
}

func TestATrialThatIgnoresTERMIsKilledWithAllItStarted(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	script := "#!/bin/sh\ntrap '' TERM\n(setsid sleep 600 &)\nsleep 600 &\nwait\nwait\nsleep 600\n"
	run := h.Follow(h.Experiment(Plan{Trials: 1, Concurrency: 1, Script: script}))
	id := run.ID()
	h.Await("its processes", func() bool { return len(h.Processes(InTrial)) >= 3 })
	h.Must("stop", id)
	require.Equal(t, "STOPPED", run.Finished(Patience).Status)
	require.Empty(t, h.Processes(Runner, InTrial))
	h.RequireNothingLeft()
}

func TestAHostThatIsAskedToEndLeavesTrialsAlone(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	run := h.Follow(h.Experiment(long(2, 2)))
	id := run.ID()
	h.AwaitRunning(id, 2)
	runners := h.Processes(Runner)
	run.Signal(syscall.SIGINT)
	require.Equal(t, 130, run.Wait(Patience))
	h.Must("serve", "--stop")
	require.Empty(t, h.Processes(Host))
	require.Equal(t, runners, h.Processes(Runner))
	require.Equal(t, "DONE", h.Start("resume", id, "--output", "json").Finished(Patience).Status)
	h.RequireExactlyOnce(id, 2, nil)
	h.RequireNothingLeft()
}

func TestAHostWithNothingToDoEndsByItselfAndTheNextCommandStartsOne(t *testing.T) {
	t.Parallel()
	h := NewHome(t).With("PERENNIAL_IDLE_LIMIT=1s")
	for run := range 2 {
		id := h.Follow(h.Experiment(Plan{Trials: 1, Concurrency: 1, Steps: "4", Pause: "0.5"})).Finished(Patience).ID
		h.Await("the end of the host", func() bool { return len(h.Processes(Host)) == 0 })
		require.Len(t, h.Ledger(), run+1)
		require.Equal(t, "DONE", h.Show(id).Status)
		require.Empty(t, h.Processes(Host), "whoever only reads needs none")
	}
	wrong := h.With("PERENNIAL_IDLE_LIMIT=soon").Run("serve", "--detach")
	require.NotZero(t, wrong.Code)
	require.Contains(t, wrong.Stderr, "$PERENNIAL_IDLE_LIMIT")
	h.RequireNothingLeft()
}
