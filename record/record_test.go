package record

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/trial"
)

const exp = "abcdefgh"

// fixture is a record with one experiment, and the test it belongs to.
type fixture struct {
	*testing.T
	*Store
	commands int
}

func newFixture(t *testing.T) *fixture { return newFixtureWith(t, `{"name":"Random"}`) }

func newFixtureWith(t *testing.T, tuner string) *fixture {
	t.Helper()
	store, err := Open(place(t))
	require.NoError(t, err)
	t.Cleanup(func() { store.Close() })
	f := &fixture{T: t, Store: store}
	f.command(trial.Accept, `{"experimentName":"one","searchSpace":{"x": {}},"trialConcurrency":2,
		"maxTrialNumber":10,"maxExperimentDuration":60,"tuner":`+tuner+`}`)
	return f
}

func (f *fixture) command(name, value string) trial.Event {
	f.Helper()
	event, err := f.try(name, value)
	require.NoError(f, err)
	return event
}

func (f *fixture) try(name, value string) (trial.Event, error) {
	f.commands++
	command := trial.Command{ID: fmt.Sprint("c", f.commands), Name: name}
	if value != "" {
		command.Value = json.RawMessage(value)
	}
	return f.Append(context.Background(), exp, CommandEvent(command))
}

func (f *fixture) ask(sequence int) trial.Event {
	f.Helper()
	events, err := f.Ask(context.Background(), exp, []Ask{algorithmic(sequence)})
	require.NoError(f, err)
	return events[0]
}

func algorithmic(sequence int) Ask {
	return Ask{sequence, trial.Asked{Parameters: json.RawMessage(`{"x": 5.0}`), Source: trial.SourceAlgorithm,
		ParameterID: json.RawMessage(fmt.Sprint(sequence))}}
}

func (f *fixture) begin(n int) trial.Key {
	f.Helper()
	a, err := f.BeginAttempt(context.Background(), exp, n, "local")
	require.NoError(f, err)
	return a.Key
}

func (f *fixture) settle(key trial.Key, s Settlement) {
	f.Helper()
	require.NoError(f, f.Settle(context.Background(), key, s))
}

func (f *fixture) fault(key trial.Key) {
	f.Helper()
	f.settle(key, Settlement{Outcome: OutcomeFault, Reason: trial.Reason{Code: "runner-died", Text: "it died"}})
}

func succeeded(value float64) Settlement {
	return Settlement{Outcome: OutcomeEnded, Ended: &trial.Ended{State: trial.Succeeded, Value: &value}}
}

func (f *fixture) collect(key trial.Key, records ...metrics.Record) {
	f.Helper()
	require.NoError(f, f.Collect(context.Background(), key, records, fmt.Sprint(len(records))))
}

func periodical(number, step int64, value string) metrics.Record {
	return metrics.Record{Number: number, Kind: metrics.Periodical, Step: step, Value: value, Time: time.Unix(number, 0)}
}

func (f *fixture) experiment() Experiment {
	f.Helper()
	e, err := f.Experiment(context.Background(), exp)
	require.NoError(f, err)
	return e
}

func (f *fixture) trial(n int) Trial {
	f.Helper()
	row, err := f.Trial(context.Background(), exp, n)
	require.NoError(f, err)
	return row
}

func (f *fixture) attempt(key trial.Key) Attempt {
	f.Helper()
	a, err := f.Attempt(context.Background(), key)
	require.NoError(f, err)
	return a
}

func (f *fixture) log() []trial.Event {
	f.Helper()
	events, err := f.Events(context.Background(), exp, 0, 0)
	require.NoError(f, err)
	for i, event := range events {
		require.EqualValues(f, i+1, event.Number, "event numbers have no gap")
	}
	return events
}

func (f *fixture) kinds() (kinds []trial.Kind) {
	f.Helper()
	for _, event := range f.log() {
		kinds = append(kinds, event.Kind)
	}
	return kinds
}

