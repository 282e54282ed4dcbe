package record

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perennial-ml/perennial/testsuite/machine"
	"github.com/perennial-ml/perennial/testsuite/postgreslab"
	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/trial"
)

// writeEndlessly names the record that this test binary, started again by a test,
// writes to until it is killed.
const writeEndlessly = "PERENNIAL_TEST_WRITE_ENDLESSLY"

func TestMain(m *testing.M) {
	if path := os.Getenv(writeEndlessly); path != "" {
		fmt.Fprintln(os.Stderr, writeUntilKilled(path))
		os.Exit(1)
	}
	status := m.Run()
	if postgreslab.Missing() == "" {
		status = max(status, onPostgres(m))
	} else if fmt.Println("NOT TESTED HERE:", postgreslab.Missing()); os.Getenv("CI") != "" {
		status = 1
	}
	os.Exit(status)
}

// server is the PostgreSQL that keeps the records of the tests' second round, nil in
// the first.
var server *postgreslab.Server

// onPostgres runs all tests once more, with their records in PostgreSQL.
func onPostgres(m *testing.M) int {
	started, err := postgreslab.Start()
	if err == nil {
		defer started.Close()
		err = started.Create("records")
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	server = started
	// Every step of a history is a commit that goes over a socket.
	if err := flag.Set("rapid.checks", "25"); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("once more, on PostgreSQL:")
	return m.Run()
}

// place is the location of a record that is still to be made.
func place(t *testing.T) string {
	t.Helper()
	if server == nil {
		return filepath.Join(t.TempDir(), "record.db")
	}
	location, err := server.Schema("records")
	require.NoError(t, err)
	return location
}

// onlyAFile ends a test in PostgreSQL's round that is about files of SQLite's.
func onlyAFile(t *testing.T) {
	t.Helper()
	if server != nil {
		t.SkipNow()
	}
}

// writeUntilKilled prints the number of every event that was acknowledged. Trials
// are settled on the way, from eight goroutines.
func writeUntilKilled(path string) error {
	store, err := Open(path)
	if err != nil {
		return err
	}
	failed := make(chan error)
	for range 8 {
		go func() { failed <- store.runTrials() }()
	}
	return <-failed
}

func (s *Store) runTrials() error {
	for {
		number, err := s.runTrial()
		if err != nil {
			return err
		}
		fmt.Println(number)
	}
}

func (s *Store) runTrial() (int64, error) {
	event, err := s.Append(background, exp, CommandEvent(trial.Command{ID: fmt.Sprint(time.Now().UnixNano(), os.Getpid()),
		Name: trial.AddTrial, Value: json.RawMessage("{}")}))
	if err != nil {
		return 0, err
	}
	open, err := s.Unsettled(background, exp)
	if err != nil || len(open) == 0 {
		return event.Number, err
	}
	attempt, err := s.BeginAttempt(background, exp, open[0], "local")
	if errors.Is(err, ErrSettled) {
		return event.Number, nil
	}
	if err == nil {
		err = s.Collect(background, attempt.Key, []metrics.Record{periodical(1, 0, "1"), periodical(2, 1, "2")}, "2")
	}
	if err == nil {
		err = s.Settle(background, attempt.Key, succeeded(1))
	}
	return event.Number, err
}

func TestKillingTheWriterAtAnyMomentLosesNothingThatWasAcknowledged(t *testing.T) {
	path := place(t)
	store, err := Open(path)
	require.NoError(t, err)
	_, err = store.Append(background, exp, CommandEvent(trial.Command{ID: "1", Name: trial.Accept, Value: json.RawMessage("{}")}))
	require.NoError(t, err)
	require.NoError(t, store.Close())
	var acknowledged []int64
	for round := range 10 {
		acknowledged = append(acknowledged, killedAfter(t, path, 5+round*7)...)
		requireConsistent(t, path, acknowledged)
	}
	require.NotEmpty(t, acknowledged)
}

// killedAfter runs a writer, kills it after so many acknowledgements, and returns
// all that it gave.
func killedAfter(t *testing.T, path string, count int) (acknowledged []int64) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), writeEndlessly+"="+path)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		var number int64
		fmt.Sscan(lines.Text(), &number)
		acknowledged = append(acknowledged, number)
		if len(acknowledged) == count {
			require.NoError(t, command.Process.Kill())
		}
	}
	command.Wait()
	require.GreaterOrEqual(t, len(acknowledged), count, "the writer ended by itself")
	return acknowledged
}

