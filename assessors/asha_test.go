package assessors

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/perennial-ml/perennial/trial"
)

func newASHABench(t require.TestingT, arguments string) *bench {
	assessor, err := New(Spec{Name: "asha", Arguments: json.RawMessage(arguments)})
	require.NoError(t, err)
	return &bench{t: t, assessor: assessor}
}

func TestTheFirstToComeToARungGoesOnAndLaterOnesMustBeAmongTheBest(t *testing.T) {
	b := newASHABench(t, `{"optimize_mode": "minimize", "min_budget": 2, "eta": 3}`)
	require.False(t, b.report(0, 9, 5).Stop, "nobody was here before")
	require.False(t, b.report(1, 9, 4).Stop)
	verdict := b.report(2, 9, 4.5)
	require.True(t, verdict.Stop)
	require.Equal(t, trial.Reason{Code: "asha", Text: "its value at step 2 is number 2 of the 3 trials that came so far, and the best 1 go on"}, verdict.Reason)
	b.report(3, 9, 8)
	b.report(4, 9, 8)
	require.False(t, b.report(5, 9, 4.2).Stop, "second of six: the best two go on")
	require.False(t, b.report(0, 9, 9, 9).Stop, "steps 3 to 5 are no rungs")
	require.False(t, b.report(0, 7).Stop, "step 6, where nobody was")
	require.True(t, b.report(1, 9, 9, 9, 8).Stop)
}

func TestEqualValuesShareAPlaceInTheRung(t *testing.T) {
	b := newASHABench(t, "")
	for n := range 10 {
		require.False(t, b.report(n, 0.1).Stop)
	}
	require.True(t, b.report(10, 0.09).Stop)
}

func TestAtMaxBudgetNothingIsStoppedAnyMore(t *testing.T) {
	b := newASHABench(t, `{"min_budget": 3, "max_budget": 9}`)
	b.report(0, 9, 9, 9)
	require.True(t, b.report(1, 9, 9, 8).Stop)
	b.report(0, 9, 9, 9, 9, 9, 9)
	require.False(t, b.report(1, 9, 9, 9, 9, 9, 1).Stop)
}

func TestWhatIsNoNumberIsWorseThanAllInARung(t *testing.T) {
	b := newASHABench(t, "")
	require.False(t, b.reportNothing(0).Stop, "nobody was better")
	require.False(t, b.report(1, -5).Stop)
	require.True(t, b.reportNothing(2).Stop)
}

func TestAnInterruptedTrialGoesOnAtItsStep(t *testing.T) {
	b := newASHABench(t, `{"min_budget": 2}`)
	b.report(0, 5, 5)
	b.report(1, 5)
	b.apply(trial.KindInterrupted, 1, trial.Interrupted{})
	require.True(t, b.report(1, 4).Stop, "its second step")
}

// TestASHAStopsAsItsDefinitionSays compares every verdict with one that is worked
// out anew from all reports so far.
func TestASHAStopsAsItsDefinitionSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first, eta := rapid.IntRange(1, 3).Draw(t, "min_budget"), rapid.IntRange(2, 4).Draw(t, "eta")
		b := newASHABench(t, fmt.Sprintf(`{"optimize_mode": "minimize", "min_budget": %d, "eta": %d}`, first, eta))
		rungs := map[int]bool{}
		for step := first; step <= 150; step *= eta {
			rungs[step] = true
		}
		steps := make([]int, 12)
		came := map[int][]float64{}
		for range 150 {
			n, value := rapid.IntRange(0, 11).Draw(t, "trial"), float64(rapid.IntRange(0, 20).Draw(t, "value"))
			steps[n]++
			verdict := b.report(n, value)
			if !rungs[steps[n]] {
				require.False(t, verdict.Stop)
				continue
			}
			came[steps[n]] = append(came[steps[n]], value)
			better := 0
			for _, other := range came[steps[n]] {
				if other < value {
					better++
				}
			}
			require.Equal(t, better > 0 && better >= len(came[steps[n]])/eta, verdict.Stop)
		}
	})
}

func TestASHAsArgumentsAreChecked(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"eta": 1, "r": 1}`: "argument eta of assessor ASHA is 1: want an integer from 2\n" +
			`assessor ASHA has no argument "r": it takes early_stopping_rate, eta, max_budget, min_budget, optimize_mode`,
		`{"max_budget": 9, "early_stopping_rate": 2}`: "assessor ASHA has its first rung at step 9, at or after max_budget, 9: " +
			"want a smaller min_budget or early_stopping_rate",
	} {
		_, err := New(Spec{Name: "ASHA", Arguments: json.RawMessage(arguments)})
		require.EqualError(t, err, want)
	}
}
