package tuners

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/searchspace"
)

// onALine is trials spread over one parameter, the best first.
func onALine(count int, loss func(x, luck float64) float64) []observed {
	stream := searchspace.NewStream(1, 1)
	trials := make([]observed, count)
	for n := range trials {
		x, luck := stream.Open(), 2*stream.Open()-1
		trials[n] = observed{trial: n, vector: []float64{x}, loss: loss(x, luck)}
	}
	return byLoss(trials)
}

func TestTPEFollowsResultsThatNeighboursConfirm(t *testing.T) {
	ranked := onALine(200, func(x, _ float64) float64 { return math.Abs(x - .3) })
	require.Equal(t, ranked, steadied(ranked, []int{0}))
}

func TestTPEFollowsFewResultsAsTheyAre(t *testing.T) {
	ranked := onALine(leastJudged-1, func(_, luck float64) float64 { return luck })
	require.Equal(t, ranked, steadied(ranked, []int{0}))
}

// The tenth that TPE takes for good lies nearer to the minimum than results say.
func TestTPEAsksTheNeighboursWhereResultsHaveNoise(t *testing.T) {
	ranked := onALine(200, func(x, luck float64) float64 { return square(x-.3) + luck/2 })
	off := func(trials []observed) (sum float64) {
		for _, o := range trials[:20] {
			sum += math.Abs(o.vector[0] - .3)
		}
		return sum
	}
	again := steadied(ranked, []int{0})
	require.Less(t, off(again), off(ranked)*.7)
	require.ElementsMatch(t, ranked, again)
}

func square(x float64) float64 { return x * x }

func TestTPECountsNoiseFromNoneToAll(t *testing.T) {
	require.Zero(t, noise([]float64{1, 2, 3, 4}))
	require.Equal(t, 1.0, noise([]float64{4, 3, 2, 1}))
	require.Equal(t, 1.0, noise([]float64{2, 2, 2, 2}), "neighbours that are all alike say nothing")
}
