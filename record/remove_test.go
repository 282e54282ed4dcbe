package record

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/trial"
)

// rows counts those that are there of the experiment in any table.
func (f *fixture) rows() map[string]int {
	f.Helper()
	counted := map[string]int{}
	var tables []string
	require.NoError(f, f.query(background).each(func(row scanner) error {
		var name string
		err := row.Scan(&name)
		tables = append(tables, name)
		return err
	}, f.tables()))
	for _, table := range tables {
		column := "experiment"
		if table == "experiments" {
			column = "id"
		}
		var n int
		require.NoError(f, f.query(background).one(into(&n), "SELECT count(*) FROM "+table+" WHERE "+column+" = ?", exp), "%s", table)
		counted[table] = n
	}
	return counted
}

// tables is the query for the names of all that have rows of experiments.
func (f *fixture) tables() string {
	if server == nil {
		return "SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'identity'"
	}
	return "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename NOT IN ('identity', 'format', 'leases', 'workers')"
}

func TestAnExperimentThatIsRemovedLeavesNoRowInAnyTable(t *testing.T) {
	f := newFixture(t)
	require.NoError(t, f.KeepParcel(background, exp, "code", []byte("content")))
	f.ask(0)
	key := f.begin(0)
	f.collect(key, periodical(1, 0, "0.5"))
	_, err := f.Decide(background, Decision{Key: key, Decision: trial.Decision{ID: "d", Cause: trial.CauseUser}})
	require.NoError(t, err)
	for table, n := range f.rows() {
		require.NotZero(t, n, "the test knows nothing of %s", table)
	}
	f.settle(key, succeeded(1))
	f.finish(Done)
	f.command(trial.Remove, "")
	require.Equal(t, Removing, f.experiment().Status)
	require.NoError(t, f.Remove(background, exp))
	for table, n := range f.rows() {
		require.Zero(t, n, "%s", table)
	}
	_, err = f.Experiment(background, exp)
	require.ErrorIs(t, err, ErrNotFound)
	require.NoError(t, f.Remove(background, exp), "again, as after a crash")
}

func TestWhoeverWatchesHearsThatAnExperimentIsGone(t *testing.T) {
	f := newFixture(t)
	f.finish(Done)
	f.command(trial.Remove, "")
	f.deafen()
	heard, stop := f.WatchAll(AnyExperiment)
	defer stop()
	require.NoError(t, f.Remove(background, exp))
	require.Len(t, heard, 1)
}

func TestARemovalGoesOnWhereItWasInterrupted(t *testing.T) {
	f := newFixture(t)
	f.finish(Done)
	f.command(trial.Remove, "")
	require.NoError(t, f.removeRows(background, exp, portion{"trials", 1000}))
	removals, err := f.Removing(background)
	require.NoError(t, err)
	require.Contains(t, removals, exp)
	require.NoError(t, f.Remove(background, exp))
	removals, err = f.Removing(background)
	require.NoError(t, err)
	require.Empty(t, removals)
}

func TestWhatRunsIsNotRemovedAndWhatIsBeingRemovedTakesNoCommand(t *testing.T) {
	f := newFixture(t)
	_, err := f.try(trial.Remove, "")
	require.ErrorContains(t, err, "it is RUNNING: stop it first")
	require.Error(t, f.Remove(background, exp))
	f.finish(Stopped)
	f.command(trial.Remove, "")
	_, err = f.try(trial.Resume, "")
	require.ErrorContains(t, err, "it is being removed")
	f.command(trial.Remove, `{"leaveRemote":true}`)
	removals, err := f.Removing(background)
	require.NoError(t, err)
	require.Equal(t, map[string]trial.Removal{exp: {LeaveRemote: true}}, removals, "the last word holds")
	require.False(t, f.experiment().Status.Active())
}

func TestALargeExperimentsRoomIsGivenBackToTheDisk(t *testing.T) {
	onlyAFile(t)
	f := newFixture(t)
	large := strings.Repeat("7", 1<<18)
	for n := range 100 {
		f.ask(n)
		key := f.begin(n)
		f.collect(key, metrics.Record{Number: 1, Kind: metrics.Periodical, Value: fmt.Sprintf(`"%s"`, large)})
		f.settle(key, succeeded(1))
	}
	f.finish(Done)
	before, err := os.Stat(f.location)
	require.NoError(t, err)
	f.command(trial.Remove, "")
	require.NoError(t, f.Remove(background, exp))
	require.NoError(t, f.writer.alone(background, "PRAGMA wal_checkpoint(TRUNCATE)"))
	after, err := os.Stat(f.location)
	require.NoError(t, err)
	require.Less(t, after.Size(), before.Size()/2)
}
