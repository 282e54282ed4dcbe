package stories

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/testsuite/kube"
)

func TestAnExperimentInPodsIsStoppedResumedAndGivenMoreTrials(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	proxy := w.through(&kube.Proxy{})
	run := w.follow(endtoend.Plan{Trials: 5, Concurrency: 4, Steps: "PERENNIAL_SEQUENCE < 4 && PERENNIAL_ATTEMPT == 1 ? 400 : 3", Pause: "0.3"})
	id := run.ID()
	w.awaitReported(id, 4)
	w.Must("stop", id)
	require.Equal(t, "STOPPED", run.Finished(2*endtoend.Patience).Status)
	interrupted := map[string]bool{}
	for _, row := range w.Trials(id) {
		require.Equal(t, "USER_CANCELED", row.State, "%+v", row)
		require.Equal(t, "stopped", row.Reason.Code)
		require.False(t, w.Ledger()[row.ID][1].Ended)
		interrupted[row.ID+"/1"] = true
	}
	require.Len(t, interrupted, 4)
	require.Equal(t, "DONE", w.Start("resume", id, "--output", "json").Finished(3*endtoend.Patience).Status)
	before := sum(proxy.Calls())
	w.Must("update", "max-trials", id, "8")
	w.AwaitFor(3*endtoend.Patience, "eight trials", func() bool { view := w.Show(id); return view.Status == "DONE" && view.Trials["SUCCEEDED"] == 8 })
	t.Logf("%d calls for the last three trials; all: %v", sum(proxy.Calls())-before, proxy.Calls())
	w.RequireExactlyOnce(id, 8, interrupted)
	require.Equal(t, 8.0, w.Show(id).Best.Metric)
	require.Contains(t, w.Must("logs", id, "7"), fmt.Sprintf("perennial: final %d", 8), "the output of what is gone from the cluster")
}

func sum(counted map[string]int) (all int) {
	for _, count := range counted {
		all += count
	}
	return all
}

// judged is a trial that reports 100 at every step, but 1 in trial 3, which then
// stays until it is ended.
const judged = `#!/bin/sh
value=100
[ "$PERENNIAL_SEQUENCE" = 3 ] && value=1
for step in 1 2 3 4; do echo "perennial: intermediate $value"; done
[ "$PERENNIAL_SEQUENCE" = 3 ] && sleep 600
echo "perennial: final $value"
`

func TestAnAssessorStopsATrialInItsPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.follow(endtoend.Plan{Trials: 5, Concurrency: 1, Script: judged,
		More: "assessor:\n  name: Medianstop\n  classArgs:\n    optimize_mode: maximize\n    start_step: 2\n"})
	finished := run.Finished(4 * endtoend.Patience)
	require.Equal(t, map[string]int{"SUCCEEDED": 4, "EARLY_STOPPED": 1}, without0(finished.Trials))
	stopped := w.Trial(run.ID(), 3)
	require.Equal(t, "EARLY_STOPPED", stopped.State)
	require.Equal(t, 1, stopped.Attempts)
	require.Contains(t, stopped.Reason.Text, "median")
}

func without0(counted map[string]int) map[string]int {
	counts := map[string]int{}
	for what, count := range counted {
		if count > 0 {
			counts[what] = count
		}
	}
	return counts
}
