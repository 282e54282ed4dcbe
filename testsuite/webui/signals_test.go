package webui

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
)

// TestATrialIsEndedByTemporalsOwnTools ends one trial after the other: each reads
// as it should, leaves no process, and gives its slot to the next at once.
func TestATrialIsEndedByTemporalsOwnTools(t *testing.T) {
	t.Parallel()
	w := begin(t, endtoend.NewHome(t), endtoend.Plan{Trials: 20, Concurrency: 2, Script: endless})
	commandLine := func(arguments ...string) func(string) {
		return func(workflow string) {
			w.commandLine(append(arguments, "--workflow-id", workflow)...)
		}
	}
	signal := func(name string, input any) func(string) {
		return func(workflow string) { w.signal(workflow, name, input) }
	}
	for n, by := range []struct {
		name, state string
		end         func(workflow string)
	}{
		{"signal cancel without input", "USER_CANCELED", signal("cancel", nil)},
		{"signal cancel with a word", "USER_CANCELED", signal("cancel", "please")},
		{"signal cancel with odd JSON", "USER_CANCELED", signal("cancel", map[string]any{"cause": []int{1}, "reason": 7})},
		{"signal cancel with an unknown cause", "USER_CANCELED", signal("cancel", map[string]any{"cause": "early-stop"})},
		{"signal early-stop without input", "EARLY_STOPPED", signal("early-stop", nil)},
		{"signal early-stop with a list", "EARLY_STOPPED", signal("early-stop", []any{"now", 1})},
		{"Temporal's Cancel", "USER_CANCELED", func(workflow string) {
			require.NoError(t, w.temporal.CancelWorkflow(t.Context(), workflow, ""))
		}},
		{"temporal workflow signal", "EARLY_STOPPED", commandLine("workflow", "signal", "--name", "early-stop")},
		{"temporal workflow signal with input", "USER_CANCELED", commandLine("workflow", "signal", "--name", "cancel", "--input", `{"why":"too slow"}`)},
		{"temporal workflow cancel", "USER_CANCELED", commandLine("workflow", "cancel")},
	} {
		w.home.AwaitState(w.id, n, "RUNNING", 1)
		by.end(w.trial(n))
		row := w.home.AwaitState(w.id, n, by.state, 1)
		require.Equal(t, 1, row.Attempts, by.name)
		w.requireGone(row)
		w.home.AwaitRunning(w.id, 2)
	}
	w.home.Must("stop", w.id)
	w.status("STOPPED")
	w.home.RequireNothingLeft()
}

func TestSignalEarlyStopOnAnExperimentEndsItsTrialsAndItIsDone(t *testing.T) {
	t.Parallel()
	w := begin(t, endtoend.NewHome(t), endtoend.Plan{Trials: 9, Concurrency: 3, Script: endless})
	w.home.AwaitRunning(w.id, 3)
	w.signal(w.workflow(), "early-stop", "enough")
	view := w.status("DONE")
	require.Equal(t, 3, view.Trials["EARLY_STOPPED"], "%+v", view.Trials)
	w.home.RequireNothingLeft()
}

func TestSignalCancelOnAnExperimentStopsItAndResumeGoesOn(t *testing.T) {
	t.Parallel()
	w := begin(t, endtoend.NewHome(t), endtoend.Plan{Trials: 3, Concurrency: 3, Script: endless})
	w.home.AwaitRunning(w.id, 3)
	w.signal(w.workflow(), "cancel", nil)
	view := w.status("STOPPED")
	require.Equal(t, 3, view.Trials["USER_CANCELED"], "%+v", view.Trials)
	require.Equal(t, "stopped", w.home.Trial(w.id, 0).Reason.Code)
	w.home.Must("resume", w.id, "--detach")
	for n := range 3 {
		w.home.AwaitState(w.id, n, "RUNNING", 2)
	}
	require.NoError(t, w.temporal.CancelWorkflow(t.Context(), w.workflow(), ""))
	w.status("STOPPED")
	w.home.RequireNothingLeft()
}

func TestResetOfWhatIsOverRunsNothingAgain(t *testing.T) {
	t.Parallel()
	w := begin(t, endtoend.NewHome(t), endtoend.Plan{Trials: 2, Concurrency: 1, Script: quick})
	w.status("DONE")
	before := w.home.Trials(w.id)
	w.home.Reset(w.id, w.trial(0))
	w.home.Reset(w.id, w.workflow())
	for _, workflow := range []string{w.trial(0), w.workflow()} {
		require.NoError(t, w.temporal.GetWorkflow(t.Context(), workflow, "").Get(t.Context(), nil), workflow)
	}
	require.Equal(t, before, w.home.Trials(w.id))
	w.status("DONE")
	w.home.RequireNothingLeft()
}
