package workflows_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/platforms/fake"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/workflows"
)

const (
	quick = `{"duration": 0.05, "final": {"parameter": "x"}}`
	slow  = `{"duration": 60, "final": 1}`
)

func TestAnExperimentRunsItsTrialsAndIsDone(t *testing.T) {
	b := newBench(t, settings{concurrency: 2, trials: 5, behaviour: quick})
	row := b.drive()
	require.Equal(t, record.Done, row.Status)
	require.Equal(t, same(trial.Succeeded, 5), b.states())
	require.NotNil(t, row.Best)
	require.Equal(t, 5, b.logged(trial.KindEnded))
	b.neverMoreThan(2)
}

// neverMoreThan says that no more attempts ran at any time.
func (b *bench) neverMoreThan(limit int) {
	b.Helper()
	rows := b.trials()
	for _, row := range rows {
		running := 0
		for _, other := range rows {
			if !other.Started.After(row.Started) && other.Ended.After(row.Started) {
				running++
			}
		}
		require.LessOrEqual(b, running, limit, "when trial %d began", row.Sequence)
	}
}

func TestAStoppedExperimentGoesOnWithTheSameTrials(t *testing.T) {
	b := newBench(t, settings{concurrency: 2, trials: 3, behaviour: `{"duration": 0.1, "final": 1, "rules": [{"attempts": [1], "duration": 60}]}`})
	b.meanwhile(func() {
		b.await(trial.Running, 2)
		b.signal(workflows.SignalCancel)
	})
	require.Equal(t, record.Stopped, b.drive().Status)
	before := b.trials()
	require.Equal(t, same(trial.UserCanceled, 2), b.states())
	for _, row := range before {
		require.Equal(t, record.ReasonStopped, row.Reason.Code)
	}

	b.command(trial.Resume, "")
	b.meanwhile(func() { // the third one is new, and so its first attempt is a long one
		b.await(trial.Running, 1)
		b.until(func() bool { return len(b.trials()) == 3 && b.trials()[2].State == trial.Running })
		b.command(trial.EarlyStopCommand, "")
	})
	require.Equal(t, record.Done, b.drive().Status)
	require.Equal(t, []trial.State{trial.Succeeded, trial.Succeeded, trial.EarlyStopped}, b.states())
	for i, row := range b.trials()[:2] {
		require.Equal(t, before[i].Parameters, row.Parameters)
		require.Equal(t, 2, row.Attempts)
	}
}

func TestAResumeOvertakesAStopThatIsUnderWay(t *testing.T) {
	b := newBench(t, settings{concurrency: 2, trials: 2, behaviour: `{"duration": 0.1, "final": 1, "rules": [{"attempts": [1], "duration": 60}]}`})
	b.meanwhile(func() {
		b.await(trial.Running, 2)
		b.command(trial.Stop, "")
		b.command(trial.Resume, "")
	})
	require.Equal(t, record.Done, b.drive().Status)
	require.Equal(t, same(trial.Succeeded, 2), b.states())
	require.Equal(t, 2, b.logged(trial.KindInterrupted))
}

func TestAResumeThatAnEarlierWorkflowReadIsNotForgotten(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, trials: 1, behaviour: quick})
	b.command(trial.Stop, "")
	b.command(trial.Resume, "")
	require.NoError(t, b.SetCursor(ctx, id, record.Place{Number: b.experiment().LastEvent}))
	require.Equal(t, record.Done, b.drive().Status)
	require.Equal(t, same(trial.Succeeded, 1), b.states())
}

func TestEarlyStopEndsWhatRunsAndWhatWaits(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, trials: 9, behaviour: slow})
	b.meanwhile(func() {
		b.await(trial.Running, 1)
		b.command(trial.AddTrial, `{"x": 0.5}`)
		b.command(trial.AddTrial, `{"x": 0.6}`)
		b.signal(workflows.SignalEarlyStop)
	})
	require.Equal(t, record.Done, b.drive().Status)
	require.Equal(t, same(trial.EarlyStopped, 3), b.states())
	for _, row := range b.trials()[1:] {
		require.Zero(t, row.Attempts, "trial %d was told before it could start", row.Sequence)
	}
}

func TestNothingStartsWhilePaused(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, trials: 3, behaviour: quick})
	b.meanwhile(func() {
		b.await(trial.Succeeded, 1)
		b.command(trial.Pause, "")
		b.until(func() bool { return b.experiment().Cursor == b.experiment().LastEvent && b.nothingRuns() })
		asked := b.experiment().Asked
		require.Less(t, asked, 4)
		b.command(trial.Resume, "")
	})
	require.Equal(t, record.Done, b.drive().Status)
	require.Equal(t, same(trial.Succeeded, 3), b.states())
}

