package tuners_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
)

func TestHyperbandAsksForTheTrialsThatNNIAsksFor(t *testing.T) {
	recorded, err := os.ReadFile("testdata/hyperband.txt")
	require.NoError(t, err)
	for _, mode := range []string{"parallelism", "serial"} {
		p := play(t, "Hyperband", `{"optimize_mode": "minimize", "exec_mode": "`+mode+`"}`, oneNumber)
		drawn := map[int]any{}
		for line := range strings.Lines(string(recorded)) {
			a := p.ask()
			require.Equal(t, strings.TrimSpace(line), fmt.Sprint(a.id, " ", a.parameters["TRIAL_BUDGET"]))
			round, s, rung, configuration := 0, 0, 0, 0
			fmt.Sscanf(a.id, "%d-%d_%d_%d", &round, &s, &rung, &configuration)
			if rung > 0 {
				require.Equal(t, drawn[configuration], a.parameters["x"], "the same configuration")
			}
			drawn[configuration] = a.parameters["x"]
			p.succeed(a, float64(configuration*7919%101))
		}
	}
}

func TestHyperbandBeginsTheNextBracketWhileARungIsUnderWay(t *testing.T) {
	p := play(t, "hyperband", `{"R": 3}`, oneNumber) // brackets of 3+1 and of 2 trials
	first := p.asks(3)
	require.Equal(t, "0-0_0_3", p.ask().id)
	p.succeed(first[0], 1)
	p.succeed(first[1], 3)
	p.succeed(first[2], 2)
	require.Equal(t, "0-1_1_1", p.ask().id, "a promotion comes before new configurations")
	p.restart()
	require.Equal(t, "0-0_0_4", p.ask().id)
	require.Equal(t, "1-1_0_5", p.ask().id)
}

func TestSerialHyperbandWaitsForABracketToEnd(t *testing.T) {
	p := play(t, "hyperband", `{"R": 3, "exec_mode": "serial"}`, oneNumber)
	first := p.asks(3)
	require.Equal(t, tuners.Wait, p.propose().Answer)
	p.restart()
	for i, a := range first {
		p.succeed(a, float64(i))
	}
	last := p.ask()
	require.Equal(t, "0-1_1_2", last.id)
	require.Equal(t, tuners.Wait, p.propose().Answer)
	p.end(last, trial.Failed)
	require.Equal(t, "0-0_0_3", p.ask().id)
}

func TestAFailedTrialIsNeverAmongTheBestOfItsRung(t *testing.T) {
	p := play(t, "hyperband", `{"R": 3, "exec_mode": "serial"}`, oneNumber)
	first := p.asks(3)
	p.report(first[0], 99)
	p.end(first[0], trial.Failed)
	p.end(first[1], trial.UserCanceled)
	p.report(first[2], -7)
	p.report(first[2], -8)
	p.end(first[2], trial.Succeeded) // no final result: the last intermediate counts
	last := p.ask()
	require.Equal(t, "0-1_1_2", last.id)
	p.succeed(last, 0)
	second := p.asks(2)
	require.Equal(t, "0-0_0_3", second[0].id)
	p.end(second[0], trial.Failed)
	p.end(second[1], trial.Failed)
	third := p.asks(3)
	require.Equal(t, "1-1_0_5", third[0].id)
	for _, a := range third {
		p.end(a, trial.Failed)
	}
	require.Equal(t, "1-0_0_8", p.ask().id, "a rung in which all failed ends its bracket")
}

func TestHyperbandDoesNotTryASetTwiceInARung(t *testing.T) {
	p := play(t, "Hyperband", `{"R": 9}`, `{"x": {"_type": "randint", "_value": [0, 4]}}`)
	seen := map[any]bool{}
	for _, a := range p.asks(4) {
		require.Equal(t, "0-2_0", a.id[:5])
		seen[a.parameters["x"]] = true
		p.succeed(a, a.parameters["x"].(float64))
	}
	require.Len(t, seen, 4)
	require.Equal(t, map[string]any{"x": 3.0, "TRIAL_BUDGET": 3.0}, p.ask().parameters)
}

func TestANewSpaceBeginsANewRoundOfHyperband(t *testing.T) {
	p := play(t, "Hyperband", `{"R": 3}`, oneNumber)
	old := p.asks(3)
	p.setSpace(`{"y": {"_type": "uniform", "_value": [5, 6]}}`)
	for i, a := range old {
		p.succeed(a, float64(i))
	}
	a := p.ask()
	require.Equal(t, "1-1_0_3", a.id)
	require.Contains(t, a.parameters, "y")
	p.restart()
}

// TestHyperbandNeverStandsStill ends trials in any order and state: as long as one
// is asked for, or runs, the experiment goes on, and budgets and sizes hold.
func TestHyperbandNeverStandsStill(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := play(t, "Hyperband", rapid.SampledFrom([]string{`{"R": 9}`, `{"R": 8, "eta": 2, "exec_mode": "serial"}`}).Draw(t, "arguments"), oneNumber)
		var open []asked
		ids := map[string]bool{}
		for range 120 {
			if len(open) < 5 && p.propose().Answer == tuners.Try {
				a := p.ask()
				require.False(t, ids[a.id], "%s is asked twice", a.id)
				ids[a.id] = true
				open = append(open, a)
				continue
			}
			require.NotEmpty(t, open, "it waits for nothing")
			if rapid.IntRange(0, 20).Draw(t, "restart") == 0 {
				p.restart()
			}
			i := rapid.IntRange(0, len(open)-1).Draw(t, "trial")
			if rapid.IntRange(0, 3).Draw(t, "fails") == 0 {
				p.end(open[i], trial.Failed)
			} else {
				p.succeed(open[i], rapid.Float64Range(0, 1).Draw(t, "value"))
			}
			open = append(open[:i:i], open[i+1:]...)
		}
		p.restart()
	})
}

func TestHyperbandsArgumentsAreChecked(t *testing.T) {
	refuses(t, tuners.Spec{Name: "Hyperband", Arguments: json.RawMessage(`{"R": 0, "eta": 1, "exec_mode": "both"}`)},
		"argument R of tuner Hyperband is 0: want an integer from 1 to 1000000\n"+
			"argument eta of tuner Hyperband is 1: want an integer from 2 to 1000000\n"+
			`argument exec_mode of tuner Hyperband is "both": want "parallelism" or "serial"`)
	refuses(t, tuners.Spec{Name: "Hyperband", Space: json.RawMessage(`{"TRIAL_BUDGET": {"_type": "uniform", "_value": [0, 1]}}`)},
		"search space /TRIAL_BUDGET is the name of a key that Hyperband adds itself: want another name")
}
