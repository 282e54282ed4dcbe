package workers

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/activities/poller"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/fake"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
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

func TestWhoeverLeadsTheRecordFailsWhatAnyOtherHostBegan(t *testing.T) {
	for identity, failed := range map[string]int{"other/before": 1, "mystate/before": 1, "mystate/now": 0} {
		w, temporal := believing(t, identity)
		w.options.Led = true
		w.failOrphans(t.Context(), []string{experimentWorkflow})
		temporal.AssertNumberOfCalls(t, "CompleteActivityByID", failed)
	}
}

func TestTrialsThatNeedSomethingAreTakenOverBeforeThoseThatMerelyRun(t *testing.T) {
	w, temporal := believing(t, "mystate/before")
	w.options.Sections = sections(t, fake.New(fake.Options{StateDirectory: t.TempDir()}))
	const trials = atOnce + 4 // 0 to trials-1, of which the last three need something
	for n := range trials {
		w.launched(t, n)
	}
	over, unsubmitted, unwanted := keyOf(trials-3), keyOf(trials-2), keyOf(trials-1)
	require.NoError(t, w.options.Record.Observe(t.Context(), over, record.Observation{Phase: string(platforms.Exited), Exit: &trial.Exit{}, Drained: true}))
	require.NoError(t, w.options.Record.SetHandle(t.Context(), unsubmitted, nil))
	_, err := w.options.Record.Decide(t.Context(), record.Decision{Key: unwanted, Decision: trial.Decision{ID: "d", Cause: trial.CauseUser}})
	require.NoError(t, err)
	_, left, err := w.driven(t.Context())
	require.NoError(t, err)
	require.Len(t, left, trials)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var taken []string
	temporal.On("CompleteActivityByID", mock.Anything, "somebodys", mock.Anything, "", "5", nil, mock.Anything).
		Run(func(call mock.Arguments) { taken = append(taken, call.String(2)) }).Return(nil)
	w.takeOver(ctx, left)
	want := []string{trialWorkflow(over), trialWorkflow(unsubmitted), trialWorkflow(unwanted)}
	for n := range trials - 3 {
		want = append(want, trialWorkflow(keyOf(n)))
	}
	require.Equal(t, want, taken)
}

func TestNoTrialOfAStoppingExperimentIsTakenForOneThatMerelyRuns(t *testing.T) {
	w, _ := believing(t, "mystate/before")
	w.options.Sections = sections(t, fake.New(fake.Options{StateDirectory: t.TempDir()}))
	w.launched(t, 0)
	running, err := w.underWay(t.Context())
	require.NoError(t, err)
	require.True(t, running[trialWorkflow(keyOf(0))])

	_, err = w.options.Record.Append(t.Context(), "k3v9x2ab", record.CommandEvent(trial.Command{ID: "stop", Name: trial.Stop}))
	require.NoError(t, err)
	running, err = w.underWay(t.Context())
	require.NoError(t, err)
	require.False(t, running[trialWorkflow(keyOf(0))], "its run has to be ended")
}

func TestATakeOverEndsWithItsHost(t *testing.T) {
	w, temporal := believing(t, "mystate/before")
	w.options.Sections = sections(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.takeOver(ctx, []string{trialWorkflow(keyOf(0))})
	temporal.AssertNotCalled(t, "DescribeWorkflowExecution", mock.Anything, trialWorkflow(keyOf(0)), "")
}

// sections are those of platforms that nobody works for here.
func sections(t *testing.T, kinds ...platforms.Kind) *poller.Sections {
	registry := platforms.Registry{}
	for _, kind := range kinds {
		registry[kind.Traits.Name] = kind
	}
	made := poller.Observe(poller.Options{Registry: registry, Only: []string{"none"}, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(made.Stop)
	return made
}

func keyOf(n int) trial.Key { return trial.Key{Experiment: "k3v9x2ab", Sequence: n, Attempt: 1} }

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
