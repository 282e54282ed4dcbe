package tunertest

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/perennial-ml/perennial/assessors"
	"github.com/perennial-ml/perennial/trial"
)

// BuildAssessor makes the assessor under test: assessors.New, or a constructor of
// one's own.
type BuildAssessor func(assessors.Spec) (assessors.Assessor, error)

// AssessorOptions say what the assessor under test is.
type AssessorOptions struct {
	Spec assessors.Spec
	// Reports is how many events a random history has at most; 60 if 0. It should be
	// enough for some trials to be stopped: a suite in which none is fails.
	Reports int
}

// assessing is the assessor under test with its options filled in.
type assessing struct {
	build   BuildAssessor
	options AssessorOptions
	stopped int // verdicts that stopped a trial, over all histories
}

// RunAssessor runs the suite of promises that every assessor keeps on the assessors
// that build makes: the log alone decides, a restart anywhere goes unnoticed, and
// every stop has its reason.
func RunAssessor(t *testing.T, build BuildAssessor, options AssessorOptions) {
	if options.Reports == 0 {
		options.Reports = 60
	}
	a := &assessing{build: build, options: options}
	t.Run("a restart at any event gives the same verdicts", a.always(restartGivesTheSameVerdicts))
	t.Run("only a report is judged, and a stop says why", a.judges)
	t.Run("events of no concern leave no trace", a.always(noConcernNoTrace))
	t.Run("only the order of the log counts", a.always(onlyTheOrderCounts))
	t.Run("an event it cannot read changes nothing", a.always(unreadableChangesNoVerdict))
	t.Run("unknown arguments are refused by name", a.unknownArguments)
}

// judges also sees to it that the suite shows something.
func (a *assessing) judges(t *testing.T) {
	a.always(onlyReportsAreJudged)(t)
	require.Positive(t, a.stopped, "no history had a trial stopped")
}

func (a *assessing) always(check func(*rapid.T, *assessing, []trial.Event)) func(*testing.T) {
	return func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			check(t, a, assessedHistory(t, a.options.Reports))
		})
	}
}

func (a *assessing) fresh(t require.TestingT) assessors.Assessor {
	assessor, err := a.build(a.options.Spec)
	require.NoError(t, err)
	return assessor
}

// verdicts feeds a log to a new assessor.
func (a *assessing) verdicts(t require.TestingT, log []trial.Event) []assessors.Verdict {
	assessor := a.fresh(t)
	verdicts := make([]assessors.Verdict, len(log))
	for i, event := range log {
		verdict, err := assessor.Apply(event)
		require.NoError(t, err)
		verdicts[i] = verdict
	}
	return verdicts
}

func restartGivesTheSameVerdicts(t *rapid.T, a *assessing, log []trial.Event) {
	live := a.verdicts(t, log)
	at := rapid.IntRange(0, len(log)).Draw(t, "restarted after")
	require.Equal(t, live[:at], a.verdicts(t, log[:at]))
	require.Equal(t, live, a.verdicts(t, log))
}

func onlyReportsAreJudged(t *rapid.T, a *assessing, log []trial.Event) {
	for i, verdict := range a.verdicts(t, log) {
		if !verdict.Stop {
			require.True(t, verdict.Reason.Zero())
			continue
		}
		a.stopped++
		require.Equal(t, trial.KindIntermediate, log[i].Kind)
		require.NotEmpty(t, verdict.Reason.Code)
		require.NotEmpty(t, verdict.Reason.Text)
	}
}

// noConcernNoTrace leaves out all that is neither a report nor an end. An
// interrupted trial is not ended: its steps are counted on.
func noConcernNoTrace(t *rapid.T, a *assessing, log []trial.Event) {
	var concern []trial.Event
	var want []assessors.Verdict
	for i, verdict := range a.verdicts(t, log) {
		if log[i].Kind == trial.KindIntermediate || log[i].Kind == trial.KindEnded {
			concern, want = append(concern, log[i]), append(want, verdict)
		}
	}
	require.Equal(t, want, append([]assessors.Verdict(nil), a.verdicts(t, concern)...))
}

// onlyTheOrderCounts respells what trials themselves say about steps and attempts.
func onlyTheOrderCounts(t *rapid.T, a *assessing, log []trial.Event) {
	respelled := append([]trial.Event(nil), log...)
	for i, event := range respelled {
		var report trial.Intermediate
		if event.Kind != trial.KindIntermediate {
			continue
		}
		require.NoError(t, json.Unmarshal(event.Data, &report))
		report.Step = rapid.Int64Range(0, 9).Draw(t, "step")
		respelled[i].Data, _ = json.Marshal(report)
		respelled[i].Attempt = rapid.IntRange(1, 3).Draw(t, "attempt")
	}
	require.Equal(t, a.verdicts(t, log), a.verdicts(t, respelled))
}

func unreadableChangesNoVerdict(t *rapid.T, a *assessing, log []trial.Event) {
	want := a.verdicts(t, log)
	assessor := a.fresh(t)
	for i, event := range log {
		for _, kind := range []trial.Kind{trial.KindIntermediate, trial.KindEnded} {
			_, err := assessor.Apply(trial.Event{Number: event.Number, Kind: kind, Sequence: event.Sequence, Data: json.RawMessage(`"no object"`)})
			require.Error(t, err)
		}
		verdict, err := assessor.Apply(event)
		require.NoError(t, err)
		require.Equal(t, want[i], verdict)
	}
}

func (a *assessing) unknownArguments(t *testing.T) {
	spec := a.options.Spec
	spec.Arguments = json.RawMessage(`{"no_such_argument": 1}`)
	_, err := a.build(spec)
	require.ErrorContains(t, err, "no_such_argument")
}

// assessedHistory is a log of trials that report in any order, some values no
// number; end in any state; are interrupted and go on as another attempt.
func assessedHistory(t *rapid.T, most int) []trial.Event {
	var log []trial.Event
	add := func(kind trial.Kind, sequence int, data any) {
		raw, err := json.Marshal(data)
		require.NoError(t, err)
		log = append(log, trial.Event{Number: int64(len(log)) + 1, Kind: kind, Sequence: sequence, Attempt: 1, Data: raw})
	}
	next, open := 0, []int{}
	for range rapid.IntRange(most/2, most).Draw(t, "events") {
		if len(open) == 0 || len(open) < 4 && rapid.IntRange(0, 5).Draw(t, "begin") == 0 {
			add(trial.KindAsked, next, trial.Asked{Parameters: trial.Parameters("{}"), Source: trial.SourceAlgorithm})
			open, next = append(open, next), next+1
			continue
		}
		i := rapid.IntRange(0, len(open)-1).Draw(t, "trial")
		switch rapid.IntRange(0, 19).Draw(t, "what") {
		case 0:
			states := []trial.State{trial.Succeeded, trial.Succeeded, trial.Failed, trial.EarlyStopped}
			add(trial.KindEnded, open[i], trial.Ended{State: rapid.SampledFrom(states).Draw(t, "state")})
			open = append(open[:i:i], open[i+1:]...)
		case 1:
			add(trial.KindInterrupted, open[i], trial.Interrupted{})
		case 2:
			add(trial.KindCommand, trial.NoTrial, trial.Command{ID: "c", Name: trial.Pause})
		default:
			value := rapid.Ptr(rapid.Float64Range(-2, 2), true).Draw(t, "value")
			add(trial.KindIntermediate, open[i], trial.Intermediate{Step: int64(len(log)), Value: value})
		}
	}
	return log
}
