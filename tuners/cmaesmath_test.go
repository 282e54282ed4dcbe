package tuners

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/perennial-ml/perennial/searchspace"
)

func distributionOver(t *testing.T, space string) *distribution {
	parsed, err := searchspace.Parse([]byte(space))
	require.NoError(t, err)
	return newDistribution(newCube(parsed), 12, 0.3, nil)
}

const smoothSpace = `{"x": {"_type": "uniform", "_value": [0, 1]}, "y": {"_type": "uniform", "_value": [0, 1]},
	"c": {"_type": "choice", "_value": ["a", "b", "c", "d"]}, "n": {"_type": "randint", "_value": [0, 11]}}`

// taught has learned from generations in which x + y near 1 was good, and "b".
func taught(t *testing.T, generations int) *distribution {
	d := distributionOver(t, smoothSpace)
	for g := range generations {
		var ranked []observed
		for i := range d.size {
			along := (float64(i)*0.618 + float64(g)*0.37)
			along -= math.Floor(along)
			element := 1.0
			if i >= d.size/2 {
				element = 3
			}
			ranked = append(ranked, observed{trial: g*d.size + i, vector: []float64{along, 1 - along, element, 0.7}})
		}
		d.learn(ranked, 1)
	}
	return d
}

func TestRoundingUndoesStretching(t *testing.T) {
	d := taught(t, 20)
	z := []float64{1, -2, 0.5}
	require.InDeltaSlice(t, z, unrotated(d, d.rounded(d.stretched(z))), 1e-9)
}

// unrotated undoes the axes alone, which both ways have applied once.
func unrotated(d *distribution, z []float64) []float64 {
	out := make([]float64, len(z))
	for j := range out {
		for i := range z {
			out[j] += d.axes.At(i, j) * z[i]
		}
	}
	return out
}

func TestTheDistributionLearnsWhichEdgesGoTogether(t *testing.T) {
	d := taught(t, 40)
	correlation := d.covariance.At(0, 1) / math.Sqrt(d.covariance.At(0, 0)*d.covariance.At(1, 1))
	require.Less(t, correlation, -0.9)
}

func TestSharesGoToWhatWasGoodAndNoneIsLost(t *testing.T) {
	d := taught(t, 40)
	require.InDelta(t, 1, floats.Sum(d.shares[2]), 1e-12)
	require.Greater(t, d.shares[2][1], 0.85)
	for _, share := range d.shares[2] {
		require.GreaterOrEqual(t, share, 0.02)
	}
}

func TestNeighbouringIntegersStayInReach(t *testing.T) {
	d := taught(t, 40)
	d.sigma = 1e-6
	seen := map[float64]int{}
	for n := range 1000 {
		seen[d.cube.snapped(d.draw(searchspace.NewStream(1, n)))[3]]++
	}
	require.Greater(t, len(seen), 1)
}

func TestTheWeightsOfAGenerationAreThoseOfTheTutorial(t *testing.T) {
	weights := selectionWeights(10)
	require.InDeltaSlice(t, []float64{0.4563, 0.2707, 0.1622, 0.0852, 0.0255}, weights, 1e-3)
	require.InDelta(t, 1, floats.Sum(weights), 1e-12)
	require.InDelta(t, 3.167, newRates(weights, 10).effective, 1e-2)
}

func TestASearchThatGainsIsNotAtRestWhateverFailedBefore(t *testing.T) {
	d := distributionOver(t, smoothSpace)
	var gaining, failing rest
	for g := range gaining.window(d) {
		gained := math.Pow(0.5, float64(g))
		if g == 0 {
			gained = math.NaN()
		}
		gaining.note([]observed{{loss: gained}}, d)
		failing.note([]observed{{loss: math.NaN()}}, d)
	}
	require.False(t, gaining.reached(d))
	require.True(t, failing.reached(d), "nothing but failures is rest")
}

func TestManyDimensionsAreLearnedOneByOne(t *testing.T) {
	space := `{`
	for i := range 70 {
		if i > 0 {
			space += ","
		}
		space += `"p` + string(rune('0'+i/10)) + string(rune('0'+i%10)) + `": {"_type": "uniform", "_value": [0, 1]}`
	}
	d := distributionOver(t, space+`}`)
	for g := range 30 {
		var ranked []observed
		for i := range d.size {
			ranked = append(ranked, observed{trial: i, vector: d.draw(searchspace.NewStream(uint64(g), i))})
		}
		d.learn(ranked, 1)
	}
	require.Zero(t, d.covariance.At(3, 9))
	require.False(t, math.IsNaN(d.sigma))
}
