package platformtest

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/trial"
)

// Run is the conformance suite.
func Run(t *testing.T, make Maker) {
	for _, test := range conformance {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(newWorld(t, make))
		})
	}
}

var conformance = []struct {
	name string
	run  func(*world)
}{
	{"TraitsAreConsistent", traitsAreConsistent},
	{"PreparingTwiceGivesTheSameWorkspace", preparingTwiceGivesTheSameWorkspace},
	{"ASubmittedRunReportsItsMetricsAndItsEnd", aSubmittedRunReportsItsMetricsAndItsEnd},
	{"AFailedTrialIsAReportAndNoError", aFailedTrialIsAReportAndNoError},
	{"SubmittingARunningJobAgainAdoptsIt", submittingARunningJobAgainAdoptsIt},
	{"SubmittingAnEndedJobAgainDoesNotStartIt", submittingAnEndedJobAgainDoesNotStartIt},
	{"ARunWithOtherParametersIsNotAdopted", aRunWithOtherParametersIsNotAdopted},
	{"ThreeSubmitsAtOnceStartOneRun", threeSubmitsAtOnceStartOneRun},
	{"AnUnknownRunIsAbsent", anUnknownRunIsAbsent},
	{"ReportsComeInTheOrderOfHandles", reportsComeInTheOrderOfHandles},
	{"TheSameCursorGivesTheSamePrefix", theSameCursorGivesTheSamePrefix},
	{"TheFinalMetricIsThereOnceTheRunHasExited", theFinalMetricIsThereOnceTheRunHasExited},
	{"ACancelEndsARunAndItsIntentIsReported", aCancelEndsARunAndItsIntentIsReported},
	{"TheFirstIntentWins", theFirstIntentWins},
	{"CancellingAFinishedRunChangesNothing", cancellingAFinishedRunChangesNothing},
	{"CancellingAnUnknownRunKeepsItFromStarting", cancellingAnUnknownRunKeepsItFromStarting},
	{"ListFindsEveryRunOfTheExperimentAndNoOther", listFindsEveryRun},
	{"ANewInstanceFindsEverything", aNewInstanceFindsEverything},
	{"TheNextAttemptEndsTheOneBefore", theNextAttemptEndsTheOneBefore},
	{"LostAnswersDuplicatesAndTimeoutsChangeNothing", faultsChangeNothing},
	{"TheJournalThatComesWithAReportIsWhatCollectGives", theJournalThatComesWithAReport},
	{"CleaningUpTwiceLeavesRunsAndTheSameCodeCanBeThereAgain", cleaningUpTwice},
	{"AForgottenRunIsNotListedAndOthersAre", aForgottenRunIsNotListed},
	{"ARemovedExperimentLeavesNothing", aRemovedExperimentLeavesNothing},
}

// threeSteps is a run that ends by itself.
func threeSteps() Behaviour {
	return Behaviour{Intermediates: []float64{0.25, 0.5, 0.75}, Final: pointer(0.875)}
}

var threeStepsValues = []string{"PERIODICAL 0.25", "PERIODICAL 0.5", "PERIODICAL 0.75", "FINAL 0.875"}

func traitsAreConsistent(w *world) {
	traits := w.traits
	require.NotEmpty(w.t, traits.Name)
	require.Positive(w.t, traits.PollInterval)
	require.GreaterOrEqual(w.t, traits.Losable, 1)
	require.Equal(w.t, traits, w.Kind(w.t).Traits)
	handle := w.begin(0, threeSteps())
	require.Equal(w.t, traits.Name, handle.Platform)
	require.Positive(w.t, handle.Format)
}

func preparingTwiceGivesTheSameWorkspace(w *world) {
	bundle := platforms.Bundle{CodeDirectory: w.t.TempDir()}
	first, err := w.Prepare(w.ctx, bundle)
	require.NoError(w.t, err)
	w.reopen()
	second, err := w.Prepare(w.ctx, bundle)
	require.NoError(w.t, err)
	require.Equal(w.t, first, second)
}

