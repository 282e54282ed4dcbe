package workflows_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/workflows"
)

func TestAnExperimentContinuesAsNewWhereTheServerSuggestsIt(t *testing.T) {
	b := newBench(t, settings{concurrency: 2, trials: 6, behaviour: quick})
	b.configure = func(env *testsuite.TestWorkflowEnvironment) {
		if b.runs == 0 {
			env.RegisterDelayedCallback(func() { env.SetContinueAsNewSuggested(true) }, 100*time.Millisecond)
		}
	}
	require.Equal(t, record.Done, b.drive().Status)
	require.Equal(t, 2, b.runs)
	require.Equal(t, same(trial.Succeeded, 6), b.states())
	b.onceEach()
}

// onceEach says that every trial ran once and ended once.
func (b *bench) onceEach() {
	b.Helper()
	for _, row := range b.trials() {
		require.Equal(b, 1, row.Attempts, "trial %d", row.Sequence)
	}
	require.Equal(b, len(b.trials()), b.logged(trial.KindEnded))
}

func TestWhatAnExperimentRemembersIsOnRecordToo(t *testing.T) {
	const many = 300 // all at once: window.crash-before-continue-as-new
	b := newBench(t, settings{concurrency: many, trials: many, behaviour: `{"duration": 0.5, "final": 1}`})
	b.configure = func(env *testsuite.TestWorkflowEnvironment) {
		env.SetContinueAsNewSuggested(b.runs == 0)
	}
	_, again := b.run(workflows.ExperimentInput{Experiment: id})
	require.True(t, again)
	// The crash: nobody hands the state on, and the record begins another.
	require.Equal(t, record.Done, b.drive().Status)
	require.Equal(t, same(trial.Succeeded, many), b.states())
	b.onceEach()
}

func TestTrialsWhoseWorkflowOutlivedTheirExperimentsAreTold(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, trials: 1, behaviour: slow})
	b.ask(1)
	_, err := b.BeginAttempt(ctx, id, 0, "fake")
	require.NoError(t, err)
	b.command(trial.Stop, "")
	var told workflows.Ending
	b.trial = func(inner workflow.Context, _ workflows.TrialInput) (activities.Settlement, error) {
		workflow.GetSignalChannel(inner, workflows.SignalCancel).Receive(inner, &told)
		b.interrupt(0)
		return activities.Settlement{Interrupted: true}, nil
	}
	require.Equal(t, record.Stopped, b.drive().Status)
	require.Equal(t, trial.CauseStop, told.Cause)
}

func TestATrialThatWasInterruptedIsNotMissedWhileTheExperimentStops(t *testing.T) {
	b := newBench(t, settings{concurrency: 2, trials: 2, behaviour: slow})
	b.ask(2)
	for n := range 2 {
		_, err := b.BeginAttempt(ctx, id, n, "fake")
		require.NoError(t, err)
	}
	b.command(trial.Stop, "")
	var told atomic.Int32
	b.trial = func(inner workflow.Context, input workflows.TrialInput) (activities.Settlement, error) {
		if told.Add(1) > 2 { // started again: it has nothing to tell
			return workflows.Trial(inner, input)
		}
		workflow.GetSignalChannel(inner, workflows.SignalCancel).Receive(inner, nil)
		if input.Sequence == 1 {
			return activities.Settlement{Interrupted: true}, nil
		}
		b.interrupt(0)
		_, err := b.Append(ctx, id, trial.Event{Kind: trial.KindUndriven, Sequence: 0})
		b.interrupt(1)
		return activities.Settlement{Interrupted: true}, err
	}
	require.Equal(t, record.Stopped, b.drive().Status)
	require.Equal(t, 2, b.logged(trial.KindInterrupted))
}

// interrupt ends a trial's first attempt with its experiment.
func (b *bench) interrupt(n int) {
	interrupted := record.Settlement{Outcome: record.OutcomeInterrupted, Interrupted: &trial.Interrupted{}}
	require.NoError(b, b.Settle(ctx, trial.Key{Experiment: id, Sequence: n, Attempt: 1}, interrupted))
}

func TestATrialThatNobodyDrivesIsStartedAgain(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, trials: 1, behaviour: quick})
	var lost atomic.Bool
	b.trial = func(inner workflow.Context, input workflows.TrialInput) (activities.Settlement, error) {
		if !lost.Swap(true) {
			return activities.Settlement{}, errors.New("terminated")
		}
		return workflows.Trial(inner, input)
	}
	b.meanwhile(func() {
		b.until(func() bool { return len(b.trials()) == 1 && b.experiment().Cursor >= b.experiment().LastEvent })
		_, err := b.Append(ctx, id, trial.Event{Kind: trial.KindUndriven, Sequence: 0})
		require.NoError(t, err)
	})
	require.Equal(t, record.Done, b.drive().Status)
	require.Equal(t, same(trial.Succeeded, 1), b.states())
}

func TestAWorkflowThatNobodyAcceptsAnExperimentForEnds(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, trials: 1, behaviour: quick})
	env := b.environment(workflows.ExperimentWorkflowID("nobody00"))
	env.OnActivity(b.activities.Assess, mock.Anything, "nobody00").Return(nil) // it would look for ever
	env.ExecuteWorkflow(workflows.ExperimentType, workflows.ExperimentInput{Experiment: "nobody00"})
	require.True(t, env.IsWorkflowCompleted())
	require.NoError(t, env.GetWorkflowError())
}

