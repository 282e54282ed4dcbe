package endtoend

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// judged is a trial that reports 100 at every step, but 1 in trial 3, which then
// stays until it is ended.
const judged = `#!/bin/sh
note() { printf '%s %s %s %s\n' "$PERENNIAL_TRIAL" "$PERENNIAL_ATTEMPT" $$ "$*" >> "$LEDGER"; }
note start -
value=100
[ "$PERENNIAL_SEQUENCE" = 3 ] && value=1
for step in 1 2 3 4; do echo "perennial: intermediate $value"; done
[ "$PERENNIAL_SEQUENCE" = 3 ] && sleep 600
echo "perennial: final $value"
note end
`

const medianstop = "assessor:\n  name: Medianstop\n  classArgs:\n    optimize_mode: maximize\n    start_step: 2\n"

func TestStory6_TheAssessorStopsATrial(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	run := h.Follow(h.Experiment(Plan{Trials: 5, Concurrency: 1, Script: judged, More: medianstop}))
	finished := run.Finished(Patience)
	require.Equal(t, 1, finished.Trials["EARLY_STOPPED"])
	require.Equal(t, 4, finished.Trials["SUCCEEDED"])
	stopped := h.Trial(run.ID(), 3)
	require.Equal(t, "EARLY_STOPPED", stopped.State)
	require.Equal(t, 1, stopped.Attempts)
	require.Contains(t, stopped.Reason.Text, "median")
	require.False(t, h.Ledger()[stopped.ID][1].Ended)
	h.RequireNothingLeft()
}

// decide puts the assessor's decision on record as it is when the host dies
// before it tells anybody. No host may run.
func decide(t *testing.T, h *Home, id string, sequence int) {
	store, err := record.Open(filepath.Join(h.Dir, "record.sqlite"))
	require.NoError(t, err)
	defer store.Close()
	_, err = store.Decide(t.Context(), record.Decision{
		Key: trial.Key{Experiment: id, Sequence: sequence, Attempt: 1},
		Decision: trial.Decision{ID: "assessor-test", Cause: trial.CauseEarlyStop,
			Reason: trial.Reason{Code: "assessor", Text: "below the median"}},
	})
	require.NoError(t, err)
}

// outcome is what became of the decision on a trial's first attempt.
func outcome(t *testing.T, h *Home, id string, sequence int) string {
	store, err := record.OpenReadOnly(filepath.Join(h.Dir, "record.sqlite"))
	require.NoError(t, err)
	defer store.Close()
	decision, found, err := store.DecisionOn(t.Context(), trial.Key{Experiment: id, Sequence: sequence, Attempt: 1})
	require.NoError(t, err)
	require.True(t, found)
	return string(decision.Outcome)
}

func TestStory6_TheHostDiesBetweenDecisionAndSignal(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	h.Must("run", h.Experiment(long(2, 2)), "--detach")
	id := h.only()
	h.AwaitRunning(id, 2)
	h.KillAndAwait(Host, CLI)
	decide(t, h, id, 0)
	run := h.Start("resume", id, "--output", "json")
	require.Equal(t, "DONE", run.Finished(Patience).Status)
	require.Equal(t, "EARLY_STOPPED", h.Trial(id, 0).State)
	require.Equal(t, "below the median", h.Trial(id, 0).Reason.Text)
	require.Equal(t, "SUCCEEDED", h.Trial(id, 1).State)
	require.Equal(t, "carried-out", outcome(t, h, id, 0))
	h.RequireNothingLeft()
}

func TestStory6_ADecisionAfterTheTrialsOwnEndIsTooLate(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	h.Must("run", h.Experiment(short(2, 2)), "--detach")
	id := h.only()
	h.AwaitRunning(id, 2)
	h.KillAndAwait(Host, CLI)
	h.Await("the trials' own end", func() bool { return len(h.Processes(Runner)) == 0 })
	decide(t, h, id, 0)
	require.Equal(t, "DONE", h.Start("resume", id, "--output", "json").Finished(Patience).Status)
	h.RequireExactlyOnce(id, 2, nil)
	require.Equal(t, "too-late", outcome(t, h, id, 0))
	h.RequireNothingLeft()
}
