package activities_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// Where a trial is to end up, beside the states of settled ones.
const (
	again       trial.State = "another attempt"
	interrupted trial.State = "interrupted"
)

func TestAnAttemptIsJudgedByWhatEndedIt(t *testing.T) {
	good, bad := &trial.Exit{}, &trial.Exit{Code: 3}
	killed := &trial.Exit{Code: 137, Signal: "SIGKILL"}
	termed := &trial.Exit{Code: 143, Signal: "SIGTERM"}
	outside := &trial.Exit{Code: 143, Signal: "SIGTERM", Outside: true}
	const none = trial.Cause("")
	const carried, late = record.CarriedOut, record.TooLate
	for _, c := range []struct {
		phase            platforms.Phase
		exit             *trial.Exit
		intent, decision trial.Cause
		state            trial.State
		code, outcome    string // of the reason, and of the decision
	}{
		{platforms.Exited, good, none, none, trial.Succeeded, "", ""},
		{platforms.Exited, bad, none, none, trial.Failed, "exit-code", ""},
		{platforms.Exited, killed, none, none, trial.Failed, "killed", ""},
		{platforms.Exited, good, none, trial.CauseUser, trial.Succeeded, "", late},
		{platforms.Exited, bad, none, trial.CauseEarlyStop, trial.Failed, "exit-code", late},
		{platforms.Exited, termed, trial.CauseUser, trial.CauseUser, trial.UserCanceled, "decided", carried},
		{platforms.Exited, good, trial.CauseUser, trial.CauseUser, trial.UserCanceled, "decided", carried},
		{platforms.Exited, termed, trial.CauseEarlyStop, trial.CauseEarlyStop, trial.EarlyStopped, "decided", carried},
		{platforms.Exited, termed, trial.CauseMaxDuration, none, trial.EarlyStopped, "max-trial-duration", ""},
		{platforms.Exited, termed, trial.CauseMaxDuration, trial.CauseUser, trial.EarlyStopped, "max-trial-duration", carried},
		{platforms.Exited, termed, trial.CauseStop, none, interrupted, record.ReasonStopped, ""},
		{platforms.Exited, termed, trial.CauseStop, trial.CauseUser, trial.UserCanceled, "decided", carried},
		{platforms.Exited, termed, trial.CauseStop, trial.CauseEarlyStop, trial.EarlyStopped, "decided", carried},
		{platforms.Exited, termed, trial.CauseSuperseded, none, again, "superseded", ""},
		{platforms.Exited, termed, trial.CauseHostLost, none, again, "host-lost", ""},
		{platforms.Exited, outside, none, none, again, "stopped-from-outside", ""},
		{platforms.Exited, outside, none, trial.CauseEarlyStop, trial.EarlyStopped, "decided", carried},
		{platforms.Exited, outside, none, trial.CauseUser, trial.UserCanceled, "decided", carried},
		{platforms.Exited, nil, none, none, again, "runner-died", ""},
		{platforms.Lost, nil, none, none, again, "runner-died", ""},
		{platforms.Lost, nil, none, trial.CauseUser, trial.UserCanceled, "decided", carried},
		{platforms.Lost, nil, none, trial.CauseEarlyStop, trial.EarlyStopped, "decided", carried},
		{platforms.Lost, nil, trial.CauseUser, trial.CauseUser, trial.UserCanceled, "decided", carried},
		{platforms.Lost, nil, trial.CauseStop, none, interrupted, record.ReasonStopped, ""},
		{platforms.Absent, nil, none, none, again, "runner-died", ""},
		{platforms.Absent, nil, trial.CauseEarlyStop, trial.CauseEarlyStop, trial.EarlyStopped, "decided", carried},
	} {
		name := fmt.Sprintf("%s %v, intent %q, decision %q", c.phase, c.exit, c.intent, c.decision)
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.ask(1)
			key := f.begin(0)
			o := record.Observation{Phase: string(c.phase), Exit: c.exit, Drained: true}
			if c.decision != none {
				decision := trial.Decision{ID: "d", Cause: c.decision, Reason: trial.Reason{Code: "decided", Text: "so"}}
				_, err := f.Activities.Decide(ctx, id, 0, decision)
				require.NoError(t, err)
			}
			if c.intent != none {
				o.Intent = &trial.Intent{Cause: c.intent}
				if c.intent == c.decision {
					o.Intent.Decision = "d"
				}
			}
			if c.intent == trial.CauseStop {
				f.command(trial.Stop, "")
			}
			require.NoError(t, f.Observe(ctx, key, o))
			f.settlesAs(key, c.state, c.code)
			if c.decision != none {
				decision, _, err := f.DecisionOn(ctx, key)
				require.NoError(t, err)
				require.Equal(t, c.outcome, decision.Outcome)
			}
		})
	}
}

// settlesAs says what an attempt comes to, the second time too.
func (f *fixture) settlesAs(key trial.Key, state trial.State, code string) {
	f.Helper()
	for range 2 {
		settlement, err := f.Activities.Settle(ctx, key)
		require.NoError(f, err)
		require.Equal(f, state == again, settlement.Again())
		require.Equal(f, state == interrupted, settlement.Interrupted)
		if state.Terminal() {
			require.Equal(f, state, settlement.State)
		}
	}
	attempt, err := f.Attempt(ctx, key)
	require.NoError(f, err)
	require.Equal(f, code, attempt.Reason.Code)
}