func aSubmittedRunReportsItsMetricsAndItsEnd(w *world) {
	handle := w.begin(0, threeSteps())
	report := w.waitFor(handle, platforms.Exited)
	require.Equal(w.t, handle.Key, report.Key)
	require.Equal(w.t, &trial.Exit{}, report.Exit)
	require.Nil(w.t, report.Intent)
	require.False(w.t, report.Started.IsZero())
	require.False(w.t, report.Ended.Before(report.Started))
	records := w.collectEnd(handle)
	require.Equal(w.t, threeStepsValues, values(records))
	requireNumbered(w.t, records)
}

func requireNumbered(t *testing.T, records []metrics.Record) {
	t.Helper()
	step := int64(0)
	for i, record := range records {
		require.Equal(t, int64(i+1), record.Number)
		require.False(t, record.Time.IsZero())
		if record.Kind == metrics.Periodical {
			require.Equal(t, step, record.Step)
			step++
		}
	}
}

func aFailedTrialIsAReportAndNoError(w *world) {
	handle := w.begin(0, Behaviour{Intermediates: []float64{1}, ExitCode: 3})
	report := w.waitFor(handle, platforms.Exited)
	require.Equal(w.t, 3, report.Exit.Code)
	require.False(w.t, report.Exit.Outside)
	require.Equal(w.t, []string{"PERIODICAL 1"}, values(w.collectEnd(handle)))
}

func submittingARunningJobAgainAdoptsIt(w *world) {
	job := w.job(0, Behaviour{Intermediates: []float64{1}, Forever: true})
	handle := w.submit(job)
	before := w.waitFor(handle, platforms.Running)
	w.reopen()
	require.Equal(w.t, handle, w.submit(job))
	after := w.waitFor(handle, platforms.Running)
	require.True(w.t, before.Started.Equal(after.Started), "it was started again")
}

func submittingAnEndedJobAgainDoesNotStartIt(w *world) {
	job := w.job(0, threeSteps())
	handle := w.submit(job)
	before := w.waitFor(handle, platforms.Exited)
	require.Equal(w.t, handle, w.submit(job))
	require.Equal(w.t, before, w.poll(handle))
	require.Equal(w.t, threeStepsValues, values(w.collectEnd(handle)))
}

// aRunWithOtherParametersIsNotAdopted is a record that was restored from a backup
// together with Temporal: its number was given to another trial before.
func aRunWithOtherParametersIsNotAdopted(w *world) {
	job := w.job(0, Behaviour{Intermediates: []float64{1}, Forever: true})
	handle := w.submit(job)
	w.waitFor(handle, platforms.Running)
	other := job
	other.Parameter, other.Parameters = bytes.Replace(job.Parameter, []byte("5.0"), []byte("6.0"), 1), trial.Parameters(`{"x": 6.0}`)
	refused := func() {
		_, err := w.Submit(w.ctx, other)
		require.Equal(w.t, platforms.Conflict, platforms.CodeOf(err), "%v", err)
	}
	refused()
	w.reopen()
	refused()
	require.Equal(w.t, platforms.Running, w.poll(handle).Phase, "it is left as it is")
	require.Equal(w.t, handle, w.submit(job))
	w.cancel(handle, trial.Intent{Cause: trial.CauseUser})
	w.waitFor(handle, platforms.Exited)
	refused()
}

func threeSubmitsAtOnceStartOneRun(w *world) {
	job := w.job(0, threeSteps())
	var group sync.WaitGroup
	handles, errors := make([]platforms.Handle, 3), make([]error, 3)
	for i := range handles {
		instance := w.open()
		group.Go(func() { handles[i], errors[i] = instance.Submit(w.ctx, job) })
	}
	group.Wait()
	for i := range handles {
		require.NoError(w.t, errors[i])
		require.Equal(w.t, handles[0], handles[i])
	}
	require.Equal(w.t, threeStepsValues, values(w.collectEnd(handles[0])), "one run reports each metric once")
}

func (w *world) unknown(sequence int) platforms.Handle {
	handle := w.begin(sequence+1000, threeSteps())
	return platforms.Handle{Format: handle.Format, Platform: handle.Platform, Key: w.key(sequence, 1)}
}

