package workflows_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/fake"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/workflows"
)

// forget runs a trial that the record knows nothing of.
func (b *bench) forget(sequence int, parameters, behaviour string) {
	b.Helper()
	section := platforms.Section{Platform: fake.Name, Experiment: id, Resolve: func(context.Context) (json.RawMessage, error) {
		return json.RawMessage(behaviour), nil
	}}
	_, err := b.kind.Open(section).Submit(ctx, platforms.Job{
		Key: trial.Key{Experiment: id, Sequence: sequence, Attempt: 1}, Parameters: []byte(parameters),
		Parameter: []byte(`{"parameter_id": "a", "parameter_source": "algorithm", "parameters": ` + parameters + `, "parameter_index": 0}`),
	})
	require.NoError(b, err)
}

func TestWhatTheRecordHasForgottenIsTakenInBeforeAnythingIsAsked(t *testing.T) {
	b := newBench(t, settings{concurrency: 2, trials: 4, behaviour: quick})
	b.forget(0, `{"x": 7.50}`, quick)
	b.forget(2, `{"x": 2e1}`, `{"duration": 0.3, "final": {"parameter": "x"}}`)
	require.Equal(t, record.Done, b.drive().Status)
	rows := b.trials()
	require.Equal(t, same(trial.Succeeded, 4), b.states())
	require.Equal(t, []string{`{"x": 7.50}`, `{"x": 2e1}`}, []string{string(rows[0].Parameters), string(rows[2].Parameters)})
	require.Equal(t, []float64{7.5, 20}, []float64{*rows[0].Value, *rows[2].Value}, "what they reported counts")
	require.Equal(t, `"a"`, string(rows[2].ParameterID))
	b.onceEach()
}

func TestAForgottenRunThatCannotBeReachedKeepsItsNumberUntilItCan(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, trials: 3, behaviour: quick})
	b.forget(1, `{"x": 7.5}`, `{"duration": 0.05, "final": {"parameter": "x"}, "unreachable": [[0, 1]]}`)
	require.Equal(t, record.Done, b.drive().Status)
	require.Equal(t, same(trial.Succeeded, 3), b.states())
	require.Equal(t, 7.5, *b.trials()[1].Value)
	b.onceEach()
}

func TestAWorkflowWhoseRecordIsOlderBeginsAgainFromIt(t *testing.T) {
	b := newBench(t, settings{concurrency: 2, trials: 5, behaviour: quick})
	b.forget(0, `{"x": 7.5}`, quick)
	state := &workflows.State{
		Format: workflows.StateFormat, Status: record.Running, Concurrency: 2, Cursor: 1000, Stamp: 1, Open: []int{1, 3}, Waiting: []int{4},
		Queues: []string{"platform.fake.test"}, Platforms: []string{fake.Name},
	}
	state.Progress.Asked = 5
	_, again := b.run(workflows.ExperimentInput{Experiment: id, State: state})
	require.False(t, again)
	require.Equal(t, record.Done, b.experiment().Status)
	require.LessOrEqual(t, b.experiment().Cursor, b.experiment().LastEvent)
	require.Equal(t, same(trial.Succeeded, 5), b.states())
	require.Equal(t, 7.5, *b.trials()[0].Value)
	learned, err := b.Recovered(ctx, id)
	require.NoError(t, err)
	require.Equal(t, []trial.Recovered{{TakenIn: 1}, {Behind: true, Missing: 4}}, learned)
}

func TestATrialThatTheRecordDoesNotKnowEnds(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, trials: 1, behaviour: quick})
	env := b.environment(workflows.TrialWorkflowID(id, 9))
	env.ExecuteWorkflow(workflows.TrialType, workflows.TrialInput{Experiment: id, Sequence: 9, Platform: fake.Name})
	require.True(t, env.IsWorkflowCompleted())
	require.NoError(t, env.GetWorkflowError())
}

func TestATrialThatIsTakenInMeanwhileGoesOn(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, trials: 1, behaviour: quick})
	env := b.environment(workflows.TrialWorkflowID(id, 0))
	env.RegisterDelayedCallback(func() { b.ask(1) }, 2*time.Second)
	env.ExecuteWorkflow(workflows.TrialType, workflows.TrialInput{Experiment: id, Platform: fake.Name})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, same(trial.Succeeded, 1), b.states())
}
