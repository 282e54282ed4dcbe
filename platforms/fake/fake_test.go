package fake

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/trial"
)

// clock is a time that tests move.
type clock struct {
	lock sync.Mutex
	time time.Time
}

func newClock() *clock { return &clock{time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.time
}

func (c *clock) pass(seconds float64) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.time = c.time.Add(time.Duration(seconds * float64(time.Second)))
}

func keyed(sequence, attempt int) trial.Key {
	return trial.Key{Experiment: "abcdefgh", Sequence: sequence, Attempt: attempt}
}

// work is a job and the options that its section has meanwhile.
type work struct {
	platforms.Job
	options string
}

func jobOf(key trial.Key, options string) work {
	return work{platforms.Job{Key: key, Parameters: json.RawMessage(`{"x": 5.0, "layers": {"_name": "a"}}`)}, options}
}

// site is a platform whose section's options a test changes.
type site struct {
	platforms.Platform
	options string
}

func openIn(state string, clock *clock) *site {
	s := &site{}
	resolve := func(context.Context) (json.RawMessage, error) { return json.RawMessage(s.options), nil }
	s.Platform = New(Options{StateDirectory: state, Now: clock.now}).Open(platforms.Section{Platform: Name, Experiment: "abcdefgh", Resolve: resolve})
	return s
}

func newPlatform(t *testing.T) (*site, *clock) {
	clock := newClock()
	return openIn(t.TempDir(), clock), clock
}

func (s *site) submit(t *testing.T, job work) (platforms.Handle, error) {
	s.options = job.options
	return s.Submit(t.Context(), job.Job)
}

func submit(t *testing.T, platform *site, job work) platforms.Handle {
	handle, err := platform.submit(t, job)
	require.NoError(t, err)
	return handle
}

func poll(t *testing.T, platform platforms.Platform, handle platforms.Handle) platforms.Report {
	reports, err := platform.Poll(t.Context(), platforms.Ask(handle))
	require.NoError(t, err)
	return reports[0]
}

func collected(t *testing.T, platform platforms.Platform, handle platforms.Handle) []string {
	records, _, err := platform.Collect(t.Context(), handle, "")
	require.NoError(t, err)
	var texts []string
	for _, record := range records {
		texts = append(texts, fmt.Sprintf("%d %s %d %s", record.Number, record.Kind, record.Step, record.Value))
	}
	return texts
}

func TestARunGoesThroughItsPhasesByTheClock(t *testing.T) {
	platform, clock := newPlatform(t)
	handle := submit(t, platform, jobOf(keyed(0, 1), `{"waiting": 1, "duration": 3, "intermediates": [0.5, {"parameter": "x"}], "final": {"default": 0.75, "acc": 1}, "exitCode": 4}`))
	require.Equal(t, platforms.Waiting, poll(t, platform, handle).Phase)
	require.False(t, poll(t, platform, handle).Reason.Zero())
	clock.pass(1)
	require.Equal(t, platforms.Running, poll(t, platform, handle).Phase)
	require.Empty(t, collected(t, platform, handle))
	clock.pass(1)
	require.Equal(t, []string{"1 PERIODICAL 0 0.5"}, collected(t, platform, handle))
	clock.pass(2)
	report := poll(t, platform, handle)
	require.Equal(t, platforms.Exited, report.Phase)
	require.Equal(t, &trial.Exit{Code: 4}, report.Exit)
	require.Equal(t, 3*time.Second, report.Ended.Sub(report.Started))
	require.Equal(t, []string{"1 PERIODICAL 0 0.5", "2 PERIODICAL 1 5.0", `3 FINAL 0 {"default": 0.75, "acc": 1}`}, collected(t, platform, handle))
}

