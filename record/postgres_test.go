package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/testsuite/postgreslab"
	"github.com/perennial-ml/perennial/trial"
)

// inPostgres leaves a test out of the round that has its records in files.
func inPostgres(t *testing.T) *fixture {
	t.Helper()
	if server == nil {
		t.SkipNow()
	}
	return newFixture(t)
}

// another opens the same record once more, as another process would.
func (f *fixture) another() *fixture {
	f.Helper()
	store, err := Open(f.location)
	require.NoError(f, err)
	f.Cleanup(func() { store.Close() })
	return &fixture{T: f.T, Store: store}
}

func TestAServerThatCrashesLosesNothingThatWasAcknowledgedAndIsFoundAgain(t *testing.T) {
	f := inPostgres(t)
	for round := range 3 {
		acknowledged := f.writeUntilCut(round)
		require.NoError(t, server.Restart())
		require.Eventually(t, func() bool { _, err := f.Experiment(background, exp); return err == nil }, time.Minute, 10*time.Millisecond)
		for id, number := range acknowledged {
			event := f.repeat(id)
			require.Equal(t, number, event.Number, "what was acknowledged is there once")
		}
		requireCounted(f)
	}
}

// writeUntilCut has eight write until the server crashes, and returns the numbers of
// the events that were acknowledged, by command.
func (f *fixture) writeUntilCut(round int) map[string]int64 {
	f.Helper()
	var mutex sync.Mutex
	acknowledged := map[string]int64{}
	enough := make(chan struct{}, 1)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for n := 0; ; n++ {
				id := fmt.Sprint("r", round, "-", i, "-", n)
				event, err := f.Append(background, exp, addTrial(id))
				if err != nil {
					require.ErrorIs(f, err, ErrUnreachable)
					return
				}
				mutex.Lock()
				if acknowledged[id] = event.Number; len(acknowledged) == 40 {
					enough <- struct{}{}
				}
				mutex.Unlock()
			}
		})
	}
	<-enough
	require.NoError(f, server.Crash())
	group.Wait()
	return acknowledged
}

func addTrial(id string) trial.Event {
	return CommandEvent(trial.Command{ID: id, Name: trial.AddTrial, Value: []byte("{}")})
}

func (f *fixture) repeat(id string) trial.Event {
	f.Helper()
	event, err := f.Append(background, exp, addTrial(id))
	require.NoError(f, err)
	return event
}

func TestWhoReadsNeverSeesAnEventBeforeTheOnesBeforeItHoweverManyWrite(t *testing.T) {
	f := inPostgres(t)
	writers := []*fixture{f, f.another(), f.another()}
	var group sync.WaitGroup
	var over atomic.Bool
	group.Go(func() {
		for !over.Load() {
			f.log() // whose numbers have no gap
		}
	})
	var writing sync.WaitGroup
	for i, writer := range writers {
		for j := range 4 {
			writing.Go(func() {
				for n := range 15 {
					writer.repeat(fmt.Sprint(i, "-", j, "-", n))
				}
			})
		}
	}
	writing.Wait()
	over.Store(true)
	group.Wait()
	require.Len(t, f.log(), 1+len(writers)*4*15*2, "a command and an ask each")
	requireCounted(f)
}

func TestAConnectionThatWasCutBetweenChangesIsNotNoticed(t *testing.T) {
	f := inPostgres(t)
	for n := range 3 {
		f.ask(n)
		server.Ask(t, "records", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '"+postgreslab.User+"'")
	}
	require.Equal(t, 3, f.experiment().Asked)
}

func TestAWriterThatHangsInItsTransactionKeepsTheOthersWaitingOnlySoLong(t *testing.T) {
	f := inPostgres(t)
	other := f.another()
	entered, proceed, hung := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		hung <- f.update(background, func(tx *transaction) error {
			_, err := tx.exec("UPDATE experiments SET name = 'lost' WHERE id = ?", exp)
			close(entered)
			<-proceed
			return err
		})
	}()
	<-entered
	other.ask(0)
	close(proceed)
	require.ErrorIs(t, <-hung, ErrUnreachable)
	require.Equal(t, "one", f.experiment().Name)
	f.ask(1)
}

func TestWhatNoTextOfADatabaseCanHoldIsReplaced(t *testing.T) {
	f := inPostgres(t)
	f.ask(0)
	key := f.begin(0)
	f.collect(key, metrics.Record{Number: 1, Kind: metrics.Periodical, Value: "\"a\x00b\xff\""})
	all, err := f.Metrics(background, exp, 0, 1)
	require.NoError(t, err)
	require.Equal(t, "\"a\uFFFDb\uFFFD\"", all[0].Value)
}

