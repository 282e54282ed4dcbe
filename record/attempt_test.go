package record

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/trial"
)

var background = context.Background()

func TestBeginAttemptReturnsTheOpenOneElseTheNext(t *testing.T) {
	f := newFixture(t)
	f.ask(0)
	first := f.begin(0)
	require.Equal(t, trial.Key{Experiment: exp, Sequence: 0, Attempt: 1}, first)
	require.Equal(t, first, f.begin(0))
	live, err := f.Live(background, exp)
	require.NoError(t, err)
	require.Equal(t, map[int]bool{0: true}, live)
	f.fault(first)
	require.Equal(t, trial.Waiting, f.trial(0).State)
	require.Equal(t, "runner-died", f.trial(0).Reason.Code)
	require.Equal(t, 2, f.begin(0).Attempt)
	attempts, err := f.Attempts(background, exp, 0)
	require.NoError(t, err)
	require.Len(t, attempts, 2)
	require.Equal(t, OutcomeFault, attempts[0].Outcome)
	require.EqualValues(t, -1, attempts[1].LastStep)
	_, err = f.BeginAttempt(background, exp, 7, "local")
	require.ErrorIs(t, err, ErrNotFound)
}

func TestNothingIsBegunAfterAStopADecisionOrTheEnd(t *testing.T) {
	f := newFixture(t)
	for n := range 4 {
		f.ask(n)
	}
	open := f.begin(1)
	decide := func(n int) { f.decide(trial.Key{Experiment: exp, Sequence: n}, "user", trial.CauseUser) }
	decide(0)
	decide(1)
	f.settle(f.begin(2), succeeded(1))

	_, err := f.BeginAttempt(background, exp, 0, "local")
	require.ErrorIs(t, err, ErrDecided)
	a, err := f.BeginAttempt(background, exp, 1, "local")
	require.ErrorIs(t, err, ErrDecided)
	require.Equal(t, open, a.Key)
	_, err = f.BeginAttempt(background, exp, 2, "local")
	require.ErrorIs(t, err, ErrSettled)
	f.command(trial.Stop, "")
	a, err = f.BeginAttempt(background, exp, 3, "local")
	require.ErrorIs(t, err, ErrStopping)
	require.Zero(t, a)
}

func (f *fixture) decide(key trial.Key, id string, cause trial.Cause) Decision {
	f.Helper()
	d, err := f.Decide(background, Decision{Key: key, Decision: trial.Decision{ID: id, Cause: cause}})
	require.NoError(f, err)
	return d
}

func TestWhatAPollSaysMakesTheTrialsState(t *testing.T) {
	f := newFixture(t)
	f.ask(0)
	key := f.begin(0)
	require.NoError(t, f.SetHandle(background, key, json.RawMessage(`{"format": 1}`)))
	require.NoError(t, f.SubmitFailed(background, key, trial.Reason{Code: "full", Text: "no room"}))
	require.Equal(t, "full", f.trial(0).Reason.Code)
	require.Equal(t, trial.Waiting, f.trial(0).State)

	started := time.Unix(100, 0).UTC()
	running := Observation{Phase: "running", Started: started, Output: "/out"}
	require.NoError(t, f.Observe(background, key, running))
	require.Equal(t, trial.Running, f.trial(0).State)
	require.Equal(t, started, f.trial(0).Started)
	require.True(t, f.trial(0).Reason.Zero())
	require.Equal(t, map[trial.State]int{trial.Waiting: 0, trial.Running: 1}, f.experiment().Counts)

	over := running
	over.Phase, over.Exit, over.Ended = "exited", &trial.Exit{Code: 3}, time.Unix(200, 0).UTC()
	require.NoError(t, f.Observe(background, key, over))
	require.NoError(t, f.Observe(background, key, running))
	require.Equal(t, "exited", f.attempt(key).Phase, "what is over stays over")
	over.Drained = true
	require.NoError(t, f.Observe(background, key, over))
	a := f.attempt(key)
	require.True(t, a.Drained)
	require.Equal(t, &trial.Exit{Code: 3}, a.Exit)
	require.Equal(t, `{"format": 1}`, string(a.Handle))
	require.Equal(t, trial.Running, f.trial(0).State)
	require.ErrorIs(t, f.SetHandle(background, trial.Key{Experiment: exp, Attempt: 9}, nil), ErrNotFound)
}

func TestATrialThatRunsAgainSaysWhyTheAttemptBeforeFailed(t *testing.T) {
	f := newFixture(t)
	f.ask(0)
	f.fault(f.begin(0))
	require.NoError(t, f.Observe(background, f.begin(0), Observation{Phase: "running"}))
	require.Equal(t, "runner-died", f.trial(0).Reason.Code)
}

