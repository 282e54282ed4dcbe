package poller_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/activities/poller"
	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

const exp = "abcdefgh"

// memory is a platform whose runs are rows in a map, set by the test.
type memory struct {
	platforms.Platform // verbs a poller has no use for

	mu       sync.Mutex
	runs     map[trial.Key]platforms.Report
	journals map[trial.Key][]metrics.Record
	fault    error // of Poll and List
	deaf     error // of Collect
	polls    int
	listed   []trial.Key // all that were asked for, in order
	collects int
	forgot   []trial.Key
	absences int // of whoever forgets
	// piggyback has journals come with reports, up to ten records at a time.
	piggyback bool
	largest   int // handles in one Poll
}

func newMemory() *memory {
	return &memory{runs: map[trial.Key]platforms.Report{}, journals: map[trial.Key][]metrics.Record{}}
}

const losable = 3

func traits() platforms.Traits {
	return platforms.Traits{Name: "memory", PollInterval: 2 * time.Millisecond, Losable: losable}
}

func (m *memory) Poll(_ context.Context, questions []platforms.Question) ([]platforms.Report, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.polls++
	m.largest = max(m.largest, len(questions))
	var reports []platforms.Report
	for _, asked := range questions {
		report, known := m.runs[asked.Handle.Key]
		if !known {
			report.Phase = platforms.Absent
		}
		report.Key = asked.Handle.Key
		if m.piggyback {
			report.Journal = m.journal(asked)
		}
		reports = append(reports, report)
	}
	return reports, m.fault
}

func (m *memory) List(_ context.Context, keys ...trial.Key) (handles []platforms.Handle, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listed = append(m.listed, keys...)
	for key := range m.runs {
		if len(keys) == 0 || slices.Contains(keys, key) {
			handles = append(handles, handleFor(key))
		}
	}
	return handles, m.fault
}

// Collect gives two records at a time.
func (m *memory) Collect(_ context.Context, handle platforms.Handle, after platforms.Cursor) ([]metrics.Record, platforms.Cursor, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.collects++
	at, _ := strconv.Atoi(string(after))
	journal := m.journals[handle.Key]
	end := min(at+2, len(journal))
	return journal[at:end], platforms.Cursor(strconv.Itoa(end)), m.deaf
}

func (m *memory) journal(asked platforms.Question) *platforms.Journal {
	at, _ := strconv.Atoi(string(asked.After))
	journal := m.journals[asked.Handle.Key]
	end := min(at+10, len(journal))
	return &platforms.Journal{Records: journal[at:end], Next: platforms.Cursor(strconv.Itoa(end)), More: end < len(journal)}
}

func (m *memory) Forget(_ context.Context, handle platforms.Handle) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.absences--; m.absences >= 0 {
		return errors.New("nobody answers just now")
	}
	m.forgot = append(m.forgot, handle.Key)
	return nil
}

func (m *memory) Close() error { return nil }

func (m *memory) set(key trial.Key, report platforms.Report) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runs[key] = report
}

func (m *memory) report(key trial.Key, count int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for range count {
		n := int64(len(m.journals[key]))
		m.journals[key] = append(m.journals[key],
			metrics.Record{Number: n + 1, Kind: metrics.Periodical, Step: n, Value: "1", Time: time.Unix(n, 0)})
	}
}

func (m *memory) fail(poll, collect error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault, m.deaf = poll, collect
}

func (m *memory) asked() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.largest
}

func (m *memory) polled() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.polls
}

func handleFor(key trial.Key) platforms.Handle { return platforms.Handle{Platform: "memory", Key: key} }

// bench is a platform, a record with one experiment, and perhaps a poller at work.
type bench struct {
	*testing.T
	*memory
	store *record.Store
	path  string // of the record
	open  func() *poller.Sections
	poll  *poller.Section // once it runs
	log   *safeBuffer
}

func newBench(t *testing.T) *bench {
	path := filepath.Join(t.TempDir(), "record.db")
	store, err := record.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { store.Close() })
	_, err = store.Append(t.Context(), exp, record.CommandEvent(trial.Command{ID: "1", Name: trial.Accept, Value: json.RawMessage(`{}`)}))
	require.NoError(t, err)
	log := &safeBuffer{}
	b := &bench{T: t, memory: newMemory(), store: store, path: path, log: log}
	b.anew(b.memory, traits(), io.MultiWriter(log, t.Output()))
	return b
}

