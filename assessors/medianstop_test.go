package assessors

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/perennial-ml/perennial/trial"
)

// bench feeds an assessor events of a log.
type bench struct {
	t        require.TestingT
	assessor Assessor
	number   int64
}

func newBench(t require.TestingT, arguments string) *bench {
	assessor, err := New(Spec{Name: "MedianStop", Arguments: json.RawMessage(arguments)})
	require.NoError(t, err)
	return &bench{t: t, assessor: assessor}
}

func (b *bench) apply(kind trial.Kind, sequence int, data any) Verdict {
	raw, err := json.Marshal(data)
	require.NoError(b.t, err)
	b.number++
	verdict, err := b.assessor.Apply(trial.Event{Number: b.number, Kind: kind, Sequence: sequence, Attempt: 1, Data: raw})
	require.NoError(b.t, err)
	return verdict
}

func (b *bench) report(sequence int, values ...float64) (last Verdict) {
	for _, value := range values {
		last = b.apply(trial.KindIntermediate, sequence, trial.Intermediate{Value: &value})
	}
	return last
}

func (b *bench) reportNothing(sequence int) Verdict {
	return b.apply(trial.KindIntermediate, sequence, trial.Intermediate{})
}

func (b *bench) end(sequence int, state trial.State) {
	b.apply(trial.KindEnded, sequence, trial.Ended{State: state})
}

func (b *bench) succeed(sequence int, values ...float64) {
	b.report(sequence, values...)
	b.end(sequence, trial.Succeeded)
}

func threeFinished(t require.TestingT, arguments string) *bench {
	b := newBench(t, arguments)
	b.succeed(0, .1, .2, .3)
	b.succeed(1, .4, .5, .6)
	b.succeed(2, .7, .8, .9)
	return b
}

func TestMedianstopJudgesAsNNIs(t *testing.T) {
	for _, c := range []struct {
		history []float64
		stop    bool
	}{
		{[]float64{.05}, true},
		{[]float64{.05, .2}, true},
		{[]float64{.05, .2, .3}, true},
		{[]float64{.5}, false},
		{[]float64{.5, .4}, false},
		{[]float64{.6, .1, .1}, false},
		{[]float64{.4}, false},
		{[]float64{0, 0, 0, 0}, false},
	} {
		b := threeFinished(t, `{"optimize_mode": "maximize"}`)
		require.Equal(t, c.stop, b.report(3, c.history...).Stop, "%v", c.history)
	}
}

func TestMedianstopSaysWhyInWords(t *testing.T) {
	b := threeFinished(t, "")
	require.Equal(t, trial.Reason{Code: "medianstop", Text: "best 0.05 after step 2 is below the median 0.45 of 3 finished trials"},
		b.report(3, .01, .05).Reason)

	b = newBench(t, `{"optimize_mode": "minimize"}`)
	b.succeed(0, 1)
	require.Equal(t, "best 2 after step 1 is above the median 1 of 1 finished trial", b.report(1, 2).Reason.Text)
}

func TestOfTwoMiddleAveragesTheMoreLenientCounts(t *testing.T) {
	up, down := newBench(t, `{"optimize_mode": "maximize"}`), newBench(t, `{"optimize_mode": "minimize"}`)
	for _, b := range []*bench{up, down} {
		b.succeed(0, 1)
		b.succeed(1, 2)
	}
	require.False(t, up.report(2, 1.5).Stop)
	require.True(t, up.report(3, 0.5).Stop)
	require.False(t, down.report(2, 1.5).Stop)
	require.True(t, down.report(3, 2.5).Stop)
}

func TestNothingIsJudgedBeforeStartStep(t *testing.T) {
	b := threeFinished(t, `{"start_step": 3}`)
	require.False(t, b.report(3, 0).Stop)
	require.False(t, b.report(3, 0).Stop)
	require.True(t, b.report(3, 0).Stop)
}