func anUnknownRunIsAbsent(w *world) {
	unknown := w.unknown(0)
	require.Equal(w.t, platforms.Absent, w.poll(unknown).Phase)
	require.Empty(w.t, w.collect(unknown))
}

func reportsComeInTheOrderOfHandles(w *world) {
	var handles []platforms.Handle
	for _, sequence := range []int{2, 0, 3, 1} {
		handles = append(handles, w.begin(sequence, threeSteps()))
	}
	reports, err := w.Poll(w.ctx, platforms.Ask(append(handles, handles[0])...))
	require.NoError(w.t, err)
	require.Len(w.t, reports, 5)
	for i, report := range reports {
		require.Equal(w.t, handles[i%4].Key, report.Key)
	}
	none, err := w.Poll(w.ctx, nil)
	require.NoError(w.t, err)
	require.Empty(w.t, none)
}

func theSameCursorGivesTheSamePrefix(w *world) {
	handle := w.begin(0, threeSteps())
	all := w.collectEnd(handle)
	first, after, err := w.Collect(w.ctx, handle, "")
	require.NoError(w.t, err)
	require.Equal(w.t, all[:len(first)], first)
	w.reopen()
	again, afterAgain, err := w.Collect(w.ctx, handle, "")
	require.NoError(w.t, err)
	require.Equal(w.t, first, again)
	require.Equal(w.t, after, afterAgain)
	rest, _, err := w.Collect(w.ctx, handle, after)
	require.NoError(w.t, err)
	require.Equal(w.t, len(all), len(first)+len(rest))
}

// theFinalMetricIsThereOnceTheRunHasExited is NNI's lost metric: its trials' last
// words were dropped when the end was seen first.
func theFinalMetricIsThereOnceTheRunHasExited(w *world) {
	var going []platforms.Handle
	for sequence := range 5 {
		going = append(going, w.begin(sequence, Behaviour{Final: pointer(float64(sequence))}))
	}
	for ; len(going) > 0; w.rest() {
		reports, err := w.Poll(w.ctx, platforms.Ask(going...))
		require.NoError(w.t, errors.Join(err, w.ctx.Err()))
		var later []platforms.Handle
		for i, report := range reports {
			if report.Phase != platforms.Exited || report.Pending {
				later = append(later, going[i])
				continue
			}
			records := w.collect(going[i])
			require.Len(w.t, records, 1)
			require.Equal(w.t, metrics.Final, records[0].Kind)
		}
		going = later
	}
}

func aCancelEndsARunAndItsIntentIsReported(w *world) {
	handle := w.begin(0, Behaviour{Intermediates: []float64{1}, Forever: true})
	w.waitFor(handle, platforms.Running)
	intent := trial.Intent{Cause: trial.CauseEarlyStop, Decision: "d-1"}
	w.cancel(handle, intent)
	w.cancel(handle, intent)
	report := w.waitFor(handle, platforms.Exited)
	require.NotZero(w.t, report.Exit.Code)
	if !w.traits.KeepsIntent {
		require.Nil(w.t, report.Intent)
		require.True(w.t, report.Exit.Outside, "the record says whose it was")
		return
	}
	require.Equal(w.t, &intent, report.Intent)
	require.False(w.t, report.Exit.Outside, "it was ours")
}

func theFirstIntentWins(w *world) {
	if !w.traits.KeepsIntent {
		return // the record's first decision does
	}
	handle := w.begin(0, Behaviour{Forever: true})
	w.waitFor(handle, platforms.Running)
	first := trial.Intent{Cause: trial.CauseUser}
	w.cancel(handle, first)
	w.cancel(handle, trial.Intent{Cause: trial.CauseEarlyStop, Decision: "late"})
	require.Equal(w.t, &first, w.waitFor(handle, platforms.Exited).Intent)
	w.cancel(handle, trial.Intent{Cause: trial.CauseStop})
	require.Equal(w.t, &first, w.poll(handle).Intent)
}

