package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/assessors"
	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
)

func (f *fixture) round(cursor int64, room int) activities.RoundAnswer {
	f.Helper()
	answer, err := call[activities.RoundAnswer](f, f.Round, activities.RoundRequest{Experiment: id, Cursor: cursor, Room: room})
	require.NoError(f, err)
	return answer
}

// rounding is a round under way.
func (f *fixture) rounding(cursor int64, room int) <-chan activities.RoundAnswer {
	answer := make(chan activities.RoundAnswer, 1)
	go func() {
		got, err := call[activities.RoundAnswer](f, f.Round, activities.RoundRequest{Experiment: id, Cursor: cursor, Room: room})
		if err != nil {
			f.Errorf("round: %v", err)
		}
		answer <- got
	}()
	return answer
}

func kinds(answer activities.RoundAnswer) (kinds []trial.Kind) {
	for _, news := range answer.News {
		kinds = append(kinds, news.Kind)
	}
	return kinds
}

func TestARoundAsksForExactlyTheRoomThereIs(t *testing.T) {
	f := newFixture(t)
	answer := f.round(1, 3)
	require.Equal(t, []trial.Kind{trial.KindAsked, trial.KindAsked, trial.KindAsked}, kinds(answer))
	require.Equal(t, 3, f.row().Asked)
	require.Equal(t, f.row().LastEvent, answer.Cursor)
	require.Equal(t, answer, f.round(1, 3), "a retried round brings the same again")
	require.Equal(t, 3, f.row().Asked)
}

func TestAnEndAndWhatTakesItsSlotAreOneAnswer(t *testing.T) {
	f := newFixture(t)
	cursor := f.round(1, 2).Cursor
	answer := f.rounding(cursor, 0)
	f.end(0)
	require.Equal(t, []trial.Kind{trial.KindEnded, trial.KindAsked}, kinds(<-answer))
}

func TestEndsThatMakeRoomForNothingAreToldTogether(t *testing.T) {
	f := newFixtureWith(t, func(e *experiment.Experiment) { e.MaxTrials = 2 })
	cursor := f.round(1, 2).Cursor
	told := make(chan activities.RoundAnswer, 1)
	go func() {
		answer, err := call[activities.RoundAnswer](f, f.Round, activities.RoundRequest{Experiment: id, Cursor: cursor, NoMore: true, Left: 2})
		if err != nil {
			f.Errorf("round: %v", err)
		}
		told <- answer
	}()
	f.end(0)
	select {
	case answer := <-told:
		require.Fail(t, "a round came back for an end that makes room for nothing", "%+v", answer.News)
	case <-time.After(100 * time.Millisecond): // what does not happen has no end to wait for
	}
	f.end(1)
	require.Contains(t, kinds(<-told), trial.KindEnded)

	cursor = f.row().LastEvent - 1
	f.command(trial.SetConcurrency, "5")
	answer, err := call[activities.RoundAnswer](f, f.Round, activities.RoundRequest{Experiment: id, Cursor: cursor, NoMore: true, Left: 9})
	require.NoError(t, err)
	require.Len(t, answer.News, 2, "a command is told at once")
}

func TestARoundStartsTrialsAndInAHurryWaitsForNothing(t *testing.T) {
	f := newFixture(t)
	cursor := f.round(1, 2).Cursor
	request := activities.RoundRequest{Experiment: id, Cursor: cursor, Start: []int{1, 0}, Hurry: true}
	answer, err := call[activities.RoundAnswer](f, f.Round, request)
	require.NoError(t, err)
	require.Empty(t, answer.News)
	require.ElementsMatch(t, []activities.Start{
		{Experiment: id, Sequence: 0, Platform: "scripted", Queue: "scripted"}, {Experiment: id, Sequence: 1, Platform: "scripted", Queue: "scripted"},
	}, f.started)
}

