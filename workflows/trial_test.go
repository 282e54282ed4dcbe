package workflows_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/fake"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/workflows"
)

// ask puts trials on record as a tuner's round would, and the code's place.
func (b *bench) ask(count int) {
	b.Helper()
	require.NoError(b, b.activities.PrepareCodeDir(ctx, id, 0))
	for n := range count {
		_, err := b.Ask(ctx, id, []record.Ask{{Sequence: n, Asked: trial.Asked{Parameters: []byte(`{"x":1}`), Source: trial.SourceAlgorithm}}})
		require.NoError(b, err)
	}
}

// one runs the workflow of trial 0 alone.
func (b *bench) one() (settlement activities.Settlement) {
	b.Helper()
	env := b.environment(workflows.TrialWorkflowID(id, 0))
	env.ExecuteWorkflow(workflows.TrialType, workflows.TrialInput{Experiment: id, Platform: fake.Name})
	require.True(b, env.IsWorkflowCompleted())
	require.NoError(b, env.GetWorkflowError())
	require.NoError(b, env.GetWorkflowResult(&settlement))
	return settlement
}

// end sends trial 0 the update, and returns what was wrong with it.
func (b *bench) end(ending workflows.Ending) error {
	answer := make(chan error, 1)
	callbacks := &testsuite.TestUpdateCallback{
		OnReject:   func(err error) { answer <- err },
		OnAccept:   func() {},
		OnComplete: func(_ any, err error) { answer <- err },
	}
	if err := b.env.Load().UpdateWorkflowByID(workflows.TrialWorkflowID(id, 0), workflows.UpdateEnd, trial.NewExperimentID(), callbacks, ending); err != nil {
		return err
	}
	return b.answered(answer)
}

// answered is the answer to an update, which must come.
func (b *bench) answered(answer <-chan error) error {
	select {
	case err := <-answer:
		return err
	case <-time.After(patience):
		return errors.New("the update was never answered")
	}
}

// deaf is a platform that nobody reaches while it is deaf.
type deaf struct {
	platforms.Platform
	*deafness
}

type deafness struct {
	mu      sync.Mutex
	deaf    bool
	submits int
}

func (d deaf) Submit(ctx context.Context, job platforms.Job) (platforms.Handle, error) {
	if d.fails() {
		time.Sleep(10 * time.Millisecond) // as it takes to find out; retries themselves take no time here
		return platforms.Handle{}, platforms.Errorf(platforms.Transient, "submit", "nobody answers")
	}
	return d.Platform.Submit(ctx, job)
}

// Logs implements platforms.WithLogs.
func (d deaf) Logs(ctx context.Context, handle platforms.Handle, wanted platforms.Log) (io.ReadCloser, error) {
	return d.Platform.(platforms.WithLogs).Logs(ctx, handle, wanted)
}

func (d *deafness) fails() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.submits++
	return d.deaf
}

func (d *deafness) set(deaf bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deaf = deaf
}

func (d *deafness) mend() { d.set(false) }

// deafen has nobody reach the platform's Submit.
func (b *bench) deafen() *deafness {
	b.deafness.set(true)
	return &b.deafness
}

func TestATrialEndsAsItsCommandDid(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, behaviour: quick})
	b.ask(1)
	settlement := b.one()
	require.Equal(t, trial.Succeeded, settlement.State)
	require.Equal(t, 1.0, *settlement.Value)
}

func TestATrialWhoseSubmitAnswersAreLostRunsOnce(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, behaviour: `{"duration": 0.3, "final": 1, "lostReplies": 2}`})
	b.ask(1)
	require.Equal(t, trial.Succeeded, b.one().State)
	require.Equal(t, 1, b.trials()[0].Attempts)
}

func TestASettledTrialThatIsStartedAgainReturnsItsState(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, behaviour: quick})
	b.ask(1)
	require.Equal(t, b.one(), b.one())
	require.Equal(t, 1, b.trials()[0].Attempts)
	require.Equal(t, 1, b.logged(trial.KindEnded))
}

func TestATrialIsEndedWhileItRuns(t *testing.T) {
	for _, c := range []struct {
		cause trial.Cause
		state trial.State
	}{{trial.CauseUser, trial.UserCanceled}, {trial.CauseEarlyStop, trial.EarlyStopped}} {
		t.Run(string(c.cause), func(t *testing.T) {
			b := newBench(t, settings{concurrency: 1, behaviour: slow})
			b.ask(1)
			reason := trial.Reason{Code: "killed", Text: "killed by hand"}
			b.meanwhile(func() {
				b.await(trial.Running, 1)
				require.NoError(t, b.end(workflows.Ending{Cause: c.cause, Reason: reason}))
			})
			require.Equal(t, activities.Settlement{State: c.state, Reason: reason}, b.one())
		})
	}
}