// requireConsistent reads the record as another process would while nobody has it
// open, and then as the next host.
func requireConsistent(t *testing.T, path string, acknowledged []int64) {
	t.Helper()
	reader, err := OpenReadOnly(path)
	require.NoError(t, err)
	f := &fixture{T: t, Store: reader}
	seen := f.log()
	require.NoError(t, reader.Close())
	store, err := Open(path)
	require.NoError(t, err)
	defer store.Close()
	f.Store = store
	require.Equal(t, seen, f.log())
	if server == nil {
		var verdict string
		require.NoError(t, store.read.QueryRow("PRAGMA integrity_check").Scan(&verdict))
		require.Equal(t, "ok", verdict)
	}
	for _, number := range acknowledged {
		require.LessOrEqual(t, number, int64(len(seen)))
		require.Equal(t, trial.KindCommand, seen[number-1].Kind)
	}
	requireCounted(f)
}

// requireCounted compares what is kept with what a scan finds.
func requireCounted(f *fixture) {
	f.Helper()
	e, counts := f.experiment(), map[trial.State]int{}
	all, err := f.Trials(background, exp)
	require.NoError(f, err)
	for _, n := range all {
		counts[n.State]++
	}
	require.Len(f, all, e.Asked)
	for _, state := range trial.States() {
		require.Equal(f, counts[state], e.Counts[state], string(state))
	}
	require.EqualValues(f, len(f.log()), e.LastEvent)
}

func TestWritersThatWaitShareACommit(t *testing.T) {
	f := newFixture(t)
	var commits atomic.Int64
	f.writer.wake = func(map[string]wake) { commits.Add(1) }
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			for j := range 10 {
				command := trial.Command{ID: fmt.Sprint("w", i, "-", j), Name: trial.AddTrial, Value: json.RawMessage("{}")}
				if j == 5 {
					command.Value = json.RawMessage("[]")
				}
				_, err := f.Append(background, exp, CommandEvent(command))
				require.Equal(t, j == 5, err != nil, "one that fails takes no other with it")
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 64*9, commits.Load())
	require.Equal(t, 64*9, f.experiment().Asked)
	requireCounted(f)
}

func TestWhatWaitsWhileACommitRunsGoesIntoTheNext(t *testing.T) {
	f := newFixture(t)
	entered, proceed, first := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		first <- f.update(background, func(*transaction) error { close(entered); <-proceed; return nil })
	}()
	<-entered
	others := make(chan error)
	for range 64 {
		go func() { _, err := f.AddDriven(background, exp, 1); others <- err }()
	}
	require.Eventually(t, func() bool { return len(f.writer.waiting) == 64 }, 10*time.Second, time.Millisecond)
	batch := f.writer.gather(<-f.writer.waiting)
	require.Len(t, batch, 64)
	close(proceed)
	require.NoError(t, <-first)
	f.writer.commit(batch)
	for range 64 {
		require.NoError(t, <-others)
	}
	require.EqualValues(t, 64, f.experiment().Driven)
}

func TestOpeningWhatIsNoRecordSaysWhatToDo(t *testing.T) {
	onlyAFile(t)
	path := filepath.Join(t.TempDir(), "record.db")
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("this is no database ", 100)), 0o600))
	for _, open := range []func(string) (*Store, error){Open, OpenReadOnly} {
		_, err := open(path)
		require.ErrorIs(t, err, ErrDamaged)
		require.ErrorContains(t, err, path)
		require.ErrorContains(t, err, "put a backup in their place")
	}
}

func TestADamagedRecordIsRecognised(t *testing.T) {
	onlyAFile(t)
	f := newFixture(t)
	for n := range 200 {
		f.ask(n)
	}
	require.NoError(t, f.Close())
	file, err := os.OpenFile(f.location, os.O_RDWR, 0)
	require.NoError(t, err)
	info, err := file.Stat()
	require.NoError(t, err)
	for page := int64(4096); page < info.Size(); page += 4096 {
		_, err = file.WriteAt([]byte(strings.Repeat("\xff", 512)), page)
		require.NoError(t, err)
	}
	require.NoError(t, file.Close())
	_, err = Open(f.location)
	require.ErrorIs(t, err, ErrDamaged)
}