// anew makes what run begins with.
func (b *bench) anew(platform platforms.Platform, traits platforms.Traits, log io.Writer) {
	b.open = func() *poller.Sections {
		return poller.Observe(poller.Options{
			Registry: platforms.Registry{"memory": {Traits: traits, Open: func(platforms.Section) platforms.Platform { return platform }}},
			Sections: func(_ context.Context, experiment string) ([]platforms.Section, error) {
				return []platforms.Section{{Platform: "memory", Experiment: experiment}}, nil
			},
			Record: b.store, Logger: slog.New(slog.NewTextHandler(log, nil)),
		})
	}
}

// run begins to observe. kill ends that at once.
func (b *bench) run() (kill func()) {
	b.Helper()
	sections := b.open()
	kill = sync.OnceFunc(sections.Stop)
	b.Cleanup(kill)
	var err error
	b.poll, err = sections.Of(b.Context(), exp, 0)
	require.NoError(b, err)
	return kill
}

// begin makes a trial with an open attempt; with a handle if it was submitted.
func (b *bench) begin() trial.Key {
	b.Helper()
	row, err := b.store.Experiment(b.Context(), exp)
	require.NoError(b, err)
	_, err = b.store.Ask(b.Context(), exp, []record.Ask{{Sequence: row.Asked, Asked: trial.Asked{Parameters: json.RawMessage("{}")}}})
	require.NoError(b, err)
	return b.next(row.Asked)
}

func (b *bench) next(n int) trial.Key {
	b.Helper()
	attempt, err := b.store.BeginAttempt(b.Context(), exp, n, "memory")
	require.NoError(b, err)
	return attempt.Key
}

func (b *bench) submit(key trial.Key) {
	b.Helper()
	text, err := json.Marshal(handleFor(key))
	require.NoError(b, err)
	require.NoError(b, b.store.SetHandle(b.Context(), key, text))
}

func (b *bench) attempt(key trial.Key) record.Attempt {
	attempt, err := b.store.Attempt(b.Context(), key)
	require.NoError(b, err)
	return attempt
}

func (b *bench) eventually(key trial.Key, condition func(record.Attempt) bool) {
	b.Helper()
	require.Eventually(b, func() bool { return condition(b.attempt(key)) }, 20*time.Second, 2*time.Millisecond)
}

// rounds waits until the poller has looked a few times more.
func (b *bench) rounds() {
	b.Helper()
	from := b.polled()
	require.Eventually(b, func() bool { return b.polled() > from+5 }, 20*time.Second, time.Millisecond)
}

func (b *bench) watch(key trial.Key) record.Attempt {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 20*time.Second)
	defer cancel()
	attempt, err := b.poll.Watch(ctx, key)
	require.NoError(b, err)
	return attempt
}

func running() platforms.Report {
	return platforms.Report{Phase: platforms.Running, Started: time.Unix(50, 0)}
}

func exited(code int) platforms.Report {
	return platforms.Report{Phase: platforms.Exited, Started: time.Unix(50, 0), Ended: time.Unix(60, 0), Exit: &trial.Exit{Code: code}}
}

type safeBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *safeBuffer) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Count(b.buffer.Bytes(), []byte(text))
}

func TestWatchReturnsWhenTheAttemptIsOverAndAllItReportedIsOnRecord(t *testing.T) {
	b := newBench(t)
	b.run()
	key := b.begin()
	b.submit(key)
	b.set(key, running())
	b.report(key, 3)
	answer := make(chan record.Attempt)
	go func() { answer <- b.watch(key) }()
	b.eventually(key, func(a record.Attempt) bool { return a.Phase == "running" && a.Metrics == 3 })
	b.report(key, 4)
	b.set(key, exited(2))
	attempt := <-answer
	require.True(t, attempt.Drained)
	require.Equal(t, 7, attempt.Metrics)
	require.Equal(t, 2, attempt.Exit.Code)
	require.Equal(t, time.Unix(60, 0).UTC(), attempt.Ended)
	require.Equal(t, attempt, b.watch(key), "what is over is answered at once")
}

