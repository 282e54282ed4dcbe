package tuners

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/searchspace"
)

const fourAxes = `{
	"u": {"_type": "uniform", "_value": [0, 1]},
	"q": {"_type": "quniform", "_value": [0, 1, 0.25]},
	"r": {"_type": "randint", "_value": [0, 4]},
	"c": {"_type": "choice", "_value": ["a", "b", "c"]}}`

// fourKernels is a density over one axis of each sort.
func fourKernels(t *testing.T) *parzen {
	space, err := searchspace.Parse(json.RawMessage(fourAxes))
	require.NoError(t, err)
	c := newCube(space)
	axes := make([]axis, len(c.edges))
	for i := range axes {
		axes[i] = newAxis(&c.edges[i])
	}
	return newParzen(axes, []kernel{
		{centre: []float64{.2, .25, 1. / 3, 2}, width: []float64{.1, .3, .2, .5}, weight: 2},
		{centre: []float64{.9, 1, 1, 0}, width: []float64{.02, .05, .4, .2}, weight: 1},
		priorKernel(axes, 1),
	})
}

func TestAParzenDensityAddsUpToOne(t *testing.T) {
	p := fourKernels(t)
	const steps = 400
	sum := 0.0
	for i := range steps {
		for _, q := range []float64{0, .25, .5, .75, 1} {
			for r := range 4 {
				for category := range 3 {
					x := []float64{(float64(i) + .5) / steps, q, float64(r) / 3, float64(category)}
					sum += math.Exp(p.log(x)) / steps
				}
			}
		}
	}
	require.InDelta(t, 1, sum, 2e-3)
}

func TestDrawsFollowTheirParzenDensity(t *testing.T) {
	p := fourKernels(t)
	stream := searchspace.NewStream(1, 1)
	const draws = 20_000
	below, rank, category := 0, 0, 0
	for range draws {
		x := p.draw(stream)
		if x[0] < .5 {
			below++
		}
		if low, high := p.axes[2].cell(x[2]); low < 1./3 && 1./3 < high {
			rank++
		}
		if x[3] == 2 {
			category++
		}
	}
	require.InDelta(t, share(p, func(x []float64) bool { return x[0] < .5 }), float64(below)/draws, .015)
	require.InDelta(t, share(p, func(x []float64) bool { return x[2] == 1./3 }), float64(rank)/draws, .015)
	require.InDelta(t, share(p, func(x []float64) bool { return x[3] == 2 }), float64(category)/draws, .015)
}

// share adds the density up over where a condition holds.
func share(p *parzen, holds func([]float64) bool) (sum float64) {
	const steps = 100
	for i := range steps {
		for n := range 5 * 4 * 3 {
			x := []float64{(float64(i) + .5) / steps, float64(n%5) / 4, float64(n/5%4) / 3, float64(n / 20)}
			if holds(x) {
				sum += math.Exp(p.log(x)) / steps
			}
		}
	}
	return sum
}

// The widths are those of Optuna 5.0.0 for the same centres, its ends left out.
func TestWidthsReachToTheFartherNeighbour(t *testing.T) {
	near := func(want, got []float64) {
		require.InDeltaSlice(t, want, got, 1e-12)
	}
	near([]float64{.3, .4, .4, .3}, neighbourWidths([]float64{.1, .5, .9, .2}, .3))
	near([]float64{.1, .4, .4, .3}, neighbourWidths([]float64{.1, .5, .9, .2}, .01))
	near([]float64{.7}, neighbourWidths([]float64{.3}, .01))
	near([]float64{.01, .01}, neighbourWidths([]float64{.3, .3}, .01))
}