func TestThePlatformIsForgivenThreeTimesInARow(t *testing.T) {
	f := newFixture(t)
	f.ask(1)
	lost := record.Observation{Phase: string(platforms.Lost), Drained: true}
	var settlement activities.Settlement
	for range activities.MaxFaults {
		require.True(t, settlement.Again())
		key := f.begin(0)
		require.NoError(t, f.Observe(ctx, key, lost))
		var err error
		settlement, err = f.Activities.Settle(ctx, key)
		require.NoError(t, err)
	}
	require.Equal(t, trial.Failed, settlement.State)
	require.Equal(t, "platform-fault", f.row0().Reason.Code)
}

func TestANewMetricBuysAPlatformMorePatience(t *testing.T) {
	f := newFixture(t)
	f.ask(1)
	for attempt := range 2 * activities.MaxFaults {
		key := f.begin(0)
		values := make([]string, attempt+1) // one step more than before
		for i := range values {
			values[i] = "1"
		}
		f.report(key, metrics.Periodical, values...)
		require.NoError(t, f.Observe(ctx, key, record.Observation{Phase: string(platforms.Lost), Drained: true}))
		f.settlesAs(key, again, "runner-died")
	}
}

func TestAnEarlyStoppedTrialHasTheValueThatTheExperimentAsksFor(t *testing.T) {
	for _, included := range []bool{false, true} {
		t.Run(fmt.Sprint(included), func(t *testing.T) {
			f := newFixtureWith(t, func(e *experiment.Experiment) { e.IncludeIntermediate = included })
			f.ask(1)
			key := f.begin(0)
			f.report(key, metrics.Periodical, "1", `{"default": 2.5}`)
			intent := &trial.Intent{Cause: trial.CauseEarlyStop}
			require.NoError(t, f.Observe(ctx, key, record.Observation{Phase: string(platforms.Exited), Exit: &trial.Exit{}, Intent: intent, Drained: true}))
			settlement, err := f.Activities.Settle(ctx, key)
			require.NoError(t, err)
			if included {
				require.Equal(t, 2.5, *settlement.Value)
			} else {
				require.Nil(t, settlement.Value)
			}
		})
	}
}

func TestADismissedTrialEndsAsTheRecordSays(t *testing.T) {
	f := newFixture(t)
	f.ask(2)
	settlement, err := f.Dismiss(ctx, id, 0)
	require.NoError(t, err)
	require.True(t, settlement.Again(), "nobody wants it to end")

	_, err = f.Activities.Decide(ctx, id, 0, trial.Decision{ID: "d", Cause: trial.CauseUser})
	require.NoError(t, err)
	settlement, err = f.Dismiss(ctx, id, 0)
	require.NoError(t, err)
	require.Equal(t, trial.UserCanceled, settlement.State)

	f.command(trial.Stop, "")
	for range 2 {
		settlement, err = f.Dismiss(ctx, id, 1)
		require.NoError(t, err)
		require.True(t, settlement.Interrupted)
	}
}

func TestWhatHasEndedByItselfCannotBeDeclaredLost(t *testing.T) {
	f := newFixture(t)
	f.ask(1)
	key := f.begin(0)
	require.NoError(t, f.SetHandle(ctx, key, []byte(`{}`)))
	ended := record.Observation{Phase: string(platforms.Exited), Exit: &trial.Exit{}}
	require.NoError(t, f.Observe(ctx, key, ended))
	ended.Drained = true
	require.NoError(t, f.Observe(ctx, key, ended))
	require.ErrorContains(t, f.DeclareLost(ctx, key), "has ended by itself")
	settlement, err := f.Activities.Settle(ctx, key)
	require.NoError(t, err)
	require.Equal(t, trial.Succeeded, settlement.State)
}

// A workflow that saw the end of an attempt outlives the record that did.
func TestAnAttemptIsNotJudgedByARecordThatDoesNotKnowItsEnd(t *testing.T) {
	f := newFixture(t)
	f.ask(1)
	key := f.begin(0)
	require.NoError(t, f.Observe(ctx, key, record.Observation{Phase: string(platforms.Running)}))
	_, err := f.Activities.Settle(ctx, key)
	var failure *temporal.ApplicationError
	require.ErrorAs(t, err, &failure)
	require.Equal(t, activities.ErrorForgotten, failure.Type())
	attempt, err := f.Attempt(ctx, key)
	require.NoError(t, err)
	require.Empty(t, attempt.Outcome)
}

func TestOfAServiceThatKeepsNoIntentTheRecordSaysWhoEndedARun(t *testing.T) {
	f := newFixtureWith(t, func(e *experiment.Experiment) { e.Platforms[0].Name = "forgetful" })
	f.ask(3)
	endedByService := func(n int) trial.Key {
		attempt, err := f.BeginAttempt(ctx, id, n, "forgetful")
		require.NoError(t, err)
		return attempt.Key
	}
	fromOutside, decided, stopped := endedByService(0), endedByService(1), endedByService(2)
	_, err := f.Activities.Decide(ctx, id, 1, trial.Decision{ID: "d", Cause: trial.CauseEarlyStop})
	require.NoError(t, err)
	settle := func(key trial.Key) activities.Settlement {
		over := record.Observation{Phase: string(platforms.Exited), Exit: &trial.Exit{Code: 143, Outside: true}, Drained: true}
		require.NoError(t, f.Observe(ctx, key, over))
		settlement, err := f.Activities.Settle(ctx, key)
		require.NoError(t, err)
		return settlement
	}
	require.True(t, settle(fromOutside).Again(), "nobody here wanted it to end")
	require.Equal(t, trial.EarlyStopped, settle(decided).State)
	f.command(trial.Stop, "")
	require.True(t, settle(stopped).Interrupted, "it goes on when the experiment is resumed, and no fault is counted")
}