func TestADatabaseOfAnotherProgramIsLeftAlone(t *testing.T) {
	onlyAFile(t)
	f := newFixture(t)
	_, err := f.writer.conn.ExecContext(background, "PRAGMA application_id = 7")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, err = Open(f.location)
	require.ErrorIs(t, err, ErrDamaged)
	require.ErrorContains(t, err, "another program")
}

func TestARecordOfANewerVersionIsLeftAlone(t *testing.T) {
	f := newFixture(t)
	newer := "PRAGMA user_version = 99"
	if server != nil {
		newer = "UPDATE format SET number = 99"
	}
	_, err := f.writer.conn.ExecContext(background, newer)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	for _, open := range []func(string) (*Store, error){Open, OpenReadOnly} {
		_, err = open(f.location)
		require.ErrorIs(t, err, ErrNewer)
		require.ErrorContains(t, err, fmt.Sprintf("its format is 99 and this one reads up to %d", Format))
	}
}

func TestARecordOfAnOlderVersionIsBroughtUpToDateByItsHostAlone(t *testing.T) {
	f := newFixture(t)
	older := fmt.Sprintf("PRAGMA user_version = %d", Format-1)
	if server != nil {
		older = fmt.Sprintf("UPDATE format SET number = %d", Format-1)
	}
	_, err := f.writer.conn.ExecContext(background, older)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, err = OpenReadOnly(f.location)
	require.ErrorIs(t, err, ErrOlder)
	_, err = OpenBeside(f.location)
	require.ErrorIs(t, err, ErrOlder)
}

func TestAReaderInAnotherProcessSeesCommitsAtOnce(t *testing.T) {
	f := newFixture(t)
	reader, err := OpenReadOnly(f.location)
	require.NoError(t, err)
	defer reader.Close()
	require.Equal(t, f.ID(), reader.ID())
	require.Regexp(t, "^[a-z]{8}$", reader.ID())
	for n := range 20 {
		f.ask(n)
		e, err := reader.Experiment(background, exp)
		require.NoError(t, err)
		require.Equal(t, n+1, e.Asked)
	}
	require.Error(t, reader.SetCursor(background, exp, Place{Number: 1}))
}

func TestAMissingOrEmptyRecordIsNotFoundToReaders(t *testing.T) {
	onlyAFile(t)
	path := filepath.Join(t.TempDir(), "odd name? #1%.db")
	_, err := OpenReadOnly(path)
	require.ErrorIs(t, err, ErrNotFound)
	require.NoFileExists(t, path)
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	_, err = OpenReadOnly(path)
	require.ErrorIs(t, err, ErrNotFound)
	conn, err := connectFile(path, map[string][]string{"_pragma": {"journal_mode(wal)"}})
	require.NoError(t, err)
	require.NoError(t, conn.close())
	_, err = OpenReadOnly(path)
	require.ErrorIs(t, err, ErrNotFound, "a host was interrupted while it made the record")
	store, err := Open(path)
	require.NoError(t, err)
	defer store.Close()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(path + suffix)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
}

func TestTheRecordKeepsItsIDAndContent(t *testing.T) {
	f := newFixture(t)
	f.ask(0)
	id, before := f.ID(), f.log()
	require.NoError(t, f.Close())
	require.ErrorIs(t, f.SetCursor(background, exp, Place{Number: 1}), errClosed)
	again, err := Open(f.location)
	require.NoError(t, err)
	defer again.Close()
	require.Equal(t, id, again.ID())
	f.Store = again
	require.Equal(t, before, f.log())
}

