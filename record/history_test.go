package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/trial"
)

// history is an experiment to which things happen in any order.
type history struct {
	*fixture
	rt    *rapid.T
	ended map[int]trial.State
}

func (h *history) attemptKey() trial.Key {
	n := rapid.IntRange(0, max(0, h.experiment().Asked-1)).Draw(h.rt, "trial")
	row, err := h.Trial(background, exp, n)
	if err != nil {
		h.rt.Skip("no trials yet")
	}
	return trial.Key{Experiment: exp, Sequence: n, Attempt: rapid.IntRange(0, row.Attempts).Draw(h.rt, "attempt")}
}

// allow fails on any error but those the calls name.
func (h *history) allow(err error, allowed ...error) {
	for _, one := range append(allowed, ErrNotFound) {
		if errors.Is(err, one) {
			return
		}
	}
	require.NoError(h.rt, err)
}

func (h *history) command(*rapid.T) {
	names := []string{trial.Pause, trial.Resume, trial.Stop, trial.EarlyStopCommand, trial.AddTrial}
	name := rapid.SampledFrom(names).Draw(h.rt, "command")
	value := ""
	if name == trial.AddTrial {
		value = "{}"
	}
	h.fixture.command(name, value)
}

func (h *history) askNext(*rapid.T) {
	_, err := h.Ask(background, exp, []Ask{algorithmic(h.experiment().Asked)})
	h.allow(err, ErrStopping)
}

func (h *history) beginAttempt(*rapid.T) {
	key := h.attemptKey()
	before := h.trial(key.Sequence)
	a, err := h.BeginAttempt(background, exp, key.Sequence, "local")
	h.allow(err, ErrSettled, ErrStopping, ErrDecided)
	if err != nil {
		require.Equal(h.rt, before.Attempts, h.trial(key.Sequence).Attempts, "refused, so nothing was begun")
	} else {
		require.Empty(h.rt, a.Outcome)
	}
}

func (h *history) observeAttempt(*rapid.T) {
	phase := rapid.SampledFrom([]string{"waiting", "running", "exited", "lost"}).Draw(h.rt, "phase")
	h.allow(h.Observe(background, h.attemptKey(), Observation{Phase: phase, Drained: phase == "exited"}))
}

func (h *history) collectMetrics(*rapid.T) {
	n := rapid.Int64Range(1, 5).Draw(h.rt, "number")
	record := periodical(n, n, fmt.Sprint(n))
	if n == 5 {
		record.Kind = metrics.Final
	}
	h.allow(h.Collect(background, h.attemptKey(), []metrics.Record{record}, "x"))
}

func (h *history) decideAny(*rapid.T) {
	key := h.attemptKey()
	id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(h.rt, "id")
	won, err := h.Decide(background, Decision{Key: key, Decision: trial.Decision{ID: id, Cause: trial.CauseUser}})
	h.allow(err)
	if err == nil && won.Outcome == "" {
		on, found, err := h.DecisionOn(background, won.Key)
		require.NoError(h.rt, err)
		require.True(h.rt, found)
		require.Equal(h.rt, won, on)
	}
}

func (h *history) settleAny(*rapid.T) {
	s := rapid.SampledFrom([]Settlement{
		succeeded(1),
		{Outcome: OutcomeFault},
		{Outcome: OutcomeInterrupted, Interrupted: &trial.Interrupted{}, Decision: CarriedOut},
		{Outcome: OutcomeEnded, Ended: &trial.Ended{State: trial.UserCanceled}, Decision: CarriedOut},
	}).Draw(h.rt, "settlement")
	h.allow(h.Settle(background, h.attemptKey(), s), ErrSuperseded)
}

func (h *history) finishAny(*rapid.T) {
	status := rapid.SampledFrom([]Status{Done, Stopped, Running}).Draw(h.rt, "status")
	_, err := h.Finish(background, exp, status, Place{Number: h.experiment().LastEvent})
	require.NoError(h.rt, err)
}

// check holds the record to what must be so after any history.
func (h *history) check(*rapid.T) {
	requireCounted(h.fixture)
	ends := map[int]int{}
	for _, event := range h.log() {
		if event.Kind == trial.KindEnded {
			ends[event.Sequence]++
		}
	}
	all, err := h.Trials(background, exp)
	require.NoError(h.rt, err)
	open := 0
	for _, n := range all {
		require.LessOrEqual(h.rt, ends[n.Sequence], 1, "a trial ends once")
		require.Equal(h.rt, ends[n.Sequence] == 1, n.Settled(), "and then it is settled")
		if before, known := h.ended[n.Sequence]; known {
			require.Equal(h.rt, before, n.State)
		}
		if n.Settled() {
			h.ended[n.Sequence] = n.State
		} else {
			open++
		}
	}
	unsettled, err := h.Unsettled(background, exp)
	require.NoError(h.rt, err)
	require.Len(h.rt, unsettled, open)
}

func TestAnyHistoryKeepsItsCountsItsNumbersAndItsEnds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		store, err := Open(place(t))
		require.NoError(rt, err)
		defer store.Close()
		h := &history{&fixture{T: t, Store: store}, rt, map[int]trial.State{}}
		_, err = store.Append(background, exp, CommandEvent(trial.Command{ID: "accept", Name: trial.Accept, Value: json.RawMessage("{}")}))
		require.NoError(rt, err)
		rt.Repeat(map[string]func(*rapid.T){
			"": h.check, "command": h.command, "ask": h.askNext, "begin": h.beginAttempt, "observe": h.observeAttempt,
			"collect": h.collectMetrics, "decide": h.decideAny, "settle": h.settleAny, "finish": h.finishAny,
		})
	})
}