func TestAcceptMakesTheExperimentFromItsConfiguration(t *testing.T) {
	f := newFixture(t)
	e := f.experiment()
	require.Equal(t, "one", e.Name)
	require.Equal(t, Running, e.Status)
	require.Equal(t, 2, e.Concurrency)
	require.Equal(t, 10, e.MaxTrials)
	require.Equal(t, time.Minute, e.MaxDuration)
	require.Equal(t, `{"x":{}}`, string(e.SearchSpace))
	require.EqualValues(t, 1, e.LastEvent)
	all, err := f.Experiments(context.Background())
	require.NoError(t, err)
	require.Equal(t, []Experiment{e}, all)
	_, err = f.try(trial.Accept, `{}`)
	require.ErrorContains(t, err, "accepted already")
}

func TestARepeatedCommandIsTheSameCommand(t *testing.T) {
	f := newFixture(t)
	first := f.command(trial.SetConcurrency, "5")
	f.commands--
	again := f.command(trial.SetConcurrency, "7")
	require.Equal(t, first, again)
	require.Equal(t, 5, f.experiment().Concurrency)
	require.Len(t, f.log(), 2)
}

func TestCommandsForAnUnknownExperimentAreNotFound(t *testing.T) {
	f := newFixture(t)
	_, err := f.Append(context.Background(), "unknownx", CommandEvent(trial.Command{ID: "1", Name: trial.Pause}))
	require.ErrorIs(t, err, ErrNotFound)
}

func TestCommandsThatMakeNoSenseAreRejectedAndLeaveNothing(t *testing.T) {
	f := newFixture(t)
	for name, value := range map[string]string{trial.SetConcurrency: "0", trial.SetMaxTrials: `"x"`,
		trial.SetMaxDuration: "-1", trial.SetSearchSpace: "[]", trial.AddTrial: "3", "dance": ""} {
		_, err := f.try(name, value)
		var rejection *RejectedError
		require.ErrorAs(t, err, &rejection, name)
	}
	require.Len(t, f.log(), 1)
}

func TestCommandsSetLimitsAndClearWhatTheyOverrule(t *testing.T) {
	f := newFixture(t)
	require.NoError(t, f.SetExhausted(context.Background(), exp, f.experiment().LastEvent))
	require.True(t, f.experiment().Exhausted)
	f.command(trial.SetMaxTrials, "20")
	f.command(trial.SetMaxDuration, "0")
	f.command(trial.SetSearchSpace, `{"y":{}}`)
	f.command(trial.Pause, "")
	e := f.experiment()
	require.Equal(t, 20, e.MaxTrials)
	require.Zero(t, e.MaxDuration)
	require.Equal(t, `{"y":{}}`, string(e.SearchSpace))
	require.False(t, e.Exhausted)
	require.True(t, e.Paused)
	require.NoError(t, f.SetExhausted(context.Background(), exp, e.LastEvent-2))
	require.False(t, f.experiment().Exhausted, "the tuner had not seen the new search space")
	f.command(trial.Resume, "")
	require.False(t, f.experiment().Paused)
}

func TestADoneExperimentGoesOnWhenALimitIsRaised(t *testing.T) {
	for name, value := range map[string]string{trial.SetMaxTrials: "99", trial.SetMaxDuration: "0",
		trial.SetSearchSpace: "{}", trial.AddTrial: "{}", trial.Resume: ""} {
		f := newFixture(t)
		f.finish(Done)
		f.command(trial.Stop, "")
		require.Equal(t, Done, f.experiment().Status)
		f.command(trial.SetConcurrency, "3")
		require.Equal(t, Done, f.experiment().Status)
		f.command(name, value)
		require.Equal(t, Running, f.experiment().Status, name)
	}
}

func TestNothingBeginsOnceTheTimeIsOverAndWhatWaitsSaysSo(t *testing.T) {
	f := newFixture(t)
	f.ask(0)
	f.ask(1)
	running := f.begin(0)
	f.spend(time.Minute)
	require.Equal(t, TimeOver(), f.trial(1).Reason)
	require.Equal(t, running, f.begin(0), "what has begun goes on")
	_, err := f.BeginAttempt(context.Background(), exp, 1, "local")
	require.ErrorIs(t, err, ErrTimeOver)
	_, err = f.Ask(context.Background(), exp, []Ask{algorithmic(2)})
	require.ErrorIs(t, err, ErrTimeOver)
	_, err = f.try(trial.AddTrial, `{"x":1}`)
	require.ErrorContains(t, err, "starter update max-duration")

	f.command(trial.SetMaxDuration, "61")
	require.True(t, f.trial(1).Reason.Zero())
	f.begin(1)
	f.command(trial.SetMaxDuration, "60")
	require.True(t, f.trial(1).Reason.Zero(), "it has begun")
}