func TestOpenAttemptsAreThoseWithoutOutcomeOrWithMetricsToCome(t *testing.T) {
	f := newFixture(t)
	for n := range 3 {
		f.ask(n)
	}
	open, superseded, done := f.begin(0), f.begin(1), f.begin(2)
	f.fault(superseded)
	require.NoError(t, f.Observe(background, done, Observation{Phase: "exited", Drained: true}))
	f.settle(done, succeeded(1))
	attempts, err := f.OpenAttempts(background, "local")
	require.NoError(t, err)
	require.Len(t, attempts, 2)
	require.Equal(t, []trial.Key{open, superseded}, []trial.Key{attempts[0].Key, attempts[1].Key})
	none, err := f.OpenAttempts(background, "remote")
	require.NoError(t, err)
	require.Empty(t, none)
}

func TestMetricsAreOnRecordOnceAndFedOnce(t *testing.T) {
	f := newFixture(t)
	f.ask(0)
	first := f.begin(0)
	f.collect(first, periodical(1, 0, "0.5"), periodical(2, 1, `{"default": 0.6, "loss": NaN}`), periodical(3, 1, "NaN"))
	f.collect(first, periodical(1, 0, "0.5"), periodical(2, 1, `{"default": 0.6, "loss": NaN}`), periodical(3, 1, "NaN"))
	f.fault(first)
	second := f.begin(0)
	f.collect(first, periodical(4, 7, "late"))
	f.collect(second, periodical(1, 0, "0.5"), periodical(2, 1, "0.6"), periodical(3, 2, "0.7"))

	var fed []string
	for _, event := range f.log() {
		if event.Kind == trial.KindIntermediate {
			fed = append(fed, string(event.Data))
		}
	}
	require.Equal(t, []string{`{"step":0,"value":0.5}`, `{"step":1,"value":0.6,"metric":{"default":0.6,"loss":null}}`, `{"step":1,"value":null}`,
		`{"step":2,"value":0.7}`}, fed)
	require.Equal(t, 4, f.attempt(first).Metrics)
	require.EqualValues(t, 7, f.attempt(first).LastStep)
	all, err := f.Metrics(background, exp, 0, 0)
	require.NoError(t, err)
	require.Len(t, all, 3, "attempt 0 is the newest")
	require.Equal(t, second, all[0].Key)
	f.settle(second, succeeded(0.7))
	f.collect(second, periodical(4, 3, "0.8"))
	require.Equal(t, trial.KindEnded, f.log()[len(f.log())-1].Kind, "an ended trial feeds nothing")
}

func TestTheFirstFinalCounts(t *testing.T) {
	f := newFixture(t)
	f.ask(0)
	key := f.begin(0)
	_, found, err := f.Final(background, key)
	require.NoError(t, err)
	require.False(t, found)
	f.collect(key, periodical(1, 0, "1"), metrics.Record{Number: 2, Kind: metrics.Final, Value: `{"default": 2}`},
		metrics.Record{Number: 3, Kind: metrics.Final, Value: "3"})
	final, found, err := f.Final(background, key)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, `{"default": 2}`, final.Value)
	f.settle(key, succeeded(2))
	require.Equal(t, `{"default": 2}`, f.trial(0).Final)
}

func TestSettlingTwiceIsSettlingOnce(t *testing.T) {
	f := newFixture(t)
	f.ask(0)
	key := f.begin(0)
	f.settle(key, succeeded(1))
	before, events := f.experiment(), f.log()
	f.settle(key, succeeded(5))
	f.settle(key, Settlement{Outcome: OutcomeEnded, Ended: &trial.Ended{State: trial.Failed}})
	f.settle(key, Settlement{Outcome: OutcomeInterrupted, Interrupted: &trial.Interrupted{}})
	require.Equal(t, before, f.experiment())
	require.Equal(t, events, f.log())
	n := f.trial(0)
	require.True(t, n.Settled())
	require.Equal(t, trial.Succeeded, n.State)
	require.Equal(t, 1.0, *n.Value)
	require.False(t, n.Ended.IsZero())
	unsettled, err := f.Unsettled(background, exp)
	require.NoError(t, err)
	require.Empty(t, unsettled)
}

func TestASupersededAttemptSettlesNothing(t *testing.T) {
	f := newFixture(t)
	f.ask(0)
	first := f.begin(0)
	f.fault(first)
	f.begin(0)
	f.settle(first, succeeded(1))
	require.False(t, f.trial(0).Settled())
	err := f.Settle(background, trial.Key{Experiment: exp}, succeeded(1))
	require.ErrorIs(t, err, ErrSuperseded, "there is an open attempt")
}