func TestTrialsThatTemporalIsSlowToStartAreHandedBackWithTheNews(t *testing.T) {
	activities.SetStartPatience(t, 50*time.Millisecond)
	f := newFixture(t)
	cursor := f.round(1, 3).Cursor
	f.Workflows = slow{f, 1}
	f.end(2)
	answer, err := call[activities.RoundAnswer](f, f.Round, activities.RoundRequest{Experiment: id, Cursor: cursor, Start: []int{0, 1}})
	require.NoError(t, err)
	require.Contains(t, kinds(answer), trial.KindEnded)
	require.Equal(t, []int{1}, answer.Unstarted)
	f.Workflows = f
	answer, err = call[activities.RoundAnswer](f, f.Round, activities.RoundRequest{Experiment: id, Cursor: cursor, Start: answer.Unstarted})
	require.NoError(t, err)
	require.Empty(t, answer.Unstarted)
}

// slow are TrialWorkflows that never come to start one of the trials.
type slow struct {
	activities.TrialWorkflows
	trial int
}

func (s slow) Start(ctx context.Context, start activities.Start) error {
	if start.Sequence == s.trial {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.TrialWorkflows.Start(ctx, start)
}

func TestAStartThatFailsIsTriedAgainWhileTheRoundWaits(t *testing.T) {
	f := newFixture(t)
	cursor := f.round(1, 1).Cursor
	f.Workflows = &reluctant{TrialWorkflows: f}
	answered := make(chan activities.RoundAnswer, 1)
	go func() {
		answer, err := call[activities.RoundAnswer](f, f.Round, activities.RoundRequest{Experiment: id, Cursor: cursor, Start: []int{0}})
		if err != nil {
			f.Errorf("round: %v", err)
		}
		answered <- answer
	}()
	require.Eventually(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.started) == 1
	}, patience, time.Millisecond)
	f.end(0)
	require.Empty(t, (<-answered).Unstarted)
}

// reluctant are TrialWorkflows of which the first start fails.
type reluctant struct {
	activities.TrialWorkflows
	asked atomic.Bool
}

func (r *reluctant) Start(ctx context.Context, start activities.Start) error {
	if !r.asked.Swap(true) {
		return errors.New("unavailable")
	}
	return r.TrialWorkflows.Start(ctx, start)
}

func TestIntermediatesWakeNoRound(t *testing.T) {
	f := newFixture(t)
	cursor := f.round(1, 1).Cursor
	answer := f.rounding(cursor, 0)
	key := f.begin(0)
	f.report(key, metrics.Periodical, "1", "2", "3")
	select {
	case <-answer:
		require.Fail(t, "a round came back for an intermediate result")
	case <-time.After(100 * time.Millisecond): // what does not happen has no end to wait for
	}
	f.command(trial.SetConcurrency, "7")
	got := <-answer
	require.Equal(t, []activities.News{{Number: got.Cursor, Kind: trial.KindCommand, Sequence: trial.NoTrial, Command: trial.SetConcurrency, Count: 7}}, got.News)
}

func TestAnAnswerIsBoundedAndTheNextBringsTheRest(t *testing.T) {
	f := newFixture(t)
	for range 620 {
		f.command(trial.AddTrial, `{"x": 1}`)
	}
	first := f.round(1, -1)
	require.Len(t, first.News, 500)
	second := f.round(first.Cursor, -1)
	require.Len(t, second.News, 500)
	third := f.round(second.Cursor, -1)
	require.Len(t, third.News, 240)
	require.Equal(t, f.row().LastEvent, third.Cursor)
	text, err := json.Marshal(first)
	require.NoError(t, err)
	require.Less(t, len(text), 60_000)
}

func TestARoundAsksForNoMoreThanItsAnswerBrings(t *testing.T) {
	f := newFixtureWith(t, func(e *experiment.Experiment) { e.MaxTrials = 1000 })
	answer := f.round(1, 1<<40)
	require.Len(t, answer.News, 500)
	require.Equal(t, 500, f.row().Asked)
	require.False(t, answer.NoMore)
}

