package stories

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
)

func TestARecordFromABackupTakesInWhatRunsInPodsAndEndsWhatHasOtherParameters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plan := gated(2)
	plan.Concurrency = 1
	run := w.follow(plan)
	id := run.ID()
	w.awaitReported(id, 1)
	backup := w.BackUp()
	// Its object stays, so that the record which knows it as running is not too old.
	w.Must("update", "concurrency", id, "2")
	w.awaitReported(id, 2)
	w.KillAndAwait(endtoend.Host, endtoend.CLI)
	w.Restore(backup)
	w.Serve()
	w.Await("what the record had forgotten", func() bool {
		known := w.Show(id).Recovered
		return known != nil && known.TakenIn == 1
	})
	w.Must("update", "concurrency", id, "3")
	require.Equal(t, 1, w.AwaitState(id, 1, "RUNNING", 1).Attempts)

	w.Must("serve", "--stop")
	backup = w.BackUpState()
	w.Serve()
	third := w.addThird(id, "0.25", 1)
	w.awaitReported(id, 3)
	w.KillAndAwait(endtoend.Host)
	w.RestoreState(backup)
	w.Serve()
	require.Equal(t, third.ID, w.addThird(id, "0.75", 2).ID)
	require.Contains(t, strings.Join(w.Show(id).Recovered.Ended, "\n"), third.ID, "the user is told")
	w.letGo("all")
	require.Equal(t, "DONE", w.Start("resume", id, "--output", "json").Finished(4*endtoend.Patience).Status)
	require.Contains(t, string(w.Export(id)[third.ID].Parameter), "0.75")
	ledger := w.Ledger()
	require.False(t, ledger[third.ID][1].Ended, "it was ended")
	for _, row := range w.Trials(id) {
		require.Equal(t, "SUCCEEDED", row.State, "%+v", row)
		require.True(t, ledger[row.ID][row.Attempts].Ended)
	}
	for _, sequence := range []int{0, 1} {
		require.Equal(t, 1, w.Trial(id, sequence).Attempts, "what ran went on")
	}
}

// addThird adds the third trial of an experiment, and waits until an attempt of it runs.
func (w *world) addThird(id, x string, attempt int) endtoend.Trial {
	w.Must("trials", "add", id, `{"x": `+x+`, "n": 5.0}`)
	w.Must("update", "max-trials", id, "3")
	return w.AwaitState(id, 2, "RUNNING", attempt)
}