func TestOnlyTrialsThatSucceededSetTheBar(t *testing.T) {
	b := newBench(t, "")
	for sequence, state := range []trial.State{trial.Failed, trial.EarlyStopped, trial.UserCanceled, trial.SysCanceled} {
		b.report(sequence, 9)
		b.end(sequence, state)
	}
	b.end(77, trial.Succeeded)
	require.False(t, b.report(10, 1).Stop)
}

func TestAValueThatIsNoNumberTakesUpItsStepAndCountsForNothing(t *testing.T) {
	b := newBench(t, "")
	b.report(0, 1)
	b.reportNothing(0)
	b.succeed(0, 3) // averages 1, 1, 2
	require.False(t, b.reportNothing(1).Stop)
	require.False(t, b.report(1, 1).Stop)
	require.True(t, b.report(1, 1.5).Stop)

	b = newBench(t, "")
	b.reportNothing(0)
	b.succeed(0, 5)
	require.False(t, b.report(1, 1).Stop, "no average at step 1 yet")
	require.True(t, b.report(1, 1).Stop)
	b.succeed(2, 4)
	require.Contains(t, b.report(3, 1).Reason.Text, "median 4 of 1 finished trial")
}

func TestATrialThatEndedCountsOnce(t *testing.T) {
	b := newBench(t, "")
	b.succeed(0, 4)
	b.end(0, trial.Succeeded)
	require.Contains(t, b.report(1, 1).Reason.Text, "of 1 finished trial")
}

func TestTheRunningMedianIsThatOfTheSortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lower, upper := median{}, median{upperMiddle: true}
		var all []float64
		for _, x := range rapid.SliceOfN(rapid.Float64Range(-9, 9), 1, 40).Draw(t, "numbers") {
			lower.add(x)
			upper.add(x)
			all = append(all, x)
			sorted := slices.Sorted(slices.Values(all))
			require.Equal(t, sorted[(len(sorted)-1)/2], lower.value())
			require.Equal(t, sorted[len(sorted)/2], upper.value())
		}
	})
}

func TestBadAssessorsAreRefusedWithWhatWouldBeRight(t *testing.T) {
	for _, c := range []struct{ name, arguments, want string }{
		{"medianstp", "", `there is no assessor "medianstp": did you mean Medianstop?`},
		{"Hyper", "", `there is no assessor "Hyper": choose one of ASHA, Curvefitting, Medianstop`},
		{"Medianstop", `{"startstep": 1, "optimize_mode": "max"}`,
			"argument optimize_mode of assessor Medianstop is \"max\": want \"maximize\" or \"minimize\"\n" +
				`assessor Medianstop has no argument "startstep": it takes optimize_mode, start_step`},
		{"Medianstop", `{"start_step": -1}`, `argument start_step of assessor Medianstop is -1: want an integer from 0`},
		{"Medianstop", `[]`, `classArgs of assessor Medianstop is []: want an object`},
	} {
		_, err := New(Spec{Name: c.name, Arguments: json.RawMessage(c.arguments)})
		require.EqualError(t, err, c.want)
	}
}

func TestAnUnreadableEventIsAnErrorWithItsKind(t *testing.T) {
	b := newBench(t, "")
	for _, kind := range []trial.Kind{trial.KindIntermediate, trial.KindEnded} {
		_, err := b.assessor.Apply(trial.Event{Kind: kind, Data: json.RawMessage(`"x"`)})
		require.ErrorContains(t, err, "read "+string(kind)+" event")
	}
}

func BenchmarkMedianstopAfter10000Trials(b *testing.B) {
	bench := newBench(b, "")
	for sequence := range 10_000 {
		bench.succeed(sequence, float64(sequence), 1, 2, 3, 4)
	}
	data := json.RawMessage(`{"step": 0, "value": 20000}`)
	for b.Loop() {
		bench.assessor.Apply(trial.Event{Kind: trial.KindIntermediate, Sequence: 10_001, Data: data})
		bench.assessor.Apply(trial.Event{Kind: trial.KindEnded, Sequence: 10_001, Data: json.RawMessage(`{"state":"FAILED"}`)})
	}
}