func TestARoundSaysWhenThereWillBeNoMore(t *testing.T) {
	for name, change := range map[string]func(*fixture){
		"enough trials":           func(f *fixture) { f.command(trial.SetMaxTrials, "2") },
		"enough time":             func(f *fixture) { f.spend(time.Minute) },
		"an early stop":           func(f *fixture) { f.command(trial.EarlyStopCommand, "") },
		"a tuner that is through": func(f *fixture) { f.tuner = &patientTuner{answer: tuners.Exhausted} },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixtureWith(t, func(e *experiment.Experiment) { e.MaxDuration = 60 })
			f.ask(2)
			change(f)
			answer := f.round(f.row().LastEvent, 2)
			require.True(t, answer.NoMore)
			require.Empty(t, answer.News)
			require.Equal(t, 2, f.row().Asked)
		})
	}
}

func TestARoundReturnsWhenTheTimeIsOverAndAsksForNothingThatComesLater(t *testing.T) {
	f := newFixtureWith(t, func(e *experiment.Experiment) { e.MaxDuration = 60 })
	f.ask(2)
	f.spend(time.Minute - 50*time.Millisecond)
	answer := f.rounding(f.row().LastEvent, 0)
	got := <-answer
	require.True(t, got.Late)
	require.True(t, got.NoMore)
	require.True(t, f.row().TimeOver(), "it is on record before anybody acts on it")

	f = newFixtureWith(t, func(e *experiment.Experiment) { e.MaxDuration = 60 })
	f.spend(time.Minute - 50*time.Millisecond)
	f.tuner = &patientTuner{meanwhile: func() { time.Sleep(100 * time.Millisecond) }} // it is time that passes
	require.True(t, f.round(f.row().LastEvent, 1).Late)
	require.Zero(t, f.row().Asked, "the tuner's answer came too late")
}

func (f *fixture) spend(d time.Duration) {
	_, err := f.AddDriven(ctx, id, d)
	require.NoError(f, err)
}

func TestTheClockRunsWhileAnExperimentIsDrivenAndNotWhilePaused(t *testing.T) {
	f := newFixture(t)
	last := f.row().LastEvent
	answer := f.rounding(last, 0)
	require.Eventually(t, func() bool { return f.row().Cursor == last }, patience, time.Millisecond, "it has begun")
	time.Sleep(60 * time.Millisecond) // it is time that is measured
	f.command(trial.SetConcurrency, "5")
	<-answer
	driven := f.row().Driven
	require.GreaterOrEqual(t, driven, 10*time.Millisecond)
	require.Less(t, driven, 10*time.Second)

	f.command(trial.Pause, "")
	f.round(1, 0)
	require.Equal(t, driven, f.row().Driven)
}

func TestATunersErrorIsTheReasonForWaitingUntilItAnswersAgain(t *testing.T) {
	f := newFixture(t)
	f.tuner = &patientTuner{}
	f.tuner.set(tuners.Try, "out of ideas")
	answer := f.rounding(1, 1)
	require.Eventually(t, func() bool { return f.row().Reason == trial.Reason{Code: "tuner", Text: "out of ideas"} }, patience, time.Millisecond)

	f.tuner.set(tuners.Try, "")
	require.Equal(t, []trial.Kind{trial.KindAsked}, kinds(<-answer))
	require.True(t, f.row().Reason.Zero())
	require.Contains(t, f.tuner.heard, trial.KindCommand, "it was fed from the log's beginning again")
}

func TestATunerThatPanicsIsRebuiltAndTakesNobodyAlong(t *testing.T) {
	f := newFixture(t)
	f.tuner = &patientTuner{}
	f.tuner.meanwhile = func() {
		f.tuner.meanwhile = nil
		panic("index out of range")
	}
	require.Equal(t, []trial.Kind{trial.KindAsked}, kinds(f.round(1, 1)))
	require.Len(t, f.tuner.heard, 2, "it was built twice, and fed from the log each time")
	require.True(t, f.row().Reason.Zero())
}

func TestAnAssessorThatPanicsTakesNobodyAlong(t *testing.T) {
	f := assessed(t)
	f.Assessors = func(assessors.Spec) (assessors.Assessor, error) { return panicking{}, nil }
	f.assess()
	f.awaitReason("assessor-failed", "the algorithm panicked: no such curve; 3 times in a row")
}

