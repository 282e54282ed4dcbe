package endtoend

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The crash point power.temporal-rolled-back: after a power cut Temporal may be
// older than the record. Here it is older by whole trials.
func TestAnOlderTemporalDatabaseUnderANewerRecordRunsNothingTwice(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	run := h.Follow(h.Experiment(short(8, 2)))
	id := run.ID()
	temporal, older := filepath.Join(h.Dir, "temporal"), filepath.Join(h.Dir, "temporal.older")
	h.Await("two trials to end", func() bool { return settled(h, id) >= 2 })
	withoutHost(h, run, func() { require.NoError(t, os.CopyFS(older, os.DirFS(temporal))) })
	h.Await("five trials to end", func() bool { return settled(h, id) >= 5 })
	withoutHost(h, run, func() {
		require.NoError(t, os.RemoveAll(temporal))
		require.NoError(t, os.Rename(older, temporal))
	})
	require.Equal(t, "DONE", run.Finished(2*Patience).Status)
	h.RequireExactlyOnce(id, 8, nil)
	h.RequireNothingLeft()
}

// withoutHost acts while no host runs and nobody may bring one up.
func withoutHost(h *Home, run *Following, act func()) {
	run.Signal(syscall.SIGSTOP)
	h.KillAndAwait(Host)
	act()
	run.Signal(syscall.SIGCONT)
}

func settled(h *Home, id string) (count int) {
	for _, trial := range h.Trials(id) {
		if trial.End != nil && trial.State == "SUCCEEDED" {
			count++
		}
	}
	return count
}