func cancellingAFinishedRunChangesNothing(w *world) {
	handle := w.begin(0, threeSteps())
	before := w.waitFor(handle, platforms.Exited)
	w.cancel(handle, trial.Intent{Cause: trial.CauseUser})
	require.Equal(w.t, before, w.poll(handle))
	require.Nil(w.t, w.poll(handle).Intent, "the end is older than the intent")
}

func cancellingAnUnknownRunKeepsItFromStarting(w *world) {
	unknown := w.unknown(0)
	intent := trial.Intent{Cause: trial.CauseUser}
	w.cancel(unknown, intent)
	if !w.traits.KeepsIntent {
		return // whoever submits asks the record
	}
	handle := w.begin(0, threeSteps())
	report := w.waitUntil(handle, func(report platforms.Report) bool { return report.Phase.Definite() })
	require.Equal(w.t, &intent, report.Intent)
	require.True(w.t, report.Started.IsZero(), "it was started")
	require.Empty(w.t, w.collect(handle))
}

func listFindsEveryRun(w *world) {
	wanted := map[trial.Key]bool{}
	for sequence := range 3 {
		job := w.job(sequence, threeSteps())
		wanted[job.Key] = true
		w.submit(job) // the answer is lost
	}
	w.reopen()
	handles, err := w.List(w.ctx)
	require.NoError(w.t, err)
	require.Len(w.t, handles, len(wanted))
	for _, handle := range handles {
		require.True(w.t, wanted[handle.Key])
		require.Equal(w.t, threeStepsValues, values(w.collectEnd(handle)))
	}
	some, err := w.List(w.ctx, w.key(1, 1), w.key(7, 1))
	require.NoError(w.t, err)
	require.Len(w.t, some, 1, "of two keys, one of which nobody has submitted")
	require.Equal(w.t, w.key(1, 1), some[0].Key)
	elsewhere := w.Kind(w.t).Open(Section(w.traits.Name, "elsewhre", w.Options))
	w.t.Cleanup(func() { elsewhere.Close() })
	none, err := elsewhere.List(w.ctx)
	require.NoError(w.t, err)
	require.Empty(w.t, none)
}

func aNewInstanceFindsEverything(w *world) {
	running := w.begin(0, Behaviour{Intermediates: []float64{0.5}, Forever: true})
	ended := w.begin(1, threeSteps())
	w.waitFor(running, platforms.Running)
	report := w.waitFor(ended, platforms.Exited)
	w.reopen()
	require.Equal(w.t, report, w.poll(ended))
	require.Equal(w.t, platforms.Running, w.poll(running).Phase)
	require.Equal(w.t, threeStepsValues, values(w.collect(ended)))
	w.cancel(running, trial.Intent{Cause: trial.CauseUser})
	w.waitFor(running, platforms.Exited)
}

func theNextAttemptEndsTheOneBefore(w *world) {
	first := w.begin(0, Behaviour{Forever: true})
	w.waitFor(first, platforms.Running)
	second := w.submit(w.Job(w.t, w.key(0, 2), threeSteps()))
	report := w.waitFor(first, platforms.Exited)
	if w.traits.KeepsIntent {
		require.Equal(w.t, trial.CauseSuperseded, report.Intent.Cause)
	}
	require.Equal(w.t, threeStepsValues, values(w.collectEnd(second)))
}

func theJournalThatComesWithAReport(w *world) {
	handle := w.begin(0, threeSteps())
	all := w.collectEnd(handle)
	report := w.ask(platforms.Question{Handle: handle})
	if report.Journal == nil {
		return // then Collect is asked
	}
	first := *report.Journal
	require.NotEmpty(w.t, first.Records)
	require.Equal(w.t, all[:len(first.Records)], first.Records)
	rest, _, err := w.Collect(w.ctx, handle, first.Next)
	require.NoError(w.t, err)
	require.Equal(w.t, all, append(first.Records, rest...), "both use the same cursors")
	require.Equal(w.t, len(rest) > 0, first.More)
	w.reopen()
	again := w.ask(platforms.Question{Handle: handle})
	require.Equal(w.t, first, *again.Journal)
	if !first.More {
		require.Empty(w.t, w.ask(platforms.Question{Handle: handle, After: first.Next}).Journal.Records)
	}
}