func TestAHostThatComesBackObservesWhatIsOnRecordByItself(t *testing.T) {
	b := newBench(t)
	submitted, lostReply, ended := b.begin(), b.begin(), b.begin()
	b.submit(submitted)
	b.submit(ended)
	b.set(submitted, running())
	b.set(lostReply, running())
	b.set(ended, exited(0))
	for _, key := range []trial.Key{submitted, lostReply, ended} {
		b.report(key, 5)
	}
	b.run()
	b.eventually(submitted, func(a record.Attempt) bool { return a.Metrics == 5 && a.Phase == "running" })
	b.eventually(lostReply, func(a record.Attempt) bool { return a.Metrics == 5 && a.Handle != nil })
	b.eventually(ended, func(a record.Attempt) bool { return a.Metrics == 5 && a.Drained })
}

func TestAnAttemptThatMayYetBeSubmittedIsWaitedFor(t *testing.T) {
	b := newBench(t)
	key := b.begin()
	b.run()
	answer := make(chan record.Attempt)
	go func() { answer <- b.watch(key) }()
	other := b.begin()
	b.submit(other)
	b.set(other, running())
	b.poll.Adopt(b.attempt(other))
	b.rounds()
	require.Empty(t, b.attempt(key).Phase)
	b.submit(key)
	b.set(key, exited(0))
	require.True(t, (<-answer).Drained)
}

func TestARunThatMayNotHaveBegunIsLeftToItsSubmit(t *testing.T) {
	for _, phase := range []platforms.Phase{platforms.Unreachable, platforms.Waiting, platforms.Absent} {
		t.Run(string(phase), func(t *testing.T) {
			b := newBench(t)
			half, other := b.begin(), b.begin()
			b.submit(other)
			b.set(half, platforms.Report{Phase: phase})
			b.set(other, running())
			b.run()
			b.eventually(other, func(a record.Attempt) bool { return a.Phase == "running" })
			b.rounds()
			require.Nil(t, b.attempt(half).Handle)
		})
	}
}

func TestAnAttemptThatWaitsToBeSubmittedIsAskedForByItselfAndNotInEveryRound(t *testing.T) {
	b := newBench(t)
	key := b.begin()
	other := b.begin()
	b.submit(other)
	b.set(other, running())
	b.run() // it adopts both, the first without a handle
	b.eventually(other, func(a record.Attempt) bool { return a.Phase == "running" })
	b.rounds()
	b.mu.Lock()
	listed := slices.Clone(b.listed)
	b.mu.Unlock()
	require.Equal(t, []trial.Key{key}, listed)
	b.set(key, exited(0))
	b.submit(key)
	require.True(t, b.watch(key).Drained)
}

func TestAnAttemptWithAnOutcomeThatThePlatformDoesNotKnowIsOver(t *testing.T) {
	b := newBench(t)
	key := b.begin()
	require.NoError(t, b.store.Settle(t.Context(), key, record.Settlement{Outcome: record.OutcomeFault}))
	b.run()
	require.Equal(t, "absent", b.watch(key).Phase)
	open, err := b.store.OpenAttempts(t.Context(), "memory")
	require.NoError(t, err)
	require.Empty(t, open)
}

func TestARunThatVanishedIsOverWithAReason(t *testing.T) {
	b := newBench(t)
	key := b.begin()
	b.submit(key)
	b.run()
	attempt := b.watch(key)
	require.Equal(t, "absent", attempt.Phase)
	require.Equal(t, "vanished", attempt.Reason.Code)
}

