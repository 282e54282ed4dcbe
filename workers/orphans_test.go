package workers

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/fake"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/workflows"
)

func TestOnlyWhatADeadHostOfThisStateDirectoryBeganIsFailed(t *testing.T) {
	for identity, failed := range map[string]int{
		"mystate/before": 1,
		"mystate/now":    0, // our own
		"other/before":   0, // of somebody else, alive perhaps
		"mystates/now":   0,
		"":               0, // not begun by a worker
	} {
		t.Run(identity, func(t *testing.T) {
			w, temporal := believing(t, identity)
			w.failOrphans(t.Context(), []string{experimentWorkflow})
			temporal.AssertNumberOfCalls(t, "CompleteActivityByID", failed)
			if failed > 0 {
				temporal.AssertCalled(t, "CompleteActivityByID", mock.Anything, "somebodys", experimentWorkflow, "", "5", nil, mock.Anything)
			}
		})
	}
}

func TestTrialsThatNeedSomethingAreTakenOverBeforeThoseThatMerelyRun(t *testing.T) {
	w, temporal := believing(t, "mystate/before")
	w.options.Observers = &Observers{all: []platforms.Platform{fake.New(fake.Options{StateDirectory: t.TempDir()})}}
	const trials = atOnce + 3 // 0 to trials-1, of which the last two need something
	for n := range trials {
		w.launched(t, n)
	}
	over := trial.Key{Experiment: "k3v9x2ab", Sequence: trials - 2, Attempt: 1}
	require.NoError(t, w.options.Record.Observe(t.Context(), over, record.Observation{Phase: string(platforms.Exited), Exit: &trial.Exit{}, Drained: true}))
	unsubmitted := trial.Key{Experiment: "k3v9x2ab", Sequence: trials - 1, Attempt: 1}
	require.NoError(t, w.options.Record.SetHandle(t.Context(), unsubmitted, nil))
	_, left, err := w.driven(t.Context())
	require.NoError(t, err)
	require.Len(t, left, trials)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var taken []string
	temporal.On("CompleteActivityByID", mock.Anything, "somebodys", mock.Anything, "", "5", nil, mock.Anything).
		Run(func(call mock.Arguments) { taken = append(taken, call.String(2)) }).Return(nil)
	w.takeOver(ctx, left)
	want := []string{trialWorkflow(trials - 2), trialWorkflow(trials - 1)}
	for n := range trials - 2 {
		want = append(want, trialWorkflow(n))
	}
	require.Equal(t, want, taken)
}

func TestATakeOverEndsWithItsHost(t *testing.T) {
	w, temporal := believing(t, "mystate/before")
	w.options.Observers = &Observers{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.takeOver(ctx, []string{trialWorkflow(0)})
	temporal.AssertNotCalled(t, "DescribeWorkflowExecution", mock.Anything, trialWorkflow(0), "")
}

func trialWorkflow(n int) string { return workflows.TrialWorkflowID("k3v9x2ab", n) }

// launched puts a trial on record that runs on the platform fake.
func (w *Workers) launched(t *testing.T, n int) {
	_, err := w.options.Record.Ask(t.Context(), "k3v9x2ab", []record.Ask{{Sequence: n, Asked: trial.Asked{
		Parameters: trial.Parameters(`{"x":1}`), Source: trial.SourceAlgorithm,
	}}})
	require.NoError(t, err)
	attempt, err := w.options.Record.BeginAttempt(t.Context(), "k3v9x2ab", n, fake.Name)
	require.NoError(t, err)
	require.NoError(t, w.options.Record.SetHandle(t.Context(), attempt.Key, json.RawMessage(`{}`)))
}