func cleaningUpTwice(w *world) {
	cleaning, can := w.Platform.(platforms.WithCleanup)
	if !can {
		return
	}
	bundle := platforms.Bundle{CodeDirectory: w.t.TempDir()}
	workspace, err := w.Prepare(w.ctx, bundle)
	require.NoError(w.t, err)
	handle := w.begin(0, threeSteps())
	before := w.waitFor(handle, platforms.Exited)
	w.collectEnd(handle)
	require.NoError(w.t, cleaning.CleanUp(w.ctx))
	require.NoError(w.t, cleaning.CleanUp(w.ctx))
	if _, forgets := w.Platform.(platforms.WithForget); !forgets {
		require.Equal(w.t, before, w.poll(handle))
	}
	bundle.Again = &workspace
	again, err := w.Prepare(w.ctx, bundle)
	require.NoError(w.t, err)
	require.Equal(w.t, workspace, again)
	require.Equal(w.t, threeStepsValues, values(w.collectEnd(w.begin(1, threeSteps()))))
}

func aForgottenRunIsNotListed(w *world) {
	forgetting, can := w.Platform.(platforms.WithForget)
	if !can {
		return
	}
	kept, gone := w.begin(0, threeSteps()), w.begin(1, threeSteps())
	w.collectEnd(kept)
	w.collectEnd(gone)
	require.NoError(w.t, forgetting.Forget(w.ctx, gone))
	require.NoError(w.t, forgetting.Forget(w.ctx, gone))
	listed := func() (keys []trial.Key) {
		handles, err := w.List(w.ctx)
		require.NoError(w.t, err)
		for _, handle := range handles {
			keys = append(keys, handle.Key)
		}
		return keys
	}
	require.Eventually(w.t, func() bool { return !slices.Contains(listed(), gone.Key) }, patience, 10*time.Millisecond)
	require.Contains(w.t, listed(), kept.Key)
	require.Equal(w.t, threeStepsValues, values(w.collect(kept)))
}

func faultsChangeNothing(w *world) {
	unreliable := Unreliable(w.Platform, Faults{LostAnswers: 2, Timeouts: 2, Duplicates: true})
	w.Platform = unreliable
	job := w.job(0, threeSteps())
	handle := retry(w, func() (platforms.Handle, error) { return w.Submit(w.ctx, job) })
	for {
		reports := retry(w, func() ([]platforms.Report, error) { return w.Poll(w.ctx, platforms.Ask(handle)) })
		if reports[0].Phase.Definite() && !reports[0].Pending {
			require.Equal(w.t, platforms.Exited, reports[0].Phase)
			break
		}
		w.rest()
	}
	retry(w, func() (struct{}, error) {
		return struct{}{}, w.Cancel(w.ctx, handle, trial.Intent{Cause: trial.CauseUser})
	})
	records := retry(w, func() ([]metrics.Record, error) {
		records, _, err := w.Collect(w.ctx, handle, "")
		return records, err
	})
	require.Equal(w.t, threeStepsValues, values(records))
	w.Platform = unreliable.inner
}

// retry repeats what is worth another try.
func retry[T any](w *world, call func() (T, error)) T {
	for {
		result, err := call()
		if err == nil {
			return result
		}
		require.Equal(w.t, platforms.Transient, platforms.CodeOf(err))
		require.NoError(w.t, w.ctx.Err())
		w.rest()
	}
}

func aRemovedExperimentLeavesNothing(w *world) {
	removing, can := w.Platform.(platforms.WithRemoval)
	if !can {
		return
	}
	handle := w.begin(0, threeSteps())
	w.collectEnd(handle)
	report := w.poll(handle)
	if cleaning, can := w.Platform.(platforms.WithCleanup); can {
		require.NoError(w.t, cleaning.CleanUp(w.ctx))
	}
	for range 2 {
		require.NoError(w.t, removing.Remove(w.ctx))
	}
	require.Eventually(w.t, func() bool {
		left, err := w.List(w.ctx)
		return err == nil && len(left) == 0
	}, patience, 10*time.Millisecond)
	if report.Output != "" {
		require.NoDirExists(w.t, report.Output)
	}
}