func TestCannotReachIsAReasonAndNothingElse(t *testing.T) {
	b := newBench(t)
	b.run()
	key := b.begin()
	b.submit(key)
	b.set(key, running())
	b.poll.Adopt(b.attempt(key))
	b.eventually(key, func(a record.Attempt) bool { return a.Phase == "running" })
	before := b.attempt(key)

	b.fail(errors.New("no route to host"), nil)
	b.eventually(key, func(a record.Attempt) bool { return a.Reason.Code == "cannot-reach" })
	b.rounds()
	after := b.attempt(key)
	require.Equal(t, "cannot reach memory: no route to host", after.Reason.Text)
	after.Reason = before.Reason
	require.Equal(t, before, after)
	row, err := b.store.Trial(t.Context(), exp, 0)
	require.NoError(t, err)
	require.Equal(t, trial.Running, row.State)
	require.Equal(t, 1, b.log.count("no route to host"), "logged once")

	b.fail(nil, nil)
	b.eventually(key, func(a record.Attempt) bool { return a.Reason.Zero() })
	b.set(key, platforms.Report{Phase: platforms.Unreachable})
	b.eventually(key, func(a record.Attempt) bool { return a.Reason.Code == "cannot-reach" && a.Phase == "running" })
	other := trial.Reason{Code: "other-machine", Text: "it runs on ada"}
	b.set(key, platforms.Report{Phase: platforms.Unreachable, Reason: other})
	b.eventually(key, func(a record.Attempt) bool { return a.Reason == other && a.Phase == "running" })
}

func TestAnAttemptIsLostOnlyAfterEnoughDefiniteObservations(t *testing.T) {
	b := newBench(t)
	key := b.begin()
	b.submit(key)
	b.set(key, platforms.Report{Phase: platforms.Lost, Reason: trial.Reason{Code: "runner-died"}})
	b.report(key, 3)
	b.run()
	attempt := b.watch(key)
	require.GreaterOrEqual(t, b.polled(), losable)
	require.Equal(t, "lost", attempt.Phase)
	require.Equal(t, "runner-died", attempt.Reason.Code)
	require.Equal(t, 3, attempt.Metrics)
	require.True(t, attempt.Drained)
}

func TestNobodyIsReleasedWhileMetricsAreMissing(t *testing.T) {
	b := newBench(t)
	key := b.begin()
	b.submit(key)
	pending := exited(0)
	pending.Pending = true
	b.set(key, pending)
	b.report(key, 1)
	b.fail(nil, errors.New("broken pipe"))
	b.run()
	b.eventually(key, func(a record.Attempt) bool { return a.Phase == "exited" })
	b.rounds()
	require.False(t, b.attempt(key).Drained)
	b.fail(nil, nil)
	b.eventually(key, func(a record.Attempt) bool { return a.Metrics == 1 })
	b.rounds()
	require.False(t, b.attempt(key).Drained, "the platform says that more is to come")
	b.report(key, 1)
	b.set(key, exited(0))
	require.Equal(t, 2, b.watch(key).Metrics)
}

func TestAJournalThatIsGoneDoesNotKeepATrialForEver(t *testing.T) {
	b := newBench(t)
	key := b.begin()
	b.submit(key)
	b.set(key, exited(0))
	b.fail(nil, platforms.Errorf(platforms.NotFound, "collect", "no such file"))
	b.run()
	attempt := b.watch(key)
	require.True(t, attempt.Drained)
	require.Equal(t, "journal-lost", attempt.Reason.Code)
	require.Contains(t, attempt.Reason.Text, "no such file")
}

// As a disk that fails: it may be mended, and nothing else brings the metrics.
func TestAJournalThatCannotBeReadAtTheEndIsTheTrialsReasonUntilItCan(t *testing.T) {
	b := newBench(t)
	key := b.begin()
	b.submit(key)
	pending := exited(0)
	pending.Pending = true
	b.set(key, pending)
	b.report(key, 1)
	b.run()
	b.eventually(key, func(a record.Attempt) bool { return a.Phase == "exited" && a.Metrics == 1 })
	b.fail(nil, errors.New("read journal: input/output error"))
	b.report(key, 1)
	b.set(key, exited(0))
	b.eventually(key, func(a record.Attempt) bool { return a.Reason.Code == "unread-metrics" })
	row, err := b.store.Trial(t.Context(), exp, key.Sequence)
	require.NoError(t, err)
	require.Contains(t, row.Reason.Text, "input/output error")
	require.False(t, b.attempt(key).Drained)
	b.fail(nil, nil)
	attempt := b.watch(key)
	require.Equal(t, 2, attempt.Metrics)
	require.True(t, attempt.Reason.Zero())
}