func (f *fixture) spend(d time.Duration) {
	f.Helper()
	_, err := f.AddDriven(context.Background(), exp, d)
	require.NoError(f, err)
}

func TestAStoppedExperimentOnlyStoresLimits(t *testing.T) {
	f := newFixture(t)
	f.command(trial.Stop, "")
	require.Equal(t, Stopping, f.experiment().Status)
	f.finish(Stopped)
	f.command(trial.SetMaxTrials, "99")
	require.Equal(t, Stopped, f.experiment().Status)
	require.Equal(t, 99, f.experiment().MaxTrials)
}

func (f *fixture) finish(status Status) {
	f.Helper()
	finished, err := f.Finish(context.Background(), exp, status, Place{Number: f.experiment().LastEvent})
	require.NoError(f, err)
	require.True(f, finished)
}

func TestFinishChangesNothingWhileNewsAreUnread(t *testing.T) {
	f := newFixture(t)
	cursor := f.experiment().LastEvent
	f.ask(0)
	finished, err := f.Finish(context.Background(), exp, Done, Place{Number: cursor})
	require.NoError(t, err)
	require.False(t, finished)
	require.Equal(t, Running, f.experiment().Status)
	f.finish(Done)
	e := f.experiment()
	require.Equal(t, Done, e.Status)
	require.False(t, e.Ended.IsZero())
	require.Equal(t, e.LastEvent, e.Cursor)
	f.finish(Done)
	require.Equal(t, e, f.experiment(), "said again it changes nothing")
}

func TestEarlyStopMarksTheExperimentUntilItIsDone(t *testing.T) {
	f := newFixture(t)
	f.command(trial.EarlyStopCommand, "")
	require.True(t, f.experiment().Ending)
	f.finish(Done)
	require.False(t, f.experiment().Ending)
}

func TestAddTrialAsksForACustomisedTrial(t *testing.T) {
	f := newFixture(t)
	f.ask(0)
	f.command(trial.AddTrial, `{"x":1.50}`)
	n := f.trial(1)
	require.Equal(t, trial.SourceCustomized, n.Source)
	require.Equal(t, "null", string(n.ParameterID))
	require.Equal(t, `{"x":1.50}`, string(n.Parameters))
	require.Equal(t, 2, f.experiment().Asked)
	require.Equal(t, []trial.Kind{trial.KindCommand, trial.KindAsked, trial.KindCommand, trial.KindAsked}, f.kinds())
}

func TestTheFirstAskOfATrialWins(t *testing.T) {
	f := newFixture(t)
	first := f.ask(0)
	other := algorithmic(0)
	other.Asked.Parameters = json.RawMessage(`{"x": 6}`)
	events, err := f.Ask(context.Background(), exp, []Ask{other, algorithmic(1)})
	require.NoError(t, err)
	require.Equal(t, first, events[0])
	require.Equal(t, 1, events[1].Sequence)
	require.Equal(t, `{"x": 5.0}`, string(f.trial(0).Parameters), "byte for byte")
	require.Equal(t, events, f.log()[1:])
	_, err = f.Ask(context.Background(), exp, []Ask{algorithmic(2), algorithmic(9)})
	require.ErrorContains(t, err, "the next is 3")
	require.Equal(t, 2, f.experiment().Asked, "all or nothing")
	f.command(trial.Stop, "")
	_, err = f.Ask(context.Background(), exp, []Ask{algorithmic(2)})
	require.ErrorIs(t, err, ErrStopping)
}

