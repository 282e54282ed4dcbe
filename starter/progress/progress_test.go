package progress

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/perennial-ml/perennial/dashboard/views"

	"charm.land/lipgloss/v2"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/stretchr/testify/require"
)

var (
	noon  = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	start = Start{ID: "k3v9x2ab", Name: "demo", WebUI: "http://127.0.0.1:1/x"}
)

func aSnapshot() Snapshot {
	open := []record.Trial{
		{Sequence: 2, ID: "abcde", State: trial.Running, Started: noon.Add(-time.Minute), Attempts: 2,
			Reason: trial.Reason{Code: "runner-died", Text: "its runner died"}},
		{Sequence: 3, ID: "fghij", State: trial.Waiting, Asked: noon.Add(-2 * time.Second), Reason: trial.Reason{Code: "no-gpu", Text: "all 4 GPUs are busy"}},
	}
	reported := map[int]record.Metric{2: {Value: `{"default": 0.5123, "loss": 1}`, Step: 7}}
	return Snapshot{Now: noon, Open: open, Changed: open[:1], Reported: reported, Experiment: record.Experiment{
		ID: "k3v9x2ab", Status: record.Running, MaxTrials: 10, Asked: 4, Driven: 10 * time.Minute,
		Counts: map[trial.State]int{trial.Succeeded: 1, trial.Failed: 1, trial.Running: 1, trial.Waiting: 1},
		Best:   &record.Best{Sequence: 0, TrialID: "zzzzz", Value: 0.974}}}
}

func TestATerminalShowsHowMuchIsDoneWhatRunsAndWhyOthersWait(t *testing.T) {
	var out bytes.Buffer
	display := NewTerminal(&out, func() int { return 100 })
	display.Show(aSnapshot())
	require.Equal(t, strings.Join([]string{
		"  RUNNING ██████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░ 2 of 10",
		"  1 WAITING, 1 RUNNING, 1 SUCCEEDED, 1 FAILED",
		"  best 0.974 by trial 0 (zzzzz); about 40m 0s left",
		"",
		"  TRIAL  ID     STATE    METRIC           FOR    ATTEMPT  WHY",
		"  2      abcde  RUNNING  0.5123 (step 7)  1m 0s  2        its runner died",
		"  3      fghij  WAITING  -                2s     0        all 4 GPUs are busy",
		"",
	}, "\n"), out.String())
}

func TestATerminalDrawsOverItsLastFrameAndNeverWiderThanItIs(t *testing.T) {
	var out bytes.Buffer
	display := NewTerminal(&out, func() int { return 40 }).Coloured()
	display.Show(aSnapshot())
	drawn := strings.Count(out.String(), "\n")
	for line := range strings.Lines(out.String()) {
		require.LessOrEqual(t, lipgloss.Width(strings.TrimSuffix(line, "\n")), 40)
	}
	out.Reset()
	display.Show(aSnapshot())
	require.True(t, strings.HasPrefix(out.String(), "\x1b["+string(rune('0'+drawn))+"A\r\x1b[J"))
	out.Reset()
	display.Say("host-died", "the host is gone")
	require.Contains(t, out.String(), "\x1b[Jthe host is gone\n", "a notice stands above the frame")
}

func TestManyOpenTrialsAreCountedAndNotListed(t *testing.T) {
	var out bytes.Buffer
	now := aSnapshot()
	for n := range 20 {
		now.Open = append(now.Open, record.Trial{Sequence: 10 + n, State: trial.Running, Started: noon})
	}
	display := NewTerminal(&out, func() int { return 100 })
	display.Begin(start)
	display.Show(now)
	require.Contains(t, out.String(), "and 14 more: starter trials k3v9x2ab\n")
}

