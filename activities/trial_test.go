package activities_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/assessors"
	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

func TestTrialsThatWaitForRoomCostWhatOneDoes(t *testing.T) {
	f := newFixture(t)
	const waiting = 30
	f.ask(waiting)
	f.platform.refuse(&platforms.Error{Code: platforms.Exhausted, Verb: "submit", After: 20 * time.Millisecond, Err: errors.New("all GPUs are taken")})
	var trials sync.WaitGroup
	for n := range waiting {
		key := f.begin(n)
		trials.Go(func() { _, _ = call[any](f, f.RunAttempt, key) })
	}
	for n := range waiting {
		require.Eventually(t, func() bool {
			row, err := f.Trial(ctx, id, n)
			return err == nil && row.Reason.Code == "submit-exhausted" && strings.Contains(row.Reason.Text, "all GPUs are taken")
		}, patience, time.Millisecond, "trial %d says why it waits", n)
	}
	tries, read := f.platform.submitted(), f.Reads()
	require.Eventually(t, func() bool { return f.platform.submitted() >= tries+20 }, patience, time.Millisecond)
	require.Less(t, f.Reads().Queries-read.Queries, int64(21*12), "what one try reads")
	f.platform.refuse(nil)
	for n := range waiting {
		f.platform.report(trial.Key{Experiment: id, Sequence: n, Attempt: 1}, platforms.Report{Phase: platforms.Exited, Exit: &trial.Exit{}})
	}
	trials.Wait()
}

func TestAnAttemptWithoutRoomWaitsWithTheReasonAndIsSubmittedOnce(t *testing.T) {
	f := newFixture(t)
	f.ask(1)
	key := f.begin(0)
	f.platform.refuse(platforms.Errorf(platforms.Exhausted, "submit", "no room"))
	go call[any](f, f.RunAttempt, key) // ends with its test
	require.Eventually(t, func() bool { return f.row0().Reason.Code == "submit-exhausted" }, patience, time.Millisecond)
	require.Equal(t, trial.Waiting, f.row0().State)

	f.platform.refuse(nil)
	require.Eventually(t, func() bool { return f.handle(key) != nil }, patience, time.Millisecond)
	submits := f.platform.submitted()
	go call[any](f, f.RunAttempt, key)
	require.Never(t, func() bool { return f.platform.submitted() > submits }, 50*time.Millisecond, time.Millisecond,
		"what has a handle is not submitted again")
	require.Equal(t, 1, f.begin(0).Attempt)
}

func TestAnAttemptWithoutRoomThatIsDecidedToEndIsNeverSubmitted(t *testing.T) {
	f := newFixture(t)
	f.ask(1)
	key := f.begin(0)
	f.platform.refuse(platforms.Errorf(platforms.Exhausted, "submit", "no room"))
	go call[any](f, f.RunAttempt, key)
	require.Eventually(t, func() bool { return f.platform.submitted() > 0 }, patience, time.Millisecond)
	_, err := f.Activities.Decide(ctx, id, 0, trial.Decision{ID: "d", Cause: trial.CauseUser})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return f.handle(key) != nil }, patience, time.Millisecond)
	require.Equal(t, []trial.Intent{{Cause: trial.CauseUser, Decision: "d"}}, f.platform.cancelled())
}

func TestAnAttemptIsNotLaunchedWhileItsExperimentIsPaused(t *testing.T) {
	f := newFixture(t)
	f.ask(2)
	unanswered, waiting := f.begin(0), f.begin(1)
	require.NoError(t, f.Store.SubmitFailed(ctx, unanswered, trial.Reason{Code: "submit-transient", Text: "no answer"}))
	f.command(trial.Pause, "")
	go call[any](f, f.RunAttempt, waiting)
	require.Eventually(t, func() bool {
		row, err := f.Trial(ctx, id, 1)
		return err == nil && row.Reason.Code == "paused"
	}, patience, time.Millisecond)
	require.Zero(t, f.platform.submitted())
	go call[any](f, f.RunAttempt, unanswered)
	require.Eventually(t, func() bool { return f.handle(unanswered) != nil }, patience, time.Millisecond, "it may run already")
	require.Nil(t, f.handle(waiting))
	f.command(trial.Resume, "")
	require.Eventually(t, func() bool { return f.handle(waiting) != nil }, patience, time.Millisecond)
}

