package record

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/trial"
)

var mover = Leader{Directory: "directory", Machine: "this machine"}

func quiet(string, int) {}

// told is a record with something in every table, and more rows than are carried at once.
func told(t *testing.T) *fixture {
	f := tried(t, `{"name":"Random"}`)
	key := f.begin(5)
	for n := range int64(rowsAtOnce + 7) {
		f.collect(key, periodical(n+1, n, fmt.Sprint(n)))
	}
	f.collect(key, metrics.Record{Number: rowsAtOnce + 8, Kind: metrics.Final, Value: `{"default": 0.1, "ü": "\u0000"}`})
	f.decide(key, "d", trial.CauseUser)
	require.NoError(t, f.SetHandle(background, key, []byte(`{"a": 1}`)))
	return f
}

func TestARecordThatIsMovedThereAndBackIsTheSame(t *testing.T) {
	f := told(t)
	id, log, export := f.ID(), f.log(), f.everything()
	require.NoError(t, f.Close())
	there := filepath.Join(t.TempDir(), "there.db")
	counted := map[string]int{}
	require.NoError(t, Move(background, f.location, there, mover, func(table string, rows int) { counted[table] = rows }))
	require.Len(t, counted, len(tables))
	require.Equal(t, rowsAtOnce+8, counted["metrics"])
	_, err := Open(f.location)
	require.ErrorContains(t, err, "was moved elsewhere")

	back := place(t)
	require.NoError(t, Move(background, there, back, Leader{Directory: "elsewhere", Machine: "another machine"}, quiet))
	_, err = OpenReadOnly(there)
	require.ErrorContains(t, err, "was moved elsewhere")
	store, err := Open(back)
	require.NoError(t, err)
	defer store.Close()
	again := &fixture{T: t, Store: store}
	require.Equal(t, id, again.ID())
	require.Equal(t, log, again.log())
	require.Equal(t, export, again.everything())
	seat, err := again.Seat(background, "", "elsewhere")
	require.NoError(t, err)
	require.Equal(t, mover.Directory, seat, "what was begun there is found here")
	require.NoError(t, Move(background, there, back, mover, quiet), "said again it does nothing")
	again.command(trial.Pause, "")
}

// everything is all rows of all tables.
func (f *fixture) everything() (all []string) {
	f.Helper()
	for _, t := range tables {
		for key := []any(nil); ; {
			some, err := t.after(background, f.Store, key)
			require.NoError(f, err)
			if len(some.rows) == 0 {
				break
			}
			for _, row := range some.rows {
				all = append(all, fmt.Sprint(t.name, row))
			}
			key = some.rows[len(some.rows)-1][:len(t.key)]
		}
	}
	return all
}

func TestAMoveThatIsInterruptedAnywhereGoesOnAndLeavesOneRecord(t *testing.T) {
	f := told(t)
	id, export := f.ID(), f.everything()
	require.NoError(t, f.Close())
	there := filepath.Join(t.TempDir(), "there.db")
	if server == nil {
		there = place(t)
	}
	for stop := range tables {
		ctx, cancel := context.WithCancel(background)
		passed := 0
		err := Move(ctx, f.location, there, mover, func(string, int) {
			if passed++; passed > stop {
				cancel()
			}
		})
		require.ErrorIs(t, err, context.Canceled)
		_, err = Open(there)
		require.ErrorContains(t, err, "interrupted")
		whole, err := Open(f.location)
		require.NoError(t, err, "the source is the record until all has arrived")
		require.NoError(t, whole.Close())
	}
	require.NoError(t, Move(background, f.location, there, mover, quiet))

	// A kill between the last two commits.
	target, err := openAny(there)
	require.NoError(t, err)
	require.NoError(t, target.rename(background, arriving+id))
	require.NoError(t, target.Close())
	require.NoError(t, Move(background, f.location, there, mover, quiet))
	store, err := Open(there)
	require.NoError(t, err)
	defer store.Close()
	require.Equal(t, export, (&fixture{T: t, Store: store}).everything())
}

func TestNothingIsMovedOverAnotherRecordAndADifferenceIsFound(t *testing.T) {
	f, other := told(t), told(t)
	require.NoError(t, other.Close())
	require.NoError(t, f.Close())
	require.ErrorContains(t, Move(background, f.location, other.location, mover, quiet), "another record")
	require.ErrorIs(t, Move(background, place(t), filepath.Join(t.TempDir(), "there.db"), mover, quiet), ErrNotFound)

	there := filepath.Join(t.TempDir(), "there.db")
	target, err := openAny(there)
	require.NoError(t, err)
	m := move{ctx: background, source: f.reopened(), target: target, tell: quiet}
	require.NoError(t, m.begin(m.source.id))
	for _, table := range tables {
		require.NoError(t, m.carry(table))
	}
	require.NoError(t, target.update(background, func(tx *transaction) error {
		_, err := tx.exec("UPDATE metrics SET value = 'another' WHERE number = 3")
		return err
	}))
	_, err = m.compare(tables[5])
	require.ErrorContains(t, err, "did not arrive as it was")
	require.NoError(t, target.Close())
	require.ErrorContains(t, Move(background, f.location, there, mover, quiet), "did not arrive as it was")
	f.reopened()
}

func (f *fixture) reopened() *Store {
	f.Helper()
	store, err := Open(f.location)
	require.NoError(f, err)
	f.Cleanup(func() { store.Close() })
	return store
}

func TestARecordOnWhichAHostWorksIsNotMoved(t *testing.T) {
	f := inPostgres(t)
	f.lead("host")
	var living *HeldError
	require.ErrorAs(t, Move(background, f.location, filepath.Join(t.TempDir(), "there.db"), mover, quiet), &living)
}