func TestATrialWithoutAnOpenAttemptCanBeSettled(t *testing.T) {
	f := newFixture(t)
	f.ask(0)
	f.ask(1)
	f.fault(f.begin(1))
	for n := range 2 {
		f.settle(trial.Key{Experiment: exp, Sequence: n},
			Settlement{Outcome: OutcomeEnded, Ended: &trial.Ended{State: trial.UserCanceled}})
		require.True(t, f.trial(n).Settled())
	}
	require.Equal(t, 2, f.experiment().Counts[trial.UserCanceled])
}

func TestStopInterruptsAndResumeLetsTrialsWaitAgain(t *testing.T) {
	f := newFixture(t)
	f.ask(0)
	f.ask(1)
	key, none := f.begin(0), trial.Key{Experiment: exp, Sequence: 1}
	f.command(trial.Stop, "")
	interrupted := Settlement{Outcome: OutcomeInterrupted, Interrupted: &trial.Interrupted{Reason: trial.Reason{Text: "stopped"}}}
	for range 2 {
		f.settle(key, interrupted)
		f.settle(none, interrupted)
	}
	require.Equal(t, 2, f.experiment().Counts[trial.UserCanceled])
	require.False(t, f.trial(0).Settled())
	require.Equal(t, ReasonStopped, f.trial(1).Reason.Code)
	require.Equal(t, []trial.Kind{trial.KindInterrupted, trial.KindInterrupted}, f.kinds()[4:])
	f.finish(Stopped)

	f.command(trial.Resume, "")
	require.Equal(t, 2, f.experiment().Counts[trial.Waiting])
	require.Zero(t, f.experiment().Counts[trial.UserCanceled])
	unsettled, err := f.Unsettled(background, exp)
	require.NoError(t, err)
	require.Equal(t, []int{0, 1}, unsettled)
	f.settle(key, interrupted)
	f.settle(none, interrupted)
	require.Equal(t, 2, f.experiment().Counts[trial.Waiting], "a late repetition changes nothing")
	require.Equal(t, 2, f.begin(0).Attempt)
}

func TestAResumeThatOvertookAStopReopensTheExperiment(t *testing.T) {
	f := newFixture(t)
	f.ask(0)
	key := f.begin(0)
	f.command(trial.Stop, "")
	f.settle(key, Settlement{Outcome: OutcomeInterrupted, Interrupted: &trial.Interrupted{}})
	f.command(trial.Resume, "")
	require.Equal(t, Stopping, f.experiment().Status)
	f.finish(Running)
	require.Equal(t, Running, f.experiment().Status)
	require.Equal(t, trial.Waiting, f.trial(0).State)
}

func TestTheFirstDecisionOnAnAttemptWins(t *testing.T) {
	f := newFixture(t)
	f.ask(0)
	current := trial.Key{Experiment: exp}
	key := f.begin(0)
	first := f.decide(current, "a", trial.CauseEarlyStop)
	require.Equal(t, key, first.Key)
	require.Equal(t, first, f.decide(key, "b", trial.CauseUser))
	open, err := f.OpenDecisions(background)
	require.NoError(t, err)
	require.Equal(t, []Decision{first}, open)
	on, found, err := f.DecisionOn(background, key)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, first, on)

	f.settle(key, Settlement{Outcome: OutcomeEnded, Ended: &trial.Ended{State: trial.EarlyStopped}, Decision: CarriedOut})
	open, err = f.OpenDecisions(background)
	require.NoError(t, err)
	require.Empty(t, open)
	require.Equal(t, CarriedOut, f.decide(key, "c", trial.CauseUser).Outcome)
	require.Equal(t, TooLate, f.decide(current, "d", trial.CauseUser).Outcome)
}

func TestADecisionThatNobodyCarriedOutIsTooLateOnceTheTrialHasEnded(t *testing.T) {
	f := newFixture(t)
	f.ask(0)
	key := f.begin(0)
	f.decide(key, "a", trial.CauseUser)
	f.settle(key, succeeded(1))
	on, _, err := f.DecisionOn(background, key)
	require.NoError(t, err)
	require.Equal(t, TooLate, on.Outcome)
}

func TestADecisionOutlivesTheFaultOfItsAttempt(t *testing.T) {
	f := newFixture(t)
	f.ask(0)
	key := f.begin(0)
	made := f.decide(key, "a", trial.CauseUser)
	f.fault(key)
	_, err := f.BeginAttempt(background, exp, 0, "local")
	require.ErrorIs(t, err, ErrDecided)
	key.Attempt++
	on, found, err := f.DecisionOn(background, key)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, made, on)
}