func TestAnAttemptThatIsGivenUpIsNotSubmittedAnyMore(t *testing.T) {
	f := newFixture(t)
	f.ask(1)
	key := f.begin(0)
	require.ErrorContains(t, f.DeclareLost(ctx, key), "no attempt of this trial runs")
	require.NoError(t, f.Store.Settle(ctx, key, record.Settlement{Outcome: record.OutcomeFault}))
	_, err := call[any](f, f.RunAttempt, key)
	require.NoError(t, err)
	require.Zero(t, f.platform.submitted())
}

func TestAnAttemptWhoseSubmitGotNoAnswerCanBeDeclaredLost(t *testing.T) {
	// The machine it was meant for may be gone for good, and nobody else ever asked.
	f := newFixture(t)
	f.ask(1)
	key := f.begin(0)
	f.platform.refuse(platforms.Errorf(platforms.Exhausted, "submit", "no room"))
	go call[any](f, f.RunAttempt, key)
	require.Eventually(t, func() bool { return f.row0().Reason.Code == "submit-exhausted" }, patience, time.Millisecond)
	require.ErrorContains(t, f.DeclareLost(ctx, key), "no attempt of this trial runs", "it has an answer")

	f.platform.refuse(platforms.Errorf(platforms.Transient, "submit", "no route to host"))
	require.Eventually(t, func() bool { return f.row0().Reason.Code == "submit-transient" }, patience, time.Millisecond)
	require.NoError(t, f.DeclareLost(ctx, key))
	submits := f.platform.submitted()
	f.platform.mu.Lock()
	f.platform.reports[key] = platforms.Report{Key: key, Phase: platforms.Absent}
	f.platform.mu.Unlock()
	require.Eventually(t, func() bool {
		attempt, err := f.Attempt(ctx, key)
		return err == nil && attempt.Drained
	}, patience, time.Millisecond, "it is observed until there is nothing of it")
	_, err := call[any](f, f.RunAttempt, key)
	require.NoError(t, err)
	require.Equal(t, submits, f.platform.submitted())
	require.Equal(t, 2, f.begin(0).Attempt)
}

func TestAJobThatThePlatformCallsInvalidFailsItsTrial(t *testing.T) {
	f := newFixture(t)
	f.ask(1)
	key := f.begin(0)
	f.platform.refuse(platforms.Errorf(platforms.Invalid, "submit", "no such image"))
	for range 2 {
		_, err := call[any](f, f.RunAttempt, key)
		require.True(t, activities.TrialFailed(err), "%v", err)
		settlement, err := f.Activities.Settle(ctx, key)
		require.NoError(t, err)
		require.Equal(t, trial.Failed, settlement.State)
	}
	require.Equal(t, "refused", f.row0().Reason.Code)
	require.Equal(t, 1, f.platform.submitted())
}

func TestNothingIsBegunThatShallEnd(t *testing.T) {
	for name, end := range map[string]func(*fixture){
		"stop": func(f *fixture) { f.command(trial.Stop, "") },
		"decision": func(f *fixture) {
			_, err := f.Activities.Decide(ctx, id, 0, trial.Decision{ID: "d", Cause: trial.CauseUser})
			require.NoError(f, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.ask(1)
			end(f)
			begun, err := f.Begin(ctx, id, 0)
			require.NoError(t, err)
			require.Equal(t, activities.BeginAnswer{Refused: true}, begun)
			require.Zero(t, f.row0().Attempts)
		})
	}
}