// crashing is a platform whose code has a bug.
type crashing struct {
	*memory
	broken atomic.Bool
}

func (c *crashing) Poll(ctx context.Context, questions []platforms.Question) ([]platforms.Report, error) {
	if c.broken.Load() {
		panic("index out of range [3] with length 3")
	}
	return c.memory.Poll(ctx, questions)
}

func (c *crashing) Collect(ctx context.Context, handle platforms.Handle, after platforms.Cursor) ([]metrics.Record, platforms.Cursor, error) {
	if c.broken.Load() {
		panic("nil map")
	}
	return c.memory.Collect(ctx, handle, after)
}

func TestAPlatformThatPanicsEndsNobodyAndIsTheTrialsReason(t *testing.T) {
	b := newBench(t)
	platform := &crashing{memory: b.memory}
	platform.broken.Store(true)
	b.anew(platform, traits(), b.log)
	key := b.begin()
	b.submit(key)
	b.set(key, exited(0))
	b.report(key, 1)
	b.run()
	b.eventually(key, func(a record.Attempt) bool { return strings.Contains(a.Reason.Text, "index out of range") })
	_, _, err := b.poll.Collect(t.Context(), handleFor(key), "")
	require.Equal(t, platforms.Transient, platforms.CodeOf(err))
	require.ErrorContains(t, err, "nil map")
	require.Positive(t, b.log.count("poller_test.go"), "the log has the stack")
	platform.broken.Store(false)
	require.Equal(t, 1, b.watch(key).Metrics)
}

func TestASupersededAttemptIsCollectedAndNeverSettled(t *testing.T) {
	b := newBench(t)
	first := b.begin()
	b.submit(first)
	b.set(first, running())
	b.run()
	b.eventually(first, func(a record.Attempt) bool { return a.Phase == "running" })
	require.NoError(t, b.store.Settle(t.Context(), first, record.Settlement{Outcome: record.OutcomeFault}))
	b.next(0)
	b.report(first, 4)
	b.set(first, exited(0))
	b.eventually(first, func(a record.Attempt) bool { return a.Drained && a.Metrics == 4 })
	require.Equal(t, record.OutcomeFault, b.attempt(first).Outcome)
	row, err := b.store.Trial(t.Context(), exp, 0)
	require.NoError(t, err)
	require.Equal(t, trial.Waiting, row.State)
	events, err := b.store.Events(t.Context(), exp, 0, 0)
	require.NoError(t, err)
	require.Len(t, events, 2, "its metrics feed nobody")
}

func TestAPollerKilledAtAnyMomentLosesAndRepeatsNothing(t *testing.T) {
	b := newBench(t)
	var keys []trial.Key
	for range 30 {
		key := b.begin()
		b.submit(key)
		b.set(key, running())
		keys = append(keys, key)
	}
	for life := range 5 {
		b.anew(b.memory, traits(), io.Discard)
		kill := b.run()
		for _, key := range keys {
			b.report(key, 3)
		}
		b.eventually(keys[life], func(a record.Attempt) bool { return a.Metrics > 3*life })
		kill()
	}
	for _, key := range keys {
		b.set(key, exited(0))
	}
	b.anew(b.memory, traits(), io.Discard)
	b.run()
	for _, key := range keys {
		require.Equal(t, 15, b.watch(key).Metrics, fmt.Sprint(key))
	}
	events, err := b.store.Events(t.Context(), exp, 0, 0)
	require.NoError(t, err)
	require.Len(t, events, 1+30+30*15)
}

func TestAllRunsAreAskedAboutInOnePoll(t *testing.T) {
	b := newBench(t)
	for range 30 {
		key := b.begin()
		b.submit(key)
		b.set(key, running())
	}
	b.run()
	require.Eventually(t, func() bool { return b.asked() == 30 }, 20*time.Second, time.Millisecond)
}