// nothingRuns tells whether no attempt is on a platform.
func (b *bench) nothingRuns() bool {
	open, err := b.OpenAttempts(ctx, fake.Name)
	return err == nil && !slices.ContainsFunc(open, func(a record.Attempt) bool { return a.Handle != nil })
}

func TestACustomisedTrialAddedWhilePausedWaitsForTheResume(t *testing.T) {
	b := newBench(t, settings{concurrency: 2, trials: 2, behaviour: quick})
	b.command(trial.Pause, "")
	b.command(trial.AddTrial, `{"x": 5.0}`)
	b.meanwhile(func() {
		b.until(func() bool { return b.experiment().Cursor >= 2 })
		require.Zero(t, b.trials()[0].Attempts)
		b.command(trial.Resume, "")
	})
	require.Equal(t, record.Done, b.drive().Status)
	require.Equal(t, `{"x":5.0}`, string(b.trials()[0].Parameters))
}

func TestARaisedLimitGoesOnFromDone(t *testing.T) {
	b := newBench(t, settings{concurrency: 2, trials: 2, behaviour: quick})
	require.Equal(t, record.Done, b.drive().Status)
	b.command(trial.SetMaxTrials, "5")
	require.Equal(t, record.Done, b.drive().Status)
	require.Equal(t, same(trial.Succeeded, 5), b.states())
}

func TestALimitBelowWhatWasAskedEndsNothing(t *testing.T) {
	b := newBench(t, settings{concurrency: 2, trials: 50, behaviour: `{"duration": 2}`})
	b.meanwhile(func() {
		b.await(trial.Running, 2)
		b.command(trial.SetMaxTrials, "1")
	})
	require.Equal(t, record.Done, b.drive().Status)
	require.Equal(t, same(trial.Succeeded, 2), b.states())
}

func TestConcurrencyIsRaisedAtOnceAndLoweredWithoutKilling(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, trials: 5, behaviour: slow})
	b.meanwhile(func() {
		b.await(trial.Running, 1)
		b.command(trial.SetConcurrency, "4")
		b.await(trial.Running, 4)
		b.command(trial.SetConcurrency, "1")
		b.until(func() bool { return b.experiment().Cursor >= b.experiment().LastEvent })
		require.Equal(t, 4, b.experiment().Counts[trial.Running])
		b.command(trial.EarlyStopCommand, "")
	})
	require.Equal(t, record.Done, b.drive().Status)
	require.Equal(t, same(trial.EarlyStopped, 4), b.states())
}

func TestASearchSpaceGivesAnExhaustedTunerMoreToDo(t *testing.T) {
	grid := func(values string) string { return fmt.Sprintf(`{"x": {"_type": "choice", "_value": [%s]}}`, values) }
	b := newBench(t, settings{concurrency: 4, tuner: experiment.Algorithm{Name: "GridSearch"}, space: grid("1, 2"), behaviour: quick})
	row := b.drive()
	require.Equal(t, record.Done, row.Status)
	require.True(t, row.Exhausted)
	require.Equal(t, trial.Reason{Code: "exhausted", Text: "the tuner has tried all that the search space holds"}, row.Reason)
	require.Equal(t, same(trial.Succeeded, 2), b.states())

	b.command(trial.SetSearchSpace, grid("3, 4, 5"))
	require.Equal(t, record.Done, b.drive().Status)
	require.Equal(t, same(trial.Succeeded, 5), b.states())
}

func TestTheAssessorStopsATrialEarly(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, trials: 3, assessor: experiment.Algorithm{Name: "Medianstop", Arguments: []byte(`{"start_step": 1}`)},
		behaviour: `{"duration": 0.4, "intermediates": [10, 10], "final": 10, "rules": [{"trials": [2], "duration": 60, "intermediates": [{"at": 0.1, "value": 1}, {"at": 0.2, "value": 1}]}]}`})
	require.Equal(t, record.Done, b.drive().Status)
	require.Equal(t, []trial.State{trial.Succeeded, trial.Succeeded, trial.EarlyStopped}, b.states())
}