func TestRulesChangeOnlyTheFieldsTheyName(t *testing.T) {
	settings, err := ParseOptions(json.RawMessage(`{"duration": 2, "exitCode": 1, "final": 0.5,
		"rules": [{"trials": [3], "duration": 9}, {"attempts": [2], "exitCode": 0}, {"trials": [3], "attempts": [2], "lostReplies": 1}]}`))
	require.NoError(t, err)
	duration := func(n, attempt int) float64 { return settings.behaviourOf(keyed(n, attempt)).Duration.Lowest }
	require.Equal(t, []float64{2, 9, 2}, []float64{duration(0, 1), duration(3, 1), duration(4, 2)})
	require.Equal(t, 1, settings.behaviourOf(keyed(3, 1)).ExitCode)
	require.Zero(t, settings.behaviourOf(keyed(4, 2)).ExitCode)
	require.Equal(t, 1, settings.behaviourOf(keyed(3, 2)).LostReplies)
	require.NotNil(t, settings.behaviourOf(keyed(3, 2)).Final)
}

func TestARuleThatNamesAFieldDoesNotChangeItForOtherTrials(t *testing.T) {
	settings, err := ParseOptions(json.RawMessage(`{"intermediates": [1, 2], "final": 3, "rules": [{"trials": [0], "intermediates": [{"parameter": "x"}, 9], "final": 9}]}`))
	require.NoError(t, err)
	changed := settings.behaviourOf(keyed(0, 1))
	require.Equal(t, "x", changed.Intermediates[0].parameter)
	kept := settings.behaviourOf(keyed(1, 1))
	require.Equal(t, "1", string(kept.Intermediates[0].constant))
	require.Empty(t, kept.Intermediates[0].parameter)
	require.Equal(t, "3", string(kept.Final.constant))
}

func TestAMetricWithATimeComesAtThatTimeAndRawTextAsItIs(t *testing.T) {
	platform, clock := newPlatform(t)
	handle := submit(t, platform, jobOf(keyed(0, 1), `{"duration": 10, "intermediates": [{"at": 6, "value": 2}, {"at": 1, "value": {"raw": "NaN"}}]}`))
	clock.pass(2)
	require.Equal(t, []string{"1 PERIODICAL 0 NaN"}, collected(t, platform, handle))
	clock.pass(8)
	require.Equal(t, []string{"1 PERIODICAL 0 NaN", "2 PERIODICAL 1 2"}, collected(t, platform, handle))
}

func TestConfiguredAnswersOfSubmitAreLostOnceEachAndForAllProcesses(t *testing.T) {
	state, clock := t.TempDir(), newClock()
	job := jobOf(keyed(0, 1), `{"duration": 1, "lostReplies": 2}`)
	for range 2 {
		_, err := openIn(state, clock).submit(t, job)
		require.Equal(t, platforms.Transient, platforms.CodeOf(err))
		require.Error(t, err)
	}
	platform := openIn(state, clock)
	handles, err := platform.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, handles, []platforms.Handle{submit(t, platform, job)})
}

func TestNothingIsHeardOfARunInItsUnreachableWindow(t *testing.T) {
	platform, clock := newPlatform(t)
	handle := submit(t, platform, jobOf(keyed(0, 1), `{"duration": 5, "final": 1, "unreachable": [[1, 7]]}`))
	clock.pass(6)
	require.Equal(t, platforms.Unreachable, poll(t, platform, handle).Phase)
	_, _, err := platform.Collect(t.Context(), handle, "")
	require.Equal(t, platforms.Transient, platforms.CodeOf(err))
	require.Error(t, platform.Cancel(t.Context(), handle, trial.Intent{Cause: trial.CauseUser}))
	clock.pass(1)
	require.Equal(t, platforms.Exited, poll(t, platform, handle).Phase)
	require.Len(t, collected(t, platform, handle), 1)
}

func TestALostRunKeepsWhatItReportedBefore(t *testing.T) {
	platform, clock := newPlatform(t)
	handle := submit(t, platform, jobOf(keyed(0, 1), `{"duration": 4, "intermediates": [1, 2, 3], "final": 4, "rules": [{"attempts": [1], "lostAfter": 2.5}]}`))
	clock.pass(9)
	report := poll(t, platform, handle)
	require.Equal(t, platforms.Lost, report.Phase)
	require.Nil(t, report.Exit)
	require.Len(t, collected(t, platform, handle), 2)
	second := submit(t, platform, jobOf(keyed(0, 2), `{"duration": 4, "rules": [{"attempts": [1], "lostAfter": 2.5}]}`))
	clock.pass(4)
	require.Equal(t, platforms.Exited, poll(t, platform, second).Phase)
}

