package tuners_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/tunertest"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
)

func TestAnnealKeepsTheTunersPromises(t *testing.T) {
	for _, arguments := range []string{`{"optimize_mode": "maximize"}`, `{"parallel_optimize": true, "constant_liar_type": "mean"}`} {
		tunertest.Run(t, tuners.New, tunertest.Options{
			Spec:   tuners.Spec{Name: "Anneal", Seed: 1, Arguments: json.RawMessage(arguments)},
			Finite: tunertest.FiniteSpaces(),
		})
	}
}

// recordedAnneal is what testdata/anneal.py wrote.
type recordedAnneal struct {
	History []struct {
		Parameters map[string]float64
		Loss       float64
	}
	Deciles map[string][]float64
	Shares  map[string]map[string]float64
}

func readRecordedAnneal(t *testing.T) recordedAnneal {
	raw, err := os.ReadFile("testdata/anneal.json")
	require.NoError(t, err)
	var recorded recordedAnneal
	require.NoError(t, json.Unmarshal(raw, &recorded))
	require.Len(t, recorded.History, 12)
	return recorded
}

// TestAnnealDrawsWhereHyperoptsDoes compares distributions: 20000 draws after the
// same history. A share of 20000 draws has a standard deviation below 0.0036, and
// two such are compared.
func TestAnnealDrawsWhereHyperoptsDoes(t *testing.T) {
	recorded := readRecordedAnneal(t)
	p := play(t, "Anneal", "", `{"u": {"_type": "uniform", "_value": [-1, 3]}, "l": {"_type": "loguniform", "_value": [0.001, 1]},
		"n": {"_type": "normal", "_value": [1, 2]}, "q": {"_type": "quniform", "_value": [0, 10, 1]}, "r": {"_type": "randint", "_value": [0, 5]}}`)
	for n, trial := range recorded.History {
		v := trial.Parameters
		p.asked(n, fmt.Sprintf(`{"u": %v, "l": %v, "n": %v, "q": %v, "r": %v}`, v["u"], v["l"], v["n"], v["q"], v["r"]))
		p.succeed(asked{n: n}, trial.Loss)
	}
	drawn := drawMany(t, p, 20_000)
	for key, deciles := range recorded.Deciles {
		slices.Sort(drawn[key])
		for i, decile := range deciles {
			below, _ := slices.BinarySearch(drawn[key], decile)
			require.InDelta(t, float64(i+1)/10, float64(below)/20_000, 0.02, "%s, decile %d", key, i+1)
		}
	}
	for key, shares := range recorded.Shares {
		for category, share := range shares {
			require.InDelta(t, share, shareOf(drawn[key], category), 0.02, "%s is %s", key, category)
		}
	}
}

func (p *player) asked(n int, parameters string) {
	p.apply(trial.KindAsked, n, trial.Asked{Parameters: trial.Parameters(parameters), Source: trial.SourceAlgorithm})
	p.next = n + 1
}

func drawMany(t *testing.T, p *player, draws int) map[string][]float64 {
	drawn := map[string][]float64{}
	for n := range draws {
		proposal, err := p.tuner.Propose(100 + n)
		require.NoError(t, err)
		var parameters map[string]float64
		require.NoError(t, json.Unmarshal(proposal.Parameters, &parameters))
		for key, value := range parameters {
			drawn[key] = append(drawn[key], value)
		}
	}
	return drawn
}

func shareOf(values []float64, category string) float64 {
	want, _ := strconv.ParseFloat(category, 64)
	count := 0
	for _, value := range values {
		if value == want {
			count++
		}
	}
	return float64(count) / float64(len(values))
}

func TestAnnealGoesAwayFromRunningTrialsWhenToldThatTheyAreBad(t *testing.T) {
	nearOne := func(arguments string) float64 {
		p := play(t, "Anneal", arguments, oneNumber)
		for n := range 30 {
			p.asked(n, fmt.Sprintf(`{"x": %v}`, float64(n)/60))
			p.succeed(asked{n: n}, float64(n))
		}
		for n := 30; n < 60; n++ {
			p.asked(n, `{"x": 0.9}`)
		}
		count := 0
		for _, x := range drawMany(t, p, 1000)["x"] {
			if x > 0.8 {
				count++
			}
		}
		return float64(count) / 1000
	}
	require.Less(t, nearOne(""), 0.05)
	require.Less(t, nearOne(`{"parallel_optimize": true, "constant_liar_type": "max"}`), 0.05)
	require.Greater(t, nearOne(`{"parallel_optimize": true, "constant_liar_type": "min"}`), 0.3, "the least is the best here")
}

func TestAnnealTakesAlongWhatFitsANewSpace(t *testing.T) {
	p := play(t, "Anneal", "", oneNumber)
	for n := range 40 {
		p.asked(n, fmt.Sprintf(`{"x": %v}`, float64(n)/40))
		p.succeed(asked{n: n}, float64(n))
	}
	p.setSpace(`{"x": {"_type": "uniform", "_value": [0.25, 2]}}`)
	below := 0
	for _, x := range drawMany(t, p, 1000)["x"] {
		if x < 0.75 {
			below++
		}
	}
	require.Greater(t, below, 900, "the best of those that fit is at 0.25")
	p.restart()
}

func TestAnnealsArgumentsAreChecked(t *testing.T) {
	refuses(t, tuners.Spec{Name: "anneal", Arguments: json.RawMessage(`{"parallel_optimize": 1, "constant_liar_type": "best", "optimize_mode": null}`)},
		`argument constant_liar_type of tuner Anneal is "best": want "min" or "max" or "mean"`+"\n"+
			`argument optimize_mode of tuner Anneal is null: want "maximize" or "minimize"`+"\n"+
			"argument parallel_optimize of tuner Anneal is 1: want true or false")
}
