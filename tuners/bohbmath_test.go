package tuners

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/searchspace"
)

func TestBandwidthsAreThoseOfTheNormalReferenceRule(t *testing.T) {
	c := distributionOver(t, smoothSpace).cube
	x, word := newAxis(&c.edges[0]), newAxis(&c.edges[2])
	xs := []float64{0.1, 0.3, 0.5, 0.7}
	deviation := math.Sqrt((0.3*0.3 + 0.1*0.1) / 2)
	require.InDelta(t, 1.06*math.Pow(4, -1.0/6)*deviation, referenceWidth(&x, xs, 2, 1e-3), 1e-12)
	require.InDelta(t, 1e-3, referenceWidth(&x, []float64{0.5, 0.5}, 2, 1e-3), 1e-12, "not zero where all are alike")
	require.InDelta(t, 1.06*math.Pow(4, -1.0/6)*0.5, referenceWidth(&word, []float64{1, 1, 3, 3}, 2, 1e-3), 1e-12)
}

func TestTheLikeliestIsWhereTheGoodAre(t *testing.T) {
	c := distributionOver(t, smoothSpace).cube
	o := &bohbOptions{candidates: 64, widening: 3, leastBandwidth: 1e-3}
	var good, bad [][]float64
	for n := range 60 {
		vector := c.draw(searchspace.NewStream(1, n))
		if n%3 == 0 {
			good = append(good, []float64{0.2 + vector[0]/10, vector[1], 1, vector[3]})
		} else {
			bad = append(bad, vector)
		}
	}
	for n := range 20 {
		x := newDensities(c, good, bad, o).likeliest(searchspace.NewStream(2, n), o.candidates)
		require.InDelta(t, 0.25, x[0], 0.2)
		require.Equal(t, 1.0, x[2])
	}
}

func TestAModelIsBuiltFromTheLargestBudgetThatIsKnownWell(t *testing.T) {
	tuner, err := NewBOHB(Spec{Space: []byte(smoothSpace)})
	require.NoError(t, err)
	b := tuner.(*BOHB)
	add := func(budget, count int) {
		for n := range count {
			b.keptAt(budget).add(observed{trial: n, vector: b.cube.draw(searchspace.NewStream(1, n)), loss: float64(n)})
		}
	}
	add(1, 9)
	require.Nil(t, b.model(), "five good ones and five others are wanted for four parameters")
	add(1, 1)
	require.Len(t, b.model().good.kernels, 5)
	add(3, 100)
	require.Len(t, b.model().good.kernels, 15)
	add(9, 9)
	require.Len(t, b.model().good.kernels, 15)
	add(9, 1)
	require.Len(t, b.model().good.kernels, 5)
}