func TestACommandIsAnsweredOnceItIsOnRecord(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, trials: 9, behaviour: slow})
	b.meanwhile(func() {
		b.await(trial.Running, 1)
		send := func(command trial.Command) (number int64, err error) {
			answer := make(chan error, 1)
			err = b.env.Load().UpdateWorkflowByID(workflows.ExperimentWorkflowID(id), workflows.UpdateCommand, trial.NewExperimentID(), &testsuite.TestUpdateCallback{
				OnReject: func(err error) { answer <- err }, OnAccept: func() {},
				OnComplete: func(result any, err error) {
					number, _ = result.(int64)
					answer <- err
				},
			}, command)
			if err != nil {
				return 0, err
			}
			return number, b.answered(answer)
		}
		_, err := send(trial.Command{Name: trial.Pause})
		require.ErrorContains(t, err, "needs an id")
		_, err = send(trial.Command{ID: "1", Name: "dance"})
		require.ErrorContains(t, err, `no command "dance"`)
		_, err = send(trial.Command{ID: "2", Name: trial.SetConcurrency, Value: []byte("0")})
		require.ErrorContains(t, err, "whole number")
		_, err = send(trial.Command{ID: "3", Name: trial.SetSearchSpace, Value: []byte(`{"x": {"_type": "none", "_value": [1]}}`)})
		require.Error(t, err)
		number, err := send(trial.Command{ID: "4", Name: trial.SetConcurrency, Value: []byte("2")})
		require.NoError(t, err)
		require.Equal(t, 2, b.experiment().Concurrency)
		again, err := send(trial.Command{ID: "4", Name: trial.SetConcurrency, Value: []byte("2")})
		require.NoError(t, err)
		require.Equal(t, number, again)
		_, err = send(trial.Command{ID: "5", Name: trial.EarlyStopCommand})
		require.NoError(t, err)
	})
	require.Equal(t, record.Done, b.drive().Status)
}

func TestAStateOfANewerVersionIsRefusedUntilThatIsBack(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, trials: 2, behaviour: quick})
	newer := &workflows.State{
		Format: workflows.StateFormat + 1, Status: record.Running, Concurrency: 1,
		Queues: []string{"platform.fake.test"}, Platforms: []string{"fake"},
	}
	env := b.environment(workflows.ExperimentWorkflowID(id))
	env.ExecuteWorkflow(workflows.ExperimentType, workflows.ExperimentInput{Experiment: id, State: newer})
	require.ErrorContains(t, env.GetWorkflowError(), "install the newer starter again")
	require.Equal(t, "newer-version", b.experiment().Reason.Code)
	require.Empty(t, b.trials())
	newer.Format = 1
	_, again := b.run(workflows.ExperimentInput{Experiment: id, State: newer})
	require.False(t, again, "an older one is read")
	require.Equal(t, same(trial.Succeeded, 2), b.states())
	require.True(t, b.experiment().Reason.Zero())
}

func TestAnExperimentBegunFromTheRecordStartsItsLiveTrialsOverSeveralRounds(t *testing.T) {
	const many = 250
	b := newBench(t, settings{concurrency: many, trials: many, behaviour: quick})
	b.ask(many)
	for n := range many {
		_, err := b.BeginAttempt(ctx, id, n, "fake")
		require.NoError(t, err)
	}
	var started []int
	b.configure = func(env *testsuite.TestWorkflowEnvironment) {
		env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, arguments converter.EncodedValues) {
			var request activities.RoundRequest
			if info.ActivityType.Name == "Round" && arguments.Get(&request) == nil && len(request.Start) > 0 {
				require.Equal(t, len(request.Start) == 100, request.Hurry, "it waits for news only once it has started all")
				started = append(started, len(request.Start))
			}
		})
	}
	require.Equal(t, record.Done, b.drive().Status)
	require.Equal(t, []int{100, 100, 50}, started)
	require.Equal(t, same(trial.Succeeded, many), b.states())
	b.onceEach()
}

func TestAllTrialsEndEarlyByOneCommitAndAreToldOverSeveralRuns(t *testing.T) {
	const many = 300
	b := newBench(t, settings{concurrency: many, trials: many, behaviour: slow})
	b.ask(many)
	for n := range many - 1 {
		_, err := b.BeginAttempt(ctx, id, n, "fake")
		require.NoError(t, err)
	}
	b.trial = func(workflow.Context, workflows.TrialInput) (activities.Settlement, error) {
		return activities.Settlement{}, nil
	}
	state := &workflows.State{
		Format: workflows.StateFormat, Status: record.Running, Concurrency: many, Queues: []string{"platform.fake.test"}, Platforms: []string{"fake"},
		Waiting: []int{many - 1}, Cursor: b.experiment().LastEvent,
	}
	for n := range many - 1 {
		state.Open = append(state.Open, n)
	}
	b.command(trial.EarlyStopCommand, "")
	next, again := b.run(workflows.ExperimentInput{Experiment: id, State: state})
	require.True(t, again)
	open, err := b.OpenDecisions(ctx)
	require.NoError(t, err)
	require.Len(t, open, many)
	require.Empty(t, next.State.Waiting)
	require.NotEmpty(t, next.State.Untold)
	require.Len(t, next.State.Open, many)
}