func TestARecordThatCannotBeReadAtTheStartIsAskedAgain(t *testing.T) {
	b := newBench(t)
	key := b.begin()
	b.submit(key)
	b.set(key, exited(0))
	database, err := sql.Open("sqlite", b.path)
	require.NoError(t, err)
	defer database.Close()
	spoil := func(column string) {
		_, err := database.Exec("PRAGMA busy_timeout = 10000; UPDATE attempts SET exit = " + column)
		require.NoError(t, err)
	}
	spoil("'{'")
	b.run()
	require.Eventually(t, func() bool { return b.log.count("read the record") > 0 }, 20*time.Second, time.Millisecond)
	spoil("NULL")
	b.eventually(key, func(a record.Attempt) bool { return a.Drained })
}

func TestWatchEndsWithItsContext(t *testing.T) {
	b := newBench(t)
	b.run()
	key := b.begin()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.poll.Watch(ctx, key)
	require.ErrorIs(t, err, context.Canceled)
	_, err = b.poll.Watch(t.Context(), trial.Key{Experiment: exp, Sequence: 9, Attempt: 1})
	require.ErrorIs(t, err, record.ErrNotFound)
}

// telling is a platform that tells of ends, and may be polled once an hour.
type telling struct {
	*memory
	ends chan trial.Key
}

func hourly() platforms.Traits {
	hourly := traits()
	hourly.PollInterval = time.Hour
	return hourly
}

func (t telling) Ends() <-chan trial.Key { return t.ends }

func TestAnEndThatIsToldOfDoesNotWaitForTheNextPoll(t *testing.T) {
	b := newBench(t)
	platform := telling{b.memory, make(chan trial.Key)}
	b.anew(platform, hourly(), t.Output())
	b.run()
	key := b.begin()
	b.set(key, platforms.Report{Phase: platforms.Running})
	b.submit(key)
	watched := make(chan record.Attempt)
	go func() { watched <- b.watch(key) }()
	b.eventually(key, func(a record.Attempt) bool { return a.Phase == string(platforms.Running) })
	b.report(key, 3)
	b.set(key, platforms.Report{Phase: platforms.Exited, Exit: &trial.Exit{}})
	platform.ends <- key
	require.Equal(t, 3, (<-watched).Metrics)
}

func TestAnEndThatIsToldOfBeforeAnybodyWatchesIsSeenAtOnce(t *testing.T) {
	b := newBench(t)
	platform := telling{b.memory, make(chan trial.Key)}
	b.anew(platform, hourly(), t.Output())
	b.run()
	key := b.begin()
	b.set(key, platforms.Report{Phase: platforms.Exited, Exit: &trial.Exit{}})
	platform.ends <- key
	b.submit(key)
	require.True(t, b.watch(key).Drained)
}

func TestEndsThatAreToldOfTogetherTakeOneLook(t *testing.T) {
	b := newBench(t)
	const count = 20
	platform := telling{b.memory, make(chan trial.Key, count)}
	b.anew(platform, hourly(), t.Output())
	b.run()
	var keys []trial.Key
	for range count {
		key := b.begin()
		b.set(key, platforms.Report{Phase: platforms.Running})
		b.submit(key)
		keys = append(keys, key)
		go b.poll.Watch(t.Context(), key)
		b.eventually(key, func(a record.Attempt) bool { return a.Phase == string(platforms.Running) })
	}
	before := b.polled()
	b.mu.Lock() // a platform far away: nobody is answered meanwhile
	for _, key := range keys {
		b.runs[key] = platforms.Report{Key: key, Phase: platforms.Exited, Exit: &trial.Exit{}}
		platform.ends <- key
	}
	b.mu.Unlock()
	for _, key := range keys {
		b.eventually(key, func(a record.Attempt) bool { return a.Drained })
	}
	require.LessOrEqual(t, b.polled()-before, count/4)
}

func TestWhatComesWithAReportIsNotAskedForAgain(t *testing.T) {
	b := newBench(t)
	b.piggyback = true
	key, longer := b.begin(), b.begin()
	for _, k := range []trial.Key{key, longer} {
		b.submit(k)
		b.set(k, running())
	}
	b.report(key, 7)
	b.run()
	b.eventually(key, func(a record.Attempt) bool { return a.Metrics == 7 })
	b.report(key, 2)
	b.set(key, exited(0))
	require.Equal(t, 9, b.watch(key).Metrics)
	b.mu.Lock()
	require.Zero(t, b.collects)
	b.mu.Unlock()
	b.report(longer, 25) // more than comes with a report
	b.set(longer, exited(0))
	require.Equal(t, 25, b.watch(longer).Metrics)
}