func TestPlainLinesComeAtStateChangesAndASummaryWhereItSaysSomethingNew(t *testing.T) {
	var out bytes.Buffer
	display := NewLines(&out)
	said := func(after time.Duration, change func(*Snapshot)) string {
		out.Reset()
		now := aSnapshot()
		now.Changed, now.Now = nil, noon.Add(after)
		now.Experiment.Driven += after
		change(&now)
		display.Show(now)
		return out.String()
	}
	same := func(*Snapshot) {}
	require.Equal(t, 1, strings.Count(said(0, same), "\n"))
	require.Empty(t, said(9*time.Second, same))
	require.Equal(t, "trial 2 (abcde) RUNNING, attempt 2: its runner died\n",
		said(9*time.Second, func(now *Snapshot) { now.Changed = aSnapshot().Changed }))
	require.Empty(t, said(time.Hour, same), "no more than the time that is left has changed")
	require.Contains(t, said(time.Hour, func(now *Snapshot) { now.Experiment.Counts[trial.Succeeded] = 2 }), "2 SUCCEEDED")
}

func TestPlainLinesSayOnceWhyTrialsWaitWhereNothingRuns(t *testing.T) {
	var out bytes.Buffer
	display := NewLines(&out)
	waiting := func(seconds int, reason string) {
		display.Show(Snapshot{Now: noon.Add(time.Duration(seconds) * time.Second),
			Experiment: record.Experiment{MaxTrials: 2, Status: record.Running, Counts: map[trial.State]int{trial.Waiting: 1}},
			Open:       []record.Trial{{Sequence: 0, State: trial.Waiting, Reason: trial.Reason{Code: "gpus", Text: reason}}}})
	}
	for second := range 60 {
		waiting(second, "all 4 GPUs are busy")
	}
	waiting(60, "2 of 4 GPUs are busy")
	require.Equal(t, "0 of 2 done; 1 WAITING; trial 0 waits: all 4 GPUs are busy\n"+
		"0 of 2 done; 1 WAITING; trial 0 waits: 2 of 4 GPUs are busy\n", out.String())
}

func TestEventsAreOneObjectALineWithTheirKindAndTheExperiment(t *testing.T) {
	var out bytes.Buffer
	display := NewEvents(&out)
	display.Begin(start)
	display.Show(aSnapshot())
	display.Failure(aSnapshot().Open[0], "boom\n")
	display.Say("host-died", "the host is gone")
	display.Detach(start.ID)
	var kinds []string
	for line := range strings.Lines(out.String()) {
		var event struct{ Event, ID string }
		require.NoError(t, json.Unmarshal([]byte(line), &event))
		require.Equal(t, "k3v9x2ab", event.ID)
		kinds = append(kinds, event.Event)
	}
	require.Equal(t, []string{"started", "trial", "progress", "first-failure", "notice", "detached"}, kinds)
}

func TestTheTimeLeftIsByPaceOrByTheLimitWhicheverEndsFirst(t *testing.T) {
	e := aSnapshot().Experiment
	left, known := views.Remaining(e)
	require.True(t, known)
	require.Equal(t, 40*time.Minute, left)
	e.MaxDuration = 15 * time.Minute
	left, _ = views.Remaining(e)
	require.Equal(t, 5*time.Minute, left)
	_, known = views.Remaining(record.Experiment{})
	require.False(t, known)
}

func TestSpansHaveTwoUnits(t *testing.T) {
	for want, d := range map[string]time.Duration{"0s": -time.Second, "59s": 59 * time.Second, "1m 1s": 61 * time.Second,
		"2h 3m": 123 * time.Minute, "3d 1h": 73 * time.Hour} {
		require.Equal(t, want, Span(d))
	}
}

func TestASparkLineShowsTheCourseOfAnyNumberOfValues(t *testing.T) {
	require.Equal(t, "▁▅█", Spark([]float64{0, 0.5, 1}, 10))
	require.Equal(t, "▅▅", Spark([]float64{3, 3}, 10))
	require.Empty(t, Spark(nil, 10))
	require.Equal(t, "▁█", Spark([]float64{-math.MaxFloat64, math.MaxFloat64}, 10))
	var many []float64
	for n := range 1000 {
		many = append(many, float64(n))
	}
	require.Equal(t, "▁▂▃▄▅▆▇█", Spark(many, 8))
}

func TestAColumnHasSixDigitsOfANumberThatHasMore(t *testing.T) {
	for want, value := range map[string]float64{"0.974074": 0.9740740740740741, "12345678": 12345678, "1.23457e+09": 1234567890, "0.5": 0.5} {
		require.Equal(t, want, Short(&value))
	}
}