type panicking struct{}

func (panicking) Apply(trial.Event) (assessors.Verdict, error) { panic("no such curve") }

func TestASearchSpaceIsSetForATunerThatLeavesCheckpointsInTheExperimentsDirectory(t *testing.T) {
	f := newFixtureWith(t, func(e *experiment.Experiment) {
		e.Tuner, e.Platforms[0].Name = experiment.Algorithm{Name: "PBT"}, "local"
	})
	f.command(trial.SetSearchSpace, `{"y": {"_type": "uniform", "_value": [0, 1]}}`)
	command := trial.Command{ID: "bad", Name: trial.SetSearchSpace, Value: json.RawMessage(`{"load_checkpoint_dir": {"_type": "uniform", "_value": [0, 1]}}`)}
	_, err := f.Command(ctx, id, command)
	require.ErrorContains(t, err, "load_checkpoint_dir")
}

func TestWhoAskedFirstUnderANumberWins(t *testing.T) {
	f := newFixture(t)
	f.tuner = &patientTuner{meanwhile: func() { f.command(trial.AddTrial, `{"x":9}`) }}
	require.Equal(t, []trial.Kind{trial.KindCommand, trial.KindAsked}, kinds(f.round(1, 1)))
	rows, err := f.Trials(ctx, id)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	require.Equal(t, `{"x":9}`, string(rows[0].Parameters))

	f.round(f.row().LastEvent, 1)
	require.Equal(t, []trial.Kind{trial.KindCommand, trial.KindCommand, trial.KindAsked}, f.tuner.heard, "the winner's row")
}

func TestNothingIsAskedOnceAStopOrAnEarlyStopIsOnRecord(t *testing.T) {
	for _, command := range []string{trial.Stop, trial.EarlyStopCommand} {
		f := newFixture(t)
		f.command(command, "")
		_, err := f.Ask(ctx, id, []record.Ask{{Asked: trial.Asked{Parameters: json.RawMessage(`{}`)}}})
		require.ErrorIs(t, err, record.ErrStopping)
	}
}

func TestALookAtALongLogReadsNoMoreThanItAnswersWith(t *testing.T) {
	f := newFixtureWith(t, func(e *experiment.Experiment) { e.MaxTrials = 0 })
	const unread = 3 * 500 // news; 500 fit into an answer
	for n := range unread {
		f.command(trial.AddTrial, fmt.Sprintf(`{"x": %d}`, n))
	}
	before := f.Reads()
	answer := f.round(1, 4)
	require.Len(t, answer.News, 500)
	require.Less(t, f.Reads().Rows-before.Rows, int64(500+10))
	require.Equal(t, unread, f.row().Asked, "what was asked already may take the slots")
}

func TestALookThatAsksForNothingReadsTheNewsOnce(t *testing.T) {
	f := newFixture(t)
	cursor := f.round(1, 1).Cursor
	f.command(trial.Pause, "")
	before := f.Reads()
	require.Len(t, f.round(cursor, 0).News, 1)
	// The row before the news and for the clock after them, the news, and a search for
	// trials that wait.
	require.LessOrEqual(t, f.Reads().Queries-before.Queries, int64(4))
}

func TestWhetherAStoppingExperimentShallGoOnIsReadFromTheEndOfItsLog(t *testing.T) {
	f := newFixture(t)
	f.round(1, 4)
	for range 300 {
		f.command(trial.Pause, "")
	}
	f.command(trial.Stop, "")
	cost := func() int64 {
		before := f.Reads()
		_, err := call[activities.OpenAnswer](f, f.Open, id)
		require.NoError(t, err)
		return f.Reads().Rows - before.Rows
	}
	require.Less(t, cost(), int64(20))

	opened, err := call[activities.OpenAnswer](f, f.Open, id)
	require.NoError(t, err)
	require.False(t, opened.Resumed)
	f.command(trial.Resume, "")
	opened, err = call[activities.OpenAnswer](f, f.Open, id)
	require.NoError(t, err)
	require.True(t, opened.Resumed)
}