func TestADatabaseThatHoldsSomethingElseIsLeftAlone(t *testing.T) {
	if server == nil {
		t.SkipNow()
	}
	location := place(t)
	_, err := OpenReadOnly(location)
	require.ErrorIs(t, err, ErrNotFound)
	schema := location[strings.LastIndex(location, "=")+1:]
	server.Ask(t, "records", "CREATE TABLE "+schema+".others (id BIGINT)")
	for _, open := range []func(string) (*Store, error){Open, OpenReadOnly} {
		_, err := open(location)
		require.ErrorIs(t, err, ErrDamaged)
		require.ErrorContains(t, err, "another program")
	}
}

func TestNobodyIsToldThePasswordOfARecord(t *testing.T) {
	for location, complaint := range map[string]string{
		"postgresql://me:s3cret@127.0.0.1:1/db":                       "cannot be reached",
		"postgresql://me:s3cret@127.0.0.1:1/db?connect_timeout=x":     "connect_timeout",
		"postgresql://me:s3/cret@127.0.0.1:1/db":                      "no URL",
		"postgresql://me:s3cret@example.org/db?sslmode=require":       "does not verify",
		"postgresql://me:s3cret@example.org/db?sslmode=disable":       "does not verify",
		"postgresql://example.org/db?password=s3cret&sslmode=require": "does not verify",
	} {
		for _, open := range []func(string) (*Store, error){Open, OpenReadOnly} {
			_, err := open(location)
			require.ErrorContains(t, err, complaint)
			require.NotContains(t, err.Error(), "s3", location)
		}
	}
	require.Equal(t, "postgresql://me@h:1/db?search_path=s", Redacted("postgres://me:s3cret@h:1/db?password=x&search_path=s"))
	require.Equal(t, "/home/me/record.sqlite", Redacted("/home/me/record.sqlite"))
}

func TestAWrongPasswordIsToldApartFromAServerThatIsAway(t *testing.T) {
	if server == nil {
		t.SkipNow()
	}
	_, err := Open(strings.Replace(place(t), postgreslab.Password, "wrong", 1))
	require.ErrorContains(t, err, "password authentication failed")
	require.False(t, errors.Is(err, ErrUnreachable))
}

func TestWhoIsNotOnThisMachineMustProveWhoHeIs(t *testing.T) {
	p, err := parsePostgres("postgresql://me@example.org/db")
	require.NoError(t, err)
	require.False(t, p.config.TLSConfig.InsecureSkipVerify)
	require.Equal(t, "example.org", p.config.TLSConfig.ServerName)
	require.Empty(t, p.config.Fallbacks, "nothing else is tried")
	_, err = parsePostgres("postgresql://me@127.0.0.1,example.org/db?sslmode=prefer")
	require.ErrorContains(t, err, "does not verify")
	_, err = parsePostgres("postgresql:///db?host=/var/run/postgresql")
	require.NoError(t, err)
}