func TestAFullDiskIsSaidClearlyAndPassesWhenThereIsRoom(t *testing.T) {
	onlyAFile(t)
	directory := machine.SmallDisk(t, "1m")
	store, err := Open(filepath.Join(directory, "record.db"))
	require.NoError(t, err)
	f := &fixture{T: t, Store: store}
	f.command(trial.Accept, "{}")
	ballast := filepath.Join(directory, "ballast")
	require.Error(t, os.WriteFile(ballast, make([]byte, 2<<20), 0o600))

	err = nil
	for i := 0; err == nil && i < 100; i++ {
		_, err = f.try(trial.AddTrial, `{"x":"`+strings.Repeat("x", 10_000)+`"}`)
	}
	require.ErrorIs(t, err, ErrFull)
	require.ErrorContains(t, err, "no space is left")
	require.NoError(t, os.Remove(ballast))
	f.command(trial.AddTrial, "{}")
	requireCounted(f)
	require.NoError(t, store.Close())
	again, err := Open(store.location)
	require.NoError(t, err)
	f.Store = again
	requireCounted(f)
	require.NoError(t, again.Close())
}

func TestACallerWhoGivesUpIsAnswered(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(background)
	cancel()
	require.ErrorIs(t, f.SetCursor(ctx, exp, Place{Number: 1}), context.Canceled)
}

func TestEveryQueryThatRunsForATrialUsesAnIndex(t *testing.T) {
	onlyAFile(t)
	f := newFixture(t)
	f.ask(0)
	key := f.begin(0)
	f.collect(key, periodical(1, 0, "1"), metrics.Record{Number: 2, Kind: metrics.Final, Value: "1"})
	f.decide(key, "a", trial.CauseUser)
	f.settle(key, succeeded(1))
	f.log()
	_, _, err := f.DecisionOn(background, key)
	require.NoError(t, err)
	_, err = f.Live(background, exp)
	require.NoError(t, err)
	_, err = f.OpenAttempts(background, "local")
	require.NoError(t, err)
	_, err = f.Faults(background, exp, 0)
	require.NoError(t, err)
	f.listed(Listing{Numbers: []int{0}, Limit: 1, Reverse: true})
	_, err = f.Latest(background, exp, []int{0})
	require.NoError(t, err)
	_, err = f.NewestAttempts(background, exp, []int{0})
	require.NoError(t, err)
	_, err = f.Intermediates(background, key, 1)
	require.NoError(t, err)
	for _, cached := range []*statements{f.prepared, f.writer.prepared} {
		for query := range cached.byQuery {
			requireIndexed(f, query)
		}
	}
}

func requireIndexed(f *fixture, query string) {
	f.Helper()
	if !strings.HasPrefix(query, "SELECT") && !strings.HasPrefix(query, "UPDATE") {
		return
	}
	arguments := make([]any, strings.Count(query, "?"))
	rows, err := f.read.Query("EXPLAIN QUERY PLAN "+query, arguments...)
	require.NoError(f, err)
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var detail string
		require.NoError(f, rows.Scan(&id, &parent, &unused, &detail))
		require.NotRegexp(f, "^SCAN [a-z]+$", detail, query)
		ofOneTrial := strings.Contains(query, "ORDER BY outcome")
		require.False(f, strings.HasSuffix(detail, "TEMP B-TREE FOR ORDER BY") && !ofOneTrial, query)
	}
}

func TestFiftyThousandTrialsAreReadAtOnce(t *testing.T) {
	f := newFixture(t)
	const trials = 50_000
	require.NoError(t, f.update(background, func(t *transaction) error {
		_, err := t.exec(`WITH RECURSIVE n(sequence) AS (SELECT 0 UNION ALL SELECT sequence + 1 FROM n WHERE sequence + 1 < ?)
			INSERT INTO trials (experiment, sequence, state, parameters, parameter_id, source, event, asked)
			SELECT ?, sequence, 'WAITING', '{"x": 5.0}', CAST(sequence AS TEXT), 'algorithm', 0, 1 FROM n`, trials, exp)
		return err
	}))
	require.NoError(t, f.edit(background, exp, func(e *experimentRow) {
		e.Asked = trials
		e.move("", trial.Waiting, trials)
	}))
	started := time.Now()
	all, err := f.Trials(background, exp)
	require.NoError(t, err)
	require.Len(t, all, trials)
	t.Log("read in", time.Since(started))
	require.Less(t, time.Since(started), 20*time.Second)
	started = time.Now()
	for n := range 100 {
		f.settle(f.begin(trials-1-n), succeeded(float64(n)))
	}
	t.Log("each settled in", time.Since(started)/100)
	require.Equal(t, trials-100, f.experiment().Counts[trial.Waiting])
	require.Equal(t, 99.0, f.experiment().Best.Value)
}