func TestWhatAPlatformLearnsOfARunIsKept(t *testing.T) {
	b := newBench(t)
	key := b.begin()
	b.submit(key)
	learned := handleFor(key)
	learned.Host, learned.URL = "node-7", "https://example.org/jobs/1"
	report := running()
	report.Handle = &learned
	b.set(key, report)
	b.run()
	b.eventually(key, func(a record.Attempt) bool { return bytes.Contains(a.Handle, []byte("node-7")) })
	b.set(key, exited(0))
	var kept platforms.Handle
	require.NoError(t, json.Unmarshal(b.watch(key).Handle, &kept))
	require.Equal(t, learned, kept)
}

func TestARunIsForgottenOnceAllOfItIsOnRecordThoughTheServiceIsAwayForAMoment(t *testing.T) {
	b := newBench(t)
	b.absences = 2
	key, going := b.begin(), b.begin()
	for _, k := range []trial.Key{key, going} {
		b.submit(k)
		b.set(k, running())
		b.report(k, 3)
	}
	b.set(key, exited(0))
	b.run()
	require.Equal(t, 3, b.watch(key).Metrics)
	b.eventually(going, func(a record.Attempt) bool { return a.Metrics == 3 })
	require.Eventually(t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return slices.Equal(b.forgot, []trial.Key{key})
	}, 20*time.Second, time.Millisecond)
}

func TestAPlatformThatWantsToBeLeftAloneIsAndTrialsSayWhy(t *testing.T) {
	for code, reason := range map[platforms.Code]string{platforms.Exhausted: "throttled", platforms.Denied: "denied"} {
		b := newBench(t)
		key := b.begin()
		b.submit(key)
		b.set(key, running())
		b.fail(&platforms.Error{Code: code, Verb: "poll", After: time.Hour, Err: errors.New("60 lists a minute")}, nil)
		b.run()
		b.eventually(key, func(a record.Attempt) bool { return a.Reason.Code == reason })
		require.Contains(t, b.attempt(key).Reason.Text, "60 lists a minute")
		require.Equal(t, 1, b.polled(), "not before an hour has passed")
	}
}

func TestASectionOfAnExperimentThatIsOverIsOpenedAnewWhenItIsNeeded(t *testing.T) {
	b := newBench(t)
	b.run()
	before := b.poll
	sections := b.open()
	t.Cleanup(sections.Stop)
	first, err := sections.Of(t.Context(), exp, 0)
	require.NoError(t, err)
	again, err := sections.Of(t.Context(), exp, 7)
	require.NoError(t, err)
	require.Same(t, first, again, "trials of an experiment with one platform share its section")
	sections.Retain([]string{exp}, 0)
	kept, err := sections.Of(t.Context(), exp, 0)
	require.NoError(t, err)
	require.Same(t, first, kept)
	sections.Retain(nil, time.Hour)
	kept, err = sections.Of(t.Context(), exp, 0)
	require.NoError(t, err)
	require.Same(t, first, kept, "it was needed a moment ago")
	sections.Retain(nil, 0)
	key := b.begin()
	_, err = first.Watch(t.Context(), key)
	require.ErrorContains(t, err, "closed", "whoever has it still is told")
	after, err := sections.Of(t.Context(), exp, 0)
	require.NoError(t, err)
	require.NotSame(t, first, after)
	require.NotSame(t, before, after)
}

func TestARunThatWasLostWithItsJournalSaysWhyItWasLost(t *testing.T) {
	b := newBench(t)
	key := b.begin()
	b.submit(key)
	b.set(key, platforms.Report{Phase: platforms.Lost, Reason: trial.Reason{Code: "host-lost", Text: "nothing was heard of it"}})
	b.fail(nil, platforms.Errorf(platforms.NotFound, "collect", "given up"))
	b.run()
	require.Equal(t, "host-lost", b.watch(key).Reason.Code)
}