func TestTemporalsOwnCancelEndsATrialUserCanceled(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, behaviour: slow})
	b.ask(1)
	b.meanwhile(func() {
		b.await(trial.Running, 1)
		b.env.Load().CancelWorkflow()
	})
	require.Equal(t, trial.UserCanceled, b.one().State)
	require.Equal(t, "canceled", b.trials()[0].Reason.Code)
}

func TestATrialEndsAlthoughItsPlatformNeverAnsweredSubmit(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, behaviour: slow})
	b.ask(1)
	platform := b.deafen()
	b.meanwhile(func() {
		b.until(func() bool {
			platform.mu.Lock()
			defer platform.mu.Unlock()
			return platform.submits > 1
		})
		require.NoError(t, b.end(workflows.Ending{Cause: trial.CauseUser}))
	})
	require.Equal(t, trial.UserCanceled, b.one().State)
}

func TestATrialThatIsToEndBeforeItBeginsIsNeverSubmitted(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, behaviour: slow})
	b.ask(1)
	_, err := b.Decide(ctx, record.Decision{Key: trial.Key{Experiment: id}, Decision: trial.Decision{ID: "d", Cause: trial.CauseEarlyStop}})
	require.NoError(t, err)
	require.Equal(t, trial.EarlyStopped, b.one().State)
	require.Zero(t, b.trials()[0].Attempts)
}

func TestAnAttemptDeclaredLostIsFollowedByTheNext(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, behaviour: `{"duration": 0.1, "final": 2, "rules": [{"attempts": [1], "duration": 60}]}`})
	b.ask(1)
	b.meanwhile(func() {
		b.await(trial.Running, 1)
		require.NoError(t, b.end(workflows.Ending{Lost: true}))
	})
	require.Equal(t, trial.Succeeded, b.one().State)
	first, err := b.Attempt(ctx, trial.Key{Experiment: id, Attempt: 1})
	require.NoError(t, err)
	require.Equal(t, "declared-lost", first.Reason.Code)
	require.Equal(t, 2, b.trials()[0].Attempts)
}

func TestNobodyDeclaresLostWhatDoesNotRun(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, behaviour: quick})
	b.ask(1)
	platform := b.deafen()
	b.meanwhile(func() {
		b.until(func() bool { return b.trials()[0].Attempts == 1 })
		require.ErrorContains(t, b.end(workflows.Ending{Lost: true}), "no attempt of this trial runs")
		require.ErrorContains(t, b.end(workflows.Ending{Cause: trial.CauseStop}), "ended by the cause")
		platform.mend()
	})
	require.Equal(t, trial.Succeeded, b.one().State)
}

func TestAStrayWordAboutAStopEndsNothing(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, behaviour: `{"duration": 1, "final": 1}`})
	b.ask(1)
	b.meanwhile(func() {
		b.await(trial.Running, 1)
		require.NoError(t, b.env.Load().SignalWorkflowByID(workflows.TrialWorkflowID(id, 0), workflows.SignalCancel, workflows.Ending{Cause: trial.CauseStop}))
	})
	require.Equal(t, trial.Succeeded, b.one().State)
}

func TestAKillAfterAStrayWordAboutAStopIsHeeded(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, behaviour: slow})
	b.ask(1)
	b.meanwhile(func() {
		b.await(trial.Running, 1)
		require.NoError(t, b.env.Load().SignalWorkflowByID(workflows.TrialWorkflowID(id, 0), workflows.SignalCancel, workflows.Ending{Cause: trial.CauseStop}))
		require.NoError(t, b.end(workflows.Ending{Cause: trial.CauseUser}))
	})
	require.Equal(t, trial.UserCanceled, b.one().State)
}

func TestATrialOfAStoppingExperimentIsInterrupted(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, behaviour: slow})
	b.ask(1)
	b.command(trial.Stop, "")
	require.True(t, b.one().Interrupted)
	require.Equal(t, trial.UserCanceled, b.trials()[0].State)
	require.True(t, b.one().Interrupted, "and again")
	require.Equal(t, 1, b.logged(trial.KindInterrupted))
}

func TestNoRunningAttemptTakesTheSlotOfWhoEndsOne(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, trials: 1, behaviour: slow})
	b.ask(1)
	queues := map[string]string{}
	b.configure = func(env *testsuite.TestWorkflowEnvironment) {
		env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
			queues[info.ActivityType.Name] = info.TaskQueue
		})
	}
	env := b.environment(workflows.TrialWorkflowID(id, 0))
	b.meanwhile(func() {
		b.await(trial.Running, 1)
		require.NoError(t, env.SignalWorkflowByID(workflows.TrialWorkflowID(id, 0), workflows.SignalCancel, nil))
	})
	env.ExecuteWorkflow(workflows.TrialType, workflows.TrialInput{Experiment: id, Platform: "fake"})
	require.NoError(t, env.GetWorkflowError())
	require.NotEmpty(t, queues["RunAttempt"])
	require.Equal(t, workflows.Verbs(queues["RunAttempt"]), queues["CancelTrial"])
	require.NotEqual(t, queues["RunAttempt"], queues["CancelTrial"])
}