func TestAStopThatWasResumedDecidesNothingMore(t *testing.T) {
	f := newFixture(t)
	f.ask(0)
	current := trial.Key{Experiment: exp}
	f.decide(current, "stop", trial.CauseStop)
	f.command(trial.Stop, "")
	f.settle(current, Settlement{Outcome: OutcomeInterrupted, Interrupted: &trial.Interrupted{}, Decision: CarriedOut})
	f.finish(Stopped)
	f.command(trial.Resume, "")
	require.Empty(t, f.decide(current, "user", trial.CauseUser).Outcome, "a new decision counts")
	f.settle(current, Settlement{Outcome: OutcomeFault, Decision: TooLate})
	_, found, err := f.DecisionOn(background, f.begin(0))
	require.NoError(t, err)
	require.False(t, found)
}

func TestFaultsCountAttemptsInVain(t *testing.T) {
	f := newFixture(t)
	f.ask(0)
	count := func() int {
		faults, err := f.Faults(background, exp, 0)
		require.NoError(t, err)
		return faults
	}
	for range 2 {
		f.fault(f.begin(0))
	}
	require.Equal(t, 2, count())
	key := f.begin(0)
	require.Zero(t, count())
	f.collect(key, periodical(1, 0, "1"))
	f.fault(key)
	require.Zero(t, count(), "it brought a metric")
	key = f.begin(0)
	f.collect(key, periodical(1, 0, "1"))
	f.fault(key)
	require.Equal(t, 1, count(), "what it brought was known")
	require.Equal(t, []trial.Kind{trial.KindCommand, trial.KindAsked, trial.KindIntermediate}, f.kinds())
}

func TestAFinalThatAnEarlierAttemptBroughtIsNothingNew(t *testing.T) {
	f := newFixture(t)
	f.ask(0)
	for attempt := range 4 {
		key := f.begin(0)
		f.collect(key, metrics.Record{Number: 1, Kind: metrics.Final, Value: "1"})
		f.fault(key)
		faults, err := f.Faults(background, exp, 0)
		require.NoError(t, err)
		require.Equal(t, attempt, faults)
	}
}

func TestTheBestResultFollowsTheTunersMode(t *testing.T) {
	for tuner, best := range map[string]float64{
		`{"name":"Random"}`: 3, `{"name":"TPE"}`: 1, `{"name":"tpe","classArgs":{"optimize_mode":"maximize"}}`: 3,
		`{"name":"Evolution","classArgs":{"optimize_mode":"minimize"}}`: 1, `{"className":"mine.Tuner","classArgs":[1]}`: 3,
	} {
		f := newFixtureWith(t, tuner)
		for n, value := range []float64{2, 1, 3, 2} {
			f.ask(n)
			f.settle(f.begin(n), succeeded(value))
		}
		require.Equal(t, best, f.experiment().Best.Value, tuner)
		require.Equal(t, trial.ID(exp, f.experiment().Best.Sequence), f.experiment().Best.TrialID)
	}
}

func TestADecisionOnAllTrialsLeavesThoseAloneThatHaveOneOrEnded(t *testing.T) {
	f := newFixture(t)
	_, err := f.Ask(background, exp, []Ask{asked(0, `{}`), asked(1, `{}`), asked(2, `{}`)})
	require.NoError(t, err)
	first, err := f.Decide(background, Decision{Key: trial.Key{Experiment: exp, Sequence: 1}, Decision: trial.Decision{ID: "first", Cause: trial.CauseUser}})
	require.NoError(t, err)
	require.NoError(t, f.Settle(background, trial.Key{Experiment: exp, Sequence: 2}, Settlement{Outcome: OutcomeEnded, Ended: &trial.Ended{State: trial.Failed}}))
	for range 2 {
		require.NoError(t, f.DecideAll(background, exp, trial.Decision{ID: "all", Cause: trial.CauseEarlyStop}))
	}
	open, err := f.OpenDecisions(background)
	require.NoError(t, err)
	require.Len(t, open, 2)
	require.Equal(t, "all", open[0].Decision.ID)
	require.Equal(t, 1, open[0].Key.Attempt, "the attempt that would begin next")
	require.Equal(t, first, open[1])
	events, err := f.Events(background, exp, 0, 0)
	require.NoError(t, err)
	for i, event := range events {
		require.EqualValues(t, i+1, event.Number)
	}
}