func TestAPlatformsFaultsAreForgivenUpToThreeInARow(t *testing.T) {
	b := newBench(t, settings{concurrency: 2, trials: 2, behaviour: `{"duration": 0.1, "final": 1, "rules": [
		{"trials": [0], "attempts": [1, 2], "lostAfter": 0.05}, {"trials": [1], "lostAfter": 0.05}]}`})
	require.Equal(t, record.Done, b.drive().Status)
	rows := b.trials()
	require.Equal(t, []trial.State{trial.Succeeded, trial.Failed}, b.states())
	require.Equal(t, []int{3, 3}, []int{rows[0].Attempts, rows[1].Attempts})
	require.Equal(t, "platform-fault", rows[1].Reason.Code)
	require.Equal(t, 2, b.logged(trial.KindEnded), "algorithms see no fault")
}

func TestNoTrialBeginsOnceTheExperimentsTimeIsOver(t *testing.T) {
	b := newBench(t, settings{concurrency: 2, duration: 3, behaviour: `{"duration": 2, "final": 1}`})
	require.Equal(t, record.Done, b.drive().Status)
	begun := 0
	for _, found := range b.trials() {
		if found.Reason == record.TimeOver() { // asked in time, on a machine too busy to begin it
			require.Zero(t, found.Attempts)
			continue
		}
		require.Equal(t, trial.Succeeded, found.State, "what ran at the deadline went on to its end")
		begun++
	}
	require.Equal(t, trial.Succeeded, b.trials()[0].State)
	require.LessOrEqual(t, begun, 4, "a third pair would begin a second after the deadline, however slow the machine is")
}

func TestWhatWasAskedAndHadNotBegunInTimeBeginsWhenThereIsMore(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, trials: 1, duration: 1, behaviour: `{"duration": 1.5, "final": 1}`})
	b.command(trial.AddTrial, `{"x": 0.1}`)
	b.command(trial.AddTrial, `{"x": 0.2}`)
	require.Equal(t, record.Done, b.drive().Status)
	require.Equal(t, []trial.State{trial.Succeeded, trial.Waiting}, b.states())
	require.Equal(t, record.TimeOver(), b.trials()[1].Reason)
	require.Zero(t, b.trials()[1].Attempts)

	b.command(trial.SetMaxDuration, "600")
	require.Equal(t, record.Done, b.drive().Status)
	require.Equal(t, same(trial.Succeeded, 2), b.states())
	require.Equal(t, `{"x":0.2}`, string(b.trials()[1].Parameters))
}

func TestMoreTimeLetsThoseBeginThatWaitWhileOthersRun(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, trials: 1, duration: 1, behaviour: `{"duration": 60, "final": 1, "rules": [{"trials": [1], "duration": 0.05}]}`})
	b.command(trial.AddTrial, `{"x": 0.1}`)
	b.command(trial.AddTrial, `{"x": 0.2}`)
	b.meanwhile(func() {
		b.until(func() bool { return len(b.trials()) == 2 && b.trials()[1].Reason == record.TimeOver() })
		b.command(trial.SetConcurrency, "2")
		b.until(func() bool { return b.experiment().Cursor == b.experiment().LastEvent })
		require.Zero(t, b.trials()[1].Attempts)
		b.command(trial.SetMaxDuration, "600")
		b.await(trial.Succeeded, 1)
		b.command(trial.EarlyStopCommand, "")
	})
	require.Equal(t, record.Done, b.drive().Status)
	require.Equal(t, []trial.State{trial.EarlyStopped, trial.Succeeded}, b.states())
}

func TestAFailedTrialIsAResultLikeAnother(t *testing.T) {
	b := newBench(t, settings{concurrency: 1, trials: 2, behaviour: `{"rules": [{"trials": [0], "exitCode": 3}]}`})
	require.Equal(t, record.Done, b.drive().Status)
	require.Equal(t, []trial.State{trial.Failed, trial.Succeeded}, b.states())
	require.Equal(t, 1, b.trials()[0].Attempts)
}

func TestEverybodyWhoHasASlotStartsWithoutWaitingForNews(t *testing.T) {
	const many = 130 // more than one round starts
	b := newBench(t, settings{concurrency: many, trials: 1, behaviour: slow})
	for range many {
		b.command(trial.AddTrial, `{"x": 1}`)
	}
	b.meanwhile(func() {
		b.await(trial.Running, many)
		b.command(trial.EarlyStopCommand, "")
	})
	require.Equal(t, record.Done, b.drive().Status)
	require.Equal(t, same(trial.EarlyStopped, many), b.states())
}