func TestAnAttemptWithoutAHandleIsCancelledByItsKey(t *testing.T) {
	f := newFixture(t)
	f.ask(1)
	key := f.begin(0)
	_, err := f.Activities.Decide(ctx, id, 0, trial.Decision{ID: "d", Cause: trial.CauseEarlyStop})
	require.NoError(t, err)
	require.NoError(t, f.CancelTrial(ctx, key))
	require.Equal(t, []trial.Intent{{Cause: trial.CauseEarlyStop, Decision: "d"}}, f.platform.cancels)
	attempt, err := f.Attempt(ctx, key)
	require.NoError(t, err)
	handle, err := activities.HandleOf(attempt)
	require.NoError(t, err)
	require.Equal(t, key, handle.Key)
	require.NotNil(t, attempt.Handle, "so that the poller can ask about it")
}

func TestWhatNobodyWantsToEndIsNotCancelled(t *testing.T) {
	f := newFixture(t)
	f.ask(1)
	key := f.begin(0)
	require.NoError(t, f.CancelTrial(ctx, key))
	require.Empty(t, f.platform.cancels)
	f.command(trial.Stop, "")
	require.NoError(t, f.CancelTrial(ctx, key))
	require.Equal(t, []trial.Intent{{Cause: trial.CauseStop}}, f.platform.cancels)
}

func TestWhatALostAttemptLeftBehindIsSwept(t *testing.T) {
	f := newFixture(t)
	f.ask(1)
	key := f.begin(0)
	f.platform.mu.Lock()
	f.platform.reports[key] = platforms.Report{Key: key, Phase: platforms.Lost}
	f.platform.mu.Unlock()
	_, err := call[any](f, f.RunAttempt, key)
	require.True(t, activities.TrialFailed(err), "%v", err)
	require.Equal(t, []trial.Intent{{Cause: trial.CauseSuperseded}}, f.platform.cancels)
}

// assessed is an experiment whose third trial is far below the median.
func assessed(t *testing.T) *fixture {
	f := newFixtureWith(t, func(e *experiment.Experiment) {
		e.Assessor = &experiment.Algorithm{Name: "Medianstop", Arguments: json.RawMessage(`{"start_step": 1}`)}
	})
	f.ask(3)
	for n := range 2 {
		key := f.begin(n)
		f.report(key, metrics.Periodical, "10", "10", "10")
		require.NoError(t, f.Observe(ctx, key, record.Observation{Phase: string(platforms.Exited), Exit: &trial.Exit{}, Drained: true}))
		_, err := f.Activities.Settle(ctx, key)
		require.NoError(t, err)
	}
	f.report(f.begin(2), metrics.Periodical, "1", "1")
	return f
}

func TestAVerdictIsOnRecordBeforeTheTrialHearsOfIt(t *testing.T) {
	f := assessed(t)
	go call[any](f, f.Assess, id) // ends with its test
	require.Eventually(t, func() bool { return len(f.signalled()) > 0 }, patience, time.Millisecond)
	open, err := f.OpenDecisions(ctx)
	require.NoError(t, err)
	require.Len(t, open, 1)
	require.Equal(t, 2, open[0].Key.Sequence)
	require.Equal(t, open[0].Decision, f.signalled()[0])
}

func TestAssessingTwiceDecidesOnce(t *testing.T) {
	f := assessed(t)
	go call[any](f, f.Assess, id)
	go call[any](f, f.Assess, id)
	require.Eventually(t, func() bool { return len(f.signalled()) > 0 }, patience, time.Millisecond)
	events, err := f.Events(ctx, id, 0, 0)
	require.NoError(t, err)
	decided := 0
	for _, event := range events {
		if event.Kind == trial.KindDecision {
			decided++
		}
	}
	require.Equal(t, 1, decided)
}

// reader is an assessor that notes which events it was given.
type reader struct {
	assessors.Assessor
	mu   *sync.Mutex
	read *[]int64
}

func (r reader) Apply(event trial.Event) (assessors.Verdict, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*r.read = append(*r.read, event.Number)
	return r.Assessor.Apply(event)
}