func TestNewsAreLightAndLeaveOutWhatDoesNotConcernTheExperiment(t *testing.T) {
	f := newFixture(t)
	f.command(trial.AddTrial, `{"x":1}`)
	key := f.begin(0)
	f.collect(key, periodical(1, 0, "1"))
	_, err := f.Decide(context.Background(), Decision{Key: key, Decision: trial.Decision{ID: "d"}})
	require.NoError(t, err)
	_, err = f.Append(context.Background(), exp, trial.Event{Kind: trial.KindUndriven, Sequence: 0})
	require.NoError(t, err)
	f.settle(key, succeeded(1))
	news, err := f.News(context.Background(), exp, 1, 100)
	require.NoError(t, err)
	var kinds []trial.Kind
	for _, event := range news {
		kinds = append(kinds, event.Kind)
	}
	require.Equal(t, []trial.Kind{trial.KindCommand, trial.KindAsked, trial.KindUndriven, trial.KindEnded}, kinds)
	require.JSONEq(t, `{"id":"c2","name":"add-trial"}`, string(news[0].Data))
	require.Nil(t, news[1].Data)
	require.Equal(t, []trial.Kind{trial.KindCommand, trial.KindCommand, trial.KindAsked, trial.KindIntermediate,
		trial.KindDecision, trial.KindUndriven, trial.KindEnded}, f.kinds())
	few, err := f.Events(context.Background(), exp, 2, 2)
	require.NoError(t, err)
	require.Equal(t, f.log()[2:4], few)
}

// deafen keeps whoever watches from being woken by a look at what others did.
func (f *fixture) deafen() {
	if f.wire != nil {
		f.wire.close()
	}
}

func TestWatchersAreWokenByWhatTheyWatch(t *testing.T) {
	f := newFixture(t)
	f.deafen()
	news, stopNews := f.Watch(exp)
	log, stopLog := f.WatchLog(exp)
	other, _ := f.WatchLog("otherexp")
	f.ask(0)
	require.Len(t, log, 1)
	require.Empty(t, news)
	<-log
	f.command(trial.Pause, "")
	require.Len(t, log, 1)
	require.Len(t, news, 1)
	<-log
	<-news
	_, err := f.try(trial.SetConcurrency, "-1")
	require.Error(t, err)
	require.Empty(t, log, "nothing was committed")
	stopNews()
	stopLog()
	f.command(trial.Pause, "")
	require.Empty(t, news)
	require.Empty(t, other)
	require.Len(t, f.watchers.byExperiment, 1)
}

func TestTheClockAndTheCursorOnlyGoForward(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	sum, err := f.AddDriven(ctx, exp, time.Second)
	require.NoError(t, err)
	require.Equal(t, time.Second, sum)
	sum, err = f.AddDriven(ctx, exp, time.Second)
	require.NoError(t, err)
	require.Equal(t, 2*time.Second, sum)
	require.NoError(t, f.SetCursor(ctx, exp, Place{Number: 1}))
	require.NoError(t, f.SetCursor(ctx, exp, Place{}))
	require.NoError(t, f.SetReason(ctx, exp, trial.Reason{Code: "why", Text: "because"}))
	e := f.experiment()
	require.EqualValues(t, 1, e.Cursor)
	require.Equal(t, 2*time.Second, e.Driven)
	require.Equal(t, trial.Reason{Code: "why", Text: "because"}, e.Reason)
	require.ErrorIs(t, f.SetCursor(ctx, "unknownx", Place{Number: 1}), ErrNotFound)
}

func TestWorkspacesAreKeptByTheirPlatformsPlace(t *testing.T) {
	f := newFixture(t)
	require.NoError(t, f.SetWorkspace(context.Background(), exp, 1, json.RawMessage(`{"directory":"/b"}`)))
	require.Equal(t, []json.RawMessage{nil, json.RawMessage(`{"directory":"/b"}`)}, f.experiment().Workspaces)
}

func TestThePlatformsOfAllExperimentsAreNamedOnce(t *testing.T) {
	f := newFixture(t) // its experiment names none
	for id, sections := range map[string]string{"several2": `[{"platform":"remote"},{"platform":"local"}]`, "another2": `[{"platform":"local"}]`} {
		command := trial.Command{ID: id, Name: trial.Accept, Value: json.RawMessage(`{"searchSpace":{"x": {}},"trainingService":` + sections + `}`)}
		_, err := f.Append(background, id, CommandEvent(command))
		require.NoError(t, err)
	}
	names, err := f.Platforms(background)
	require.NoError(t, err)
	require.Equal(t, []string{"local", "remote"}, names)
}
