package tuners_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/perennial-ml/perennial/testsuite/tunertest"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
)

func TestEvolutionKeepsTheTunersPromises(t *testing.T) {
	for _, spec := range []tuners.Spec{
		{Name: "Evolution", Seed: 1, Arguments: json.RawMessage(`{"population_size": 3}`)},
		{Name: "RegularizedEvolution", Seed: 1, Arguments: json.RawMessage(`{"population_size": 3, "sample_size": 2}`)},
	} {
		tunertest.Run(t, tuners.New, tunertest.Options{Spec: spec})
	}
}

func TestEvolutionUsesUpAFiniteSpace(t *testing.T) {
	for _, name := range []string{"Evolution", "RegularizedEvolutionTuner"} {
		tunertest.Run(t, tuners.New, tunertest.Options{
			Spec:   tuners.Spec{Name: name, Seed: 1, Arguments: json.RawMessage(`{"population_size": 99999}`)},
			Finite: tunertest.FiniteSpaces(),
		})
	}
}

const threeNumbers = `{"a": {"_type": "uniform", "_value": [0, 1]}, "b": {"_type": "uniform", "_value": [0, 1]}, "c": {"_type": "uniform", "_value": [0, 1]}}`

// differences counts the parameters in which two trials differ.
func differences(a, b asked) (count int) {
	for key := range a.parameters {
		if a.parameters[key] != b.parameters[key] {
			count++
		}
	}
	return count
}

func TestAChildOfEvolutionDiffersInOneParameterFromTheBetterOfTwo(t *testing.T) {
	p := play(t, "Evolution", `{"population_size": 2}`, threeNumbers)
	first := p.asks(2)
	p.succeed(first[0], 1)
	p.succeed(first[1], 2)
	child := p.ask()
	require.Equal(t, 1, differences(first[1], child))
	p.succeed(child, 1.5)
	p.restart()
	grandchild := p.ask() // the first has left: two are the child and its parent
	require.Equal(t, 1, differences(first[1], grandchild))
	p.succeed(grandchild, 3)
	require.Equal(t, 1, differences(grandchild, p.ask()))
}

// TestEveryRequestToEvolutionIsAnswered keeps more workers busy than the population
// is large: whenever a trial ends, another is asked for, so that no worker is lost.
func TestEveryRequestToEvolutionIsAnswered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := play(t, "Evolution", `{"population_size": 3}`, threeNumbers)
		open := p.asks(3)
		require.Equal(t, tuners.Wait, p.propose().Answer)
		for range 30 {
			i := rapid.IntRange(0, 2).Draw(t, "ended")
			if rapid.Bool().Draw(t, "fails") {
				p.end(open[i], trial.Failed)
			} else {
				p.succeed(open[i], rapid.Float64Range(0, 1).Draw(t, "value"))
			}
			open[i] = p.ask()
			require.Equal(t, tuners.Wait, p.propose().Answer)
		}
		p.restart()
	})
}

func TestInPlaceOfATrialThatFailedEvolutionDrawsANewSet(t *testing.T) {
	p := play(t, "Evolution", `{"population_size": 2, "optimize_mode": "minimize"}`, threeNumbers)
	first := p.asks(2)
	p.succeed(first[0], 1)
	p.end(first[1], trial.Failed)
	fresh := p.ask()
	require.Equal(t, 3, differences(first[0], fresh))
	p.end(fresh, trial.Succeeded) // without a number
	require.Equal(t, 3, differences(first[0], p.ask()))
}

func TestEvolutionTakesAlongWhatFitsANewSpace(t *testing.T) {
	p := play(t, "Evolution", `{"population_size": 2}`, oneNumber)
	for n, x := range []float64{0.2, 0.8} {
		p.asked(n, fmt.Sprintf(`{"x": %v}`, x))
	}
	p.succeed(asked{n: 0}, 9)
	p.setSpace(`{"x": {"_type": "uniform", "_value": [0.5, 1]}, "y": {"_type": "choice", "_value": [1, 2, 3]}}`)
	p.restart()
	p.succeed(asked{n: 1}, 1)
	require.Contains(t, p.ask().parameters, "y", "all are drawn anew")
	p.restart()
}

func TestRegularizedEvolutionForgetsTheOldest(t *testing.T) {
	p := play(t, "RegularizedEvolution", `{"population_size": 2, "sample_size": 20}`, threeNumbers)
	first := p.asks(2)
	require.Equal(t, tuners.Wait, p.propose().Answer)
	p.succeed(first[0], 9)
	child := p.ask()
	require.Equal(t, 1, differences(first[0], child))
	p.succeed(first[1], 1)
	p.succeed(child, 2) // the first, the best of all, is the oldest of three
	require.Equal(t, 1, differences(child, p.ask()))
	p.restart()
}

func TestEvolutionsArgumentsAreChecked(t *testing.T) {
	refuses(t, tuners.Spec{Name: "Evolution", Arguments: json.RawMessage(`{"population_size": 1.5, "sample_size": 3}`)},
		"argument population_size of tuner Evolution is 1.5: want an integer from 1 to 99999\n"+
			`tuner Evolution has no argument "sample_size": it takes optimize_mode, population_size, seed`)
	refuses(t, tuners.Spec{Name: "RegularizedEvolution", Arguments: json.RawMessage(`{"sample_size": 0}`)},
		"argument sample_size of tuner RegularizedEvolution is 0: want an integer from 1 to 9999")
}