// An experiment's workflow begins another call in each of its runs.
func TestTheNextCallThatAssessesReadsNoOldEvent(t *testing.T) {
	f := assessed(t)
	var mu sync.Mutex
	var read []int64
	f.Assessors = func(spec assessors.Spec) (assessors.Assessor, error) {
		built, err := assessors.New(spec)
		return reader{built, &mu, &read}, err
	}
	f.Workflows = mute{}
	_, err := call[any](f, f.Assess, id)
	require.ErrorContains(t, err, "nobody can be reached", "the first call ends when it has judged")
	f.Workflows = f
	f.command(trial.SetConcurrency, "5")
	go call[any](f, f.Assess, id)
	last := f.row().LastEvent
	var events []int64
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		events = slices.Clone(read)
		return slices.Contains(events, last)
	}, patience, time.Millisecond)
	require.True(t, slices.IsSorted(events))
	require.Len(t, slices.Compact(events), len(events), "each event was read once")
	require.EqualValues(t, 1, events[0])
}

func TestWhatALostAttemptLeftOutOfReachKeepsNoTrialWaiting(t *testing.T) {
	f := newFixture(t)
	f.ask(1)
	key := f.begin(0)
	f.platform.reports[key] = platforms.Report{Key: key, Phase: platforms.Lost}
	f.platform.stuck = platforms.Errorf(platforms.Transient, "cancel", "no route to host")
	_, err := call[any](f, f.RunAttempt, key)
	require.True(t, activities.TrialFailed(err), "%v", err)
	require.NotEmpty(t, f.platform.cancelled())
}

func TestARunThatStartsAfterItsAttemptWasGivenUpIsEnded(t *testing.T) {
	f := newFixture(t)
	f.ask(1)
	key := f.begin(0)
	f.platform.submitting = func() { // somebody says that it is lost, and there is nothing of it yet
		require.NoError(t, f.Store.Settle(ctx, key, record.Settlement{Outcome: record.OutcomeFault}))
		require.NoError(t, f.Observe(ctx, key, record.Observation{Phase: string(platforms.Absent), Drained: true}))
	}
	_, err := call[any](f, f.RunAttempt, key)
	require.NoError(t, err)
	require.Equal(t, 1, f.platform.submitted())
	require.Equal(t, []trial.Intent{{Cause: trial.CauseSuperseded}}, f.platform.cancelled())
}

func TestADecisionWhoseSignalWasLostCountsForNoLaterAttempt(t *testing.T) {
	// assess.decision-before-signal: attempt 2 is running already.
	f := newFixture(t)
	f.ask(1)
	first := f.begin(0)
	require.NoError(t, f.Observe(ctx, first, record.Observation{Phase: string(platforms.Lost), Drained: true}))
	f.settlesAs(first, again, "runner-died")
	second := f.begin(0)
	late, err := f.Store.Decide(ctx, record.Decision{Key: first, Decision: trial.Decision{ID: "assessor-1", Cause: trial.CauseEarlyStop}})
	require.NoError(t, err)
	require.Equal(t, record.TooLate, late.Outcome)
	require.NoError(t, f.CancelTrial(ctx, second))
	require.Empty(t, f.platform.cancels)
}

func TestWhatWasCommittedBeforeAReplyWasLostIsTheSameAgain(t *testing.T) {
	// record.committed-before-reply: every activity is run twice, as if its first
	// answer had not arrived, the second time by a process that has just begun.
	f := newFixture(t)
	twice := func(do func(*activities.Activities) (any, error)) {
		t.Helper()
		first, err := do(f.Activities)
		require.NoError(t, err)
		second, err := do(f.activities())
		require.NoError(t, err)
		require.Equal(t, first, second)
	}
	command := trial.Command{ID: "raise", Name: trial.SetConcurrency, Value: json.RawMessage("8")}
	twice(func(a *activities.Activities) (any, error) { return a.Command(ctx, id, command) })
	twice(func(a *activities.Activities) (any, error) {
		f.Activities = a
		return f.round(2, 2).News, nil
	})
	twice(func(a *activities.Activities) (any, error) { return a.Begin(ctx, id, 0) })
	decision := trial.Decision{ID: "d", Cause: trial.CauseUser}
	twice(func(a *activities.Activities) (any, error) { return a.Decide(ctx, id, 1, decision) })
	twice(func(a *activities.Activities) (any, error) { return a.Dismiss(ctx, id, 1) })
	key := trial.Key{Experiment: id, Attempt: 1}
	require.NoError(t, f.Observe(ctx, key, record.Observation{Phase: string(platforms.Exited), Exit: &trial.Exit{}, Drained: true}))
	twice(func(a *activities.Activities) (any, error) { return a.Settle(ctx, key) })
	require.Equal(t, 2, f.row().Asked)
	require.Equal(t, 1, f.row0().Attempts)
}