func TestWhoWatchesHearsWhatAnotherProcessCommitted(t *testing.T) {
	f := inPostgres(t)
	other := f.another()
	changed, stop := f.Watch(exp)
	defer stop()
	any, stopAny := f.WatchAll(AnyExperiment)
	defer stopAny()
	f.settleWire()
	for n := range 5 {
		drain(changed)
		drain(any)
		before := time.Now()
		other.repeat(fmt.Sprint(n))
		hears(t, changed)
		t.Log("heard after", time.Since(before))
		hears(t, any)
	}
	server.Ask(t, "records", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
	drain(changed)
	other.repeat("unheard")
	hears(t, changed)
}

// settleWire waits until a store hears what others say.
func (f *fixture) settleWire() {
	f.Helper()
	require.Eventually(f, func() bool {
		return server.Ask(f.T, "records", "SELECT count(*) FROM pg_stat_activity WHERE query = 'LISTEN "+f.wire.channel+"'") != "0"
	}, time.Minute, 10*time.Millisecond)
}

func drain(changed <-chan struct{}) {
	select {
	case <-changed:
	default:
	}
}

func hears(t *testing.T, changed <-chan struct{}) {
	t.Helper()
	select {
	case <-changed:
	case <-time.After(time.Minute):
		t.Fatal("nothing was heard")
	}
}

func TestWordsThatAPoolerSwallowsAreMadeUpForByLooking(t *testing.T) {
	f := inPostgres(t)
	other := f.another()
	other.writer.announce = func(map[string]wake) string { return "" }
	changed, stop := f.Watch(exp)
	defer stop()
	for n := range 3 {
		drain(changed)
		other.repeat(fmt.Sprint(n))
		hears(t, changed)
	}
}

func TestAWordAboutMoreThanFitsIsAboutAll(t *testing.T) {
	f := inPostgres(t)
	many := map[string]wake{}
	for n := range 2000 {
		many[fmt.Sprint("experiment", n)] = wakeNews
	}
	require.Contains(t, f.wire.say(many), " *'")
	require.Empty(t, f.wire.say(nil))
	require.Equal(t, map[string]wake{"a": wakeNews | wakeRows, "b": wakeLog}, understood("a:6,b:1"))
}

func (f *fixture) lead(directory string) (lost chan error) {
	f.Helper()
	lost = make(chan error, 1)
	require.NoError(f, f.Lead(background, Leader{Directory: directory, Machine: "host " + directory, Lost: func(err error) { lost <- err }}))
	return lost
}

func TestOfTwoHostsOneLeadsUntilItEndsOrIsSilent(t *testing.T) {
	f := inPostgres(t)
	f.lead("one")
	f.ask(0)
	other := f.another()
	var living *HeldError
	require.ErrorAs(t, other.Lead(background, Leader{Directory: "two", Machine: "host two"}), &living)
	require.ErrorContains(t, living, "the host on host one, ")
	told := make(chan error, 100)
	waiting := Leader{Directory: "two", Machine: "host two", Waiting: func(living *HeldError) { told <- living }}
	led := make(chan error)
	go func() { led <- other.Lead(background, waiting) }()
	require.ErrorContains(t, <-told, "the host on host one, ")
	require.NoError(t, f.Close())
	require.NoError(t, <-led)
	other.ask(1)

	other.lease.end() // as one that was cut off
	third := f.another()
	started := time.Now()
	third.lead("three")
	t.Log("taken over after", time.Since(started))
	_, err := other.Ask(background, exp, []Ask{algorithmic(2)})
	require.ErrorIs(t, err, ErrFenced)
	require.ErrorIs(t, other.Collect(background, trial.Key{Experiment: exp}, nil, ""), ErrFenced)
	require.Equal(t, 2, third.experiment().Asked)
	third.ask(2)
	seat, err := third.Seat(background, "", "three")
	require.NoError(t, err)
	require.Equal(t, "one", seat, "what one host alone could do stays where others find it")
}

func TestWhoHasLostItsPlaceIsTold(t *testing.T) {
	f := inPostgres(t)
	lost := f.lead("one")
	next := f.another()
	next.lead("one") // the lock of that state directory has proved the first one dead
	require.ErrorIs(t, <-lost, ErrFenced)
	next.ask(0)
}

func TestACopyOfAStateDirectoryOnAnotherMachineTakesNoPlaceOfTheLiving(t *testing.T) {
	f := inPostgres(t)
	f.lead("one")
	var living *HeldError
	require.ErrorAs(t, f.another().Lead(background, Leader{Directory: "one", Machine: "its copy"}), &living)
}

func TestWhoIsNoLongerAskedToLeadWaitsForNobody(t *testing.T) {
	f := inPostgres(t)
	require.NoError(t, server.Crash())
	ctx, cancel := context.WithTimeout(background, time.Millisecond)
	defer cancel()
	err := f.Lead(ctx, Leader{Directory: "one", Waiting: func(*HeldError) {}})
	require.NoError(t, server.Restart())
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestWhoWorksAndWhoWaitsIsKnownToAllWhoReadTheRecord(t *testing.T) {
	f := inPostgres(t)
	as := func(directory string) Leader {
		about := Presence{Identity: directory + "/now", Directory: directory, Machine: "host " + directory, Process: 7, Version: "v1",
			Platforms: []string{"remote"}, Keys: []string{"old", "new"}, Since: time.Now().UTC()}
		return Leader{Directory: directory, Machine: about.Machine, Present: func() Presence { return about }}
	}
	require.NoError(t, f.Lead(background, as("one")))
	all, err := f.Workers(background)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, as("one").Present().Keys, all[0].Keys)
	require.False(t, all[0].Waits)
	require.False(t, all[0].Silent)
	require.WithinDuration(t, time.Now(), all[0].Heard, time.Minute)

	var living *HeldError
	require.ErrorAs(t, f.another().Lead(background, as("refused")), &living)
	second := as("two")
	waits := make(chan struct{}, 100)
	second.Waiting = func(*HeldError) { waits <- struct{}{} }
	ctx, stop := context.WithCancel(background)
	ended := make(chan error)
	go func() { ended <- f.another().Lead(ctx, second) }()
	<-waits
	all, err = f.Workers(background)
	require.NoError(t, err)
	require.Len(t, all, 2, "who was refused is no worker")
	require.Equal(t, "host one", all[0].Machine)
	require.True(t, all[1].Waits)
	require.Equal(t, "host two", all[1].Machine)

	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
	all, err = f.Workers(background)
	require.NoError(t, err)
	require.Len(t, all, 1, "who waits no more is gone")
	f.lease.end() // as one that was killed
	require.Eventually(t, func() bool { all, err = f.Workers(background); return err == nil && all[0].Silent }, time.Minute, 100*time.Millisecond)
}

func TestALeadOutlivesTheRestartOfTheServer(t *testing.T) {
	f := inPostgres(t)
	lost := f.lead("one")
	require.NoError(t, server.Crash())
	_, err := f.Ask(background, exp, []Ask{algorithmic(0)})
	require.ErrorIs(t, err, ErrUnreachable)
	require.NoError(t, server.Restart())
	f.ask(0)
	require.Empty(t, lost)
}

func TestWhatWasDepositedForAnExperimentThatNeverCameGoesInTheEnd(t *testing.T) {
	f := inPostgres(t)
	require.NoError(t, f.Deposit(background, "never", "code", []byte("x")))
	require.NoError(t, f.Deposit(background, exp, "code", []byte("x")))
	require.NoError(t, f.update(background, func(t *transaction) error {
		_, err := t.exec("UPDATE parcels SET kept = ?", time.Now().Add(-2*unclaimed).UnixNano())
		return err
	}))
	beside, err := OpenBeside(f.location)
	require.NoError(t, err)
	defer beside.Close()
	require.NoError(t, beside.Deposit(background, "soon", "code", []byte("x")))
	for experiment, kept := range map[string][]string{"never": nil, exp: {"code"}, "soon": {"code"}} {
		paths, err := f.Parcels(background, experiment)
		require.NoError(t, err)
		require.Equal(t, kept, paths, experiment)
	}
	_, err = OpenBeside(place(t))
	require.ErrorIs(t, err, ErrNotFound)
}

func TestAParcelIsKeptAsItIsAndCarriedWithTheRecord(t *testing.T) {
	f := inPostgres(t)
	content := []byte("a\x00\xff'b")
	require.NoError(t, f.KeepParcel(background, exp, "experiments/x", []byte("before")))
	require.NoError(t, f.KeepParcel(background, exp, "experiments/x", content))
	require.ErrorIs(t, f.KeepParcel(background, "nobody", "x", content), ErrNotFound)
	require.NoError(t, f.Close())
	there := place(t)
	require.NoError(t, Move(background, f.location, there, mover, quiet))
	store, err := Open(there)
	require.NoError(t, err)
	defer store.Close()
	paths, err := store.Parcels(background, exp)
	require.NoError(t, err)
	require.Equal(t, []string{"experiments/x"}, paths)
	carried, err := store.Parcel(background, exp, "experiments/x")
	require.NoError(t, err)
	require.Equal(t, content, carried)
	_, err = store.Parcel(background, exp, "y")
	require.ErrorIs(t, err, ErrNotFound)
}

// joins has a store lead a share of its own, as the worker of a state directory.
func (f *fixture) joins(directory string) (lost chan error) {
	f.Helper()
	lost = make(chan error, 1)
	require.NoError(f, f.Lead(background, Leader{Directory: directory, Machine: "host " + directory, Wants: Wish{Own: true},
		Waiting: func(*HeldError) {}, Lost: func(err error) { lost <- err }}))
	return lost
}

func (f *fixture) accept(experiment string) {
	f.Helper()
	_, err := f.Append(background, experiment, CommandEvent(trial.Command{ID: "accept", Name: trial.Accept, Value: json.RawMessage("{}")}))
	require.NoError(f, err)
}

func (f *fixture) meanwhile(share string) {
	f.Helper()
	require.NoError(f, f.Lead(background, Leader{Directory: "one", Machine: "host one", Wants: Wish{Share: share, Meanwhile: true}}))
}

func TestWorkersHaveAShareEachAndThatOfOneWhoIsGoneIsLedMeanwhile(t *testing.T) {
	f := inPostgres(t) // with an experiment that is under way
	f.joins("one")
	second := f.another()
	second.joins("two")
	require.Empty(t, f.Share())
	require.Equal(t, "2", second.Share())
	const other = "another2"
	second.accept(other)
	for store, own := range map[*fixture]string{f: exp, second: other} {
		active, err := store.Active(background)
		require.NoError(t, err)
		require.Equal(t, []string{own}, active)
		open, err := store.OpenAttempts(background, "fake")
		require.NoError(t, err)
		require.Empty(t, open)
	}
	reader, err := OpenReadOnly(f.location)
	require.NoError(t, err)
	defer reader.Close()
	all, err := reader.Active(background)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{exp, other}, all)
	vigil := &Vigil{}
	orphaned, err := reader.Orphaned(background, vigil)
	require.NoError(t, err)
	require.Empty(t, orphaned)

	second.lease.end() // as one that was killed
	require.Eventually(t, func() bool {
		orphaned, err = reader.Orphaned(background, vigil)
		return err == nil && len(orphaned) == 1 && orphaned[0] == "2"
	}, time.Minute, 100*time.Millisecond)
	third := f.another()
	third.joins("three")
	require.Equal(t, "3", third.Share(), "what has something to do is nobody's own")
	adopted := f.another()
	adopted.meanwhile("2")
	_, err = second.Ask(background, other, []Ask{algorithmic(0)})
	require.ErrorIs(t, err, ErrFenced)
	wanted, err := adopted.Wanted(background)
	require.NoError(t, err)
	require.False(t, wanted)

	gone, err := adopted.Deserted(background, "2")
	require.NoError(t, err)
	require.False(t, gone)
	require.NoError(t, f.update(background, func(t *transaction) error {
		_, err := t.exec("UPDATE leases SET seen = clock_timestamp() - interval '25 hours' WHERE name = 'record/2'")
		return err
	}))
	gone, err = adopted.Deserted(background, "2")
	require.NoError(t, err)
	require.True(t, gone)

	back, led := f.another(), make(chan struct{})
	go func() { back.joins("two"); close(led) }()
	require.Eventually(t, func() bool { wanted, err = adopted.Wanted(background); return err == nil && wanted }, time.Minute, 10*time.Millisecond)
	require.NoError(t, adopted.Close())
	<-led
	require.Equal(t, "2", back.Share())
	share, err := reader.ShareOf(background, other)
	require.NoError(t, err)
	require.Equal(t, "2", share)

	require.NoError(t, third.Close())
	fourth := f.another()
	fourth.joins("four")
	require.Equal(t, "3", fourth.Share(), "one that has nothing to do is used again")
	_, err = f.writer.conn.ExecContext(background, "UPDATE leases SET until = clock_timestamp() - interval '1 minute'")
	require.NoError(t, err)
	fifth := f.another()
	fifth.joins("five")
	require.Equal(t, "4", fifth.Share(), "but none of somebody who lives, though the record was away")
}

func TestARecordOfSeveralWorkersMovesIntoAFileOnceTheOthersHaveNothingToDo(t *testing.T) {
	f := inPostgres(t)
	f.joins("one")
	second := f.another()
	second.joins("two")
	const other = "another2"
	second.accept(other)
	require.NoError(t, f.Close())
	file := filepath.Join(t.TempDir(), "record.sqlite")
	as := Leader{Directory: "one", Machine: "host one"}
	var living *HeldError
	require.ErrorAs(t, Move(background, f.location, file, as, quiet), &living)
	require.NoError(t, second.Close())
	require.ErrorContains(t, Move(background, f.location, file, as, quiet), "experiments of others are under way")
	second = f.another()
	second.joins("two")
	accepted, err := second.Experiment(background, other)
	require.NoError(t, err)
	_, err = second.Finish(background, other, Done, Place{Number: accepted.LastEvent})
	require.NoError(t, err)
	require.NoError(t, second.Close())
	require.NoError(t, Move(background, f.location, file, as, quiet))
	moved, err := OpenReadOnly(file)
	require.NoError(t, err)
	defer moved.Close()
	share, err := moved.ShareOf(background, other)
	require.NoError(t, err)
	require.Empty(t, share)
}
