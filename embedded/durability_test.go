package embedded

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func Test_the_log_is_synced_when_it_changed_and_only_then(t *testing.T) {
	database := filepath.Join(t.TempDir(), "temporal.db")
	syncs := 0
	w := newWALSync(database, slog.New(slog.DiscardHandler))
	w.syncFile = func(string) error { syncs++; return nil }
	now := time.Now()
	require.NoError(t, w.flush(now))
	require.Zero(t, syncs, "there is no log yet")

	require.NoError(t, os.WriteFile(database+"-wal", []byte("frame"), 0o600))
	require.NoError(t, os.Chtimes(database+"-wal", now, now))
	require.NoError(t, w.flush(now.Add(time.Millisecond)))
	require.NoError(t, w.flush(now.Add(time.Second)))
	require.Equal(t, 2, syncs, "a write in the same grain of time may have come after the first sync")
	require.NoError(t, w.flush(now.Add(2*time.Second)))
	require.Equal(t, 2, syncs)

	require.NoError(t, os.Chtimes(database+"-wal", now, now.Add(3*time.Second)))
	require.NoError(t, w.flush(now.Add(4*time.Second)))
	require.Equal(t, 3, syncs)
}

func Test_a_log_that_is_written_is_looked_at_more_often_than_one_that_is_still(t *testing.T) {
	w := newWALSync(filepath.Join(t.TempDir(), "temporal.db"), slog.New(slog.DiscardHandler))
	now := time.Now()
	require.Equal(t, walSyncEvery, w.pause(now), "nothing of it is on disk yet")
	w.flushed = now
	require.Equal(t, walSyncEvery, w.pause(now.Add(calm)))
	require.Equal(t, calmSyncEvery, w.pause(now.Add(calm+time.Second)))
}