func TestARefusedAttemptIsObservedUntilThereIsNothingOfIt(t *testing.T) {
	// An earlier try may have been accepted, and its answer lost.
	f := newFixture(t)
	f.ask(1)
	key := f.begin(0)
	f.platform.refuse(platforms.Errorf(platforms.Invalid, "submit", "no such image"))
	f.platform.list(platforms.Handle{Format: 1, Platform: "scripted", Key: key})
	_, err := call[any](f, f.RunAttempt, key)
	require.True(t, activities.TrialFailed(err), "%v", err)
	open, err := f.OpenAttempts(ctx, "scripted")
	require.NoError(t, err)
	require.Len(t, open, 1, "the sweeper ends it while it runs")

	f.platform.list()
	f.platform.mu.Lock()
	f.platform.reports[key] = platforms.Report{Key: key, Phase: platforms.Absent}
	f.platform.mu.Unlock()
	require.Eventually(t, func() bool {
		open, err := f.OpenAttempts(ctx, "scripted")
		return err == nil && len(open) == 0
	}, patience, time.Millisecond)
	require.Equal(t, "refused", f.row0().Reason.Code)
}

func TestACancelLeavesTheHandleThatASubmitBroughtMeanwhile(t *testing.T) {
	f := newFixture(t)
	f.ask(1)
	key := f.begin(0)
	f.command(trial.Stop, "")
	brought := json.RawMessage(`{"platform":"scripted","data":{"host":"a"}}`)
	f.platform.mu.Lock()
	f.platform.cancelling = func() { require.NoError(t, f.SetHandle(ctx, key, brought)) }
	f.platform.mu.Unlock()
	require.NoError(t, f.CancelTrial(ctx, key))
	require.Equal(t, string(brought), string(f.handle(key)))
}

func TestAStopThatFoundNothingToEndWhileItWasSubmittedEndsItThen(t *testing.T) {
	f := newFixture(t)
	f.ask(1)
	key := f.begin(0)
	var before []trial.Intent
	f.platform.submitting = func() {
		f.command(trial.Stop, "")
		require.NoError(t, f.CancelTrial(ctx, key)) // the platform knows of no such run yet
		before = f.platform.cancelled()
	}
	go call[any](f, f.RunAttempt, key) // ends with its test
	require.Eventually(t, func() bool { return f.platform.submitted() == 1 && len(f.platform.cancelled()) > len(before) }, patience, time.Millisecond)
	require.Equal(t, trial.Intent{Cause: trial.CauseStop}, f.platform.cancelled()[1])
}

func TestAnAttemptWithoutRoomDoesNotBeginOnceTheExperimentsTimeIsOver(t *testing.T) {
	f := newFixtureWith(t, func(e *experiment.Experiment) { e.MaxDuration = 60 })
	f.ask(1)
	key := f.begin(0)
	f.platform.refuse(platforms.Errorf(platforms.Exhausted, "submit", "no room"))
	over := make(chan error, 1)
	go func() {
		_, err := call[any](f, f.RunAttempt, key)
		over <- err
	}()
	require.Eventually(t, func() bool { return f.platform.submitted() > 0 }, patience, time.Millisecond)
	f.platform.report(key, platforms.Report{Phase: platforms.Absent})
	f.spend(time.Minute)
	require.NoError(t, <-over)
	settlement, err := f.Activities.Settle(ctx, key)
	require.NoError(t, err)
	require.Equal(t, activities.Settlement{Interrupted: true, Reason: record.TimeOver()}, settlement)
	require.Equal(t, trial.Waiting, f.row0().State)
	require.Equal(t, record.TimeOver(), f.row0().Reason)

	f.begins(0, record.ErrTimeOver)
	f.command(trial.SetMaxDuration, "0")
	f.begins(0, nil)
}