func TestMaxTrialDurationEndsARun(t *testing.T) {
	platform, clock := newPlatform(t)
	job := jobOf(keyed(0, 1), `{"duration": 60, "waiting": 1}`)
	job.MaxDuration = 2 * time.Second
	handle := submit(t, platform, job)
	clock.pass(2.5)
	require.Equal(t, platforms.Running, poll(t, platform, handle).Phase, "waiting does not count")
	clock.pass(1)
	require.Equal(t, trial.CauseMaxDuration, poll(t, platform, handle).Intent.Cause)
}

func TestWrongOptionsNameWhatIsWrong(t *testing.T) {
	for options, fault := range map[string]string{
		`{"durations": 1}`:                        "durations",
		`{"duration": [3, 1]}`:                    "lowest",
		`{"rules": [{"trial": [0]}]}`:             "trial",
		`{"rules": [{"attempts": [0]}]}`:          "attempts count from 1",
		`{"final": {"parameter": "nonexistent"}}`: "nonexistent",
	} {
		platform, _ := newPlatform(t)
		_, err := platform.submit(t, jobOf(keyed(0, 1), options))
		require.Equal(t, platforms.Invalid, platforms.CodeOf(err), options)
		require.ErrorContains(t, err, fault)
	}
}

func TestAChosenDurationIsTheSameForTheSameRunAndWithinItsSpan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lowest := rapid.Float64Range(0, 100).Draw(t, "lowest")
		span := Span{lowest, lowest + rapid.Float64Range(0, 100).Draw(t, "width")}
		key := keyed(rapid.IntRange(0, 9999).Draw(t, "sequence"), 1)
		chosen := span.of(key, "duration")
		if chosen != span.of(key, "duration") || chosen < seconds(span.Lowest) || chosen > seconds(span.Highest) {
			t.Fatalf("%v for %v", chosen, span)
		}
	})
	require.NotEqual(t, Span{0, 9}.of(keyed(0, 1), "duration"), Span{0, 9}.of(keyed(1, 1), "duration"))
}

// TestADefiniteReportNeverChanges moves the clock forward only and asks again.
func TestADefiniteReportNeverChanges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		platform, clock := newPlatform(t)
		options := rapid.SampledFrom([]string{`{"duration": 3, "final": 1}`, `{"duration": 3, "lostAfter": 2}`, `{"waiting": 1, "duration": 1}`}).Draw(rt, "options")
		handle := submit(t, platform, jobOf(keyed(0, 1), options))
		var definite *platforms.Report
		var records []metrics.Record
		for range 12 {
			if rapid.Bool().Draw(rt, "cancel") {
				require.NoError(t, platform.Cancel(t.Context(), handle, trial.Intent{Cause: trial.CauseUser}))
			}
			clock.pass(rapid.Float64Range(0, 1).Draw(rt, "pass"))
			report := poll(t, platform, handle)
			found, _, err := platform.Collect(t.Context(), handle, "")
			require.NoError(t, err)
			require.GreaterOrEqual(t, len(found), len(records))
			if definite != nil {
				require.Equal(t, *definite, report)
				require.Len(t, found, len(records))
			} else if report.Phase.Definite() {
				definite = &report
			}
			records = found
		}
	})
}

func TestAnIntentOlderThanThePlanForbidsTheRun(t *testing.T) {
	now := newClock().now()
	crossed := run{plan: &plan{Submitted: now, Reports: []reported{{}}}, intent: &noted{Time: now.Add(-time.Millisecond)}}
	report := crossed.report(keyed(0, 1), now.Add(time.Hour))
	require.Equal(t, -1, report.Exit.Code)
	require.True(t, report.Started.IsZero())
	require.Empty(t, crossed.records(now.Add(time.Hour)))
}

func TestACredentialThatIsRenewedIsFoundAtTheNextTry(t *testing.T) {
	platform, _ := newPlatform(t)
	_, err := platform.submit(t, jobOf(keyed(0, 1), `{"duration": 1, "token": "${env:TOKEN}"}`))
	require.Equal(t, platforms.Denied, platforms.CodeOf(err))
	submit(t, platform, jobOf(keyed(0, 1), `{"duration": 1, "token": "new"}`))
}