// begins tells with what error the trial's next attempt is refused.
func (f *fixture) begins(n int, want error) {
	f.Helper()
	_, err := f.BeginAttempt(ctx, id, n, "scripted")
	require.ErrorIs(f, err, want)
}

func TestAnAttemptThatAPlatformAcceptedBeforeACrashGoesOnAfterTheDeadline(t *testing.T) {
	f := newFixtureWith(t, func(e *experiment.Experiment) { e.MaxDuration = 60 })
	f.ask(2)
	accepted, unknown := f.begin(0), f.begin(1)
	f.spend(time.Minute)
	f.platform.list(platforms.Handle{Platform: "scripted", Key: accepted})
	f.platform.report(unknown, platforms.Report{Phase: platforms.Absent})
	go call[any](f, f.RunAttempt, accepted) // ends with its test
	require.Eventually(t, func() bool { return f.handle(accepted) != nil }, patience, time.Millisecond)
	_, err := call[any](f, f.RunAttempt, unknown)
	require.NoError(t, err)
	require.Equal(t, 1, f.platform.submitted())
}

func TestATrialThatHasBegunGoesOnAfterAPlatformsFaultAlsoWhenTheTimeIsOver(t *testing.T) {
	f := newFixtureWith(t, func(e *experiment.Experiment) { e.MaxDuration = 60 })
	f.ask(2)
	key := f.begin(0)
	f.spend(time.Minute)
	require.NoError(t, f.Store.Settle(ctx, key, record.Settlement{Outcome: record.OutcomeFault}))
	require.Equal(t, 2, f.begin(0).Attempt)

	begun, err := f.Begin(ctx, id, 1)
	require.NoError(t, err)
	require.True(t, begun.Refused)
	settlement, err := f.Dismiss(ctx, id, 1)
	require.NoError(t, err)
	require.True(t, settlement.Unbegun())
	answer := f.round(f.row().LastEvent-1, 1)
	require.True(t, answer.Late)
	require.True(t, answer.News[0].Unbegun, "its experiment keeps it for more time")
}

func TestAnAttemptLooksFailedInTemporalExactlyWhereItsTrialFailedByItself(t *testing.T) {
	for name, c := range map[string]struct {
		exit   trial.Exit
		intent *trial.Intent
		want   string
	}{
		"success":    {trial.Exit{}, nil, ""},
		"exit code":  {trial.Exit{Code: 3}, nil, "the command exited with code 3"},
		"signal":     {trial.Exit{Code: 137, Signal: "SIGKILL"}, nil, "the command was killed by SIGKILL"},
		"cancelled":  {trial.Exit{Code: 143, Signal: "SIGTERM"}, &trial.Intent{Cause: trial.CauseUser}, ""},
		"preemption": {trial.Exit{Code: 143, Signal: "SIGTERM", Outside: true}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.ask(1)
			key := f.begin(0)
			f.platform.report(key, platforms.Report{Phase: platforms.Exited, Exit: &c.exit, Intent: c.intent})
			_, err := call[any](f, f.RunAttempt, key)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.True(t, activities.TrialFailed(err), "%v", err)
			var application *temporal.ApplicationError
			require.ErrorAs(t, err, &application)
			require.Equal(t, c.want, application.Message())
			require.Equal(t, temporal.ApplicationErrorCategoryBenign, application.Category(), "nobody is alarmed")
		})
	}
}
