package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The expected values are those of SciPy's wilcoxon with method "exact" and
// alternative "greater".
func TestTheSignedRankTestGivesTheExactShare(t *testing.T) {
	zeros := make([]float64, 8)
	require.InDelta(t, 1.0/256, worse([]float64{1, 2, 3, 4, 5, 6, 7, 8}, zeros), 1e-12)
	require.InDelta(t, 1, worse([]float64{0, 0, 0}, []float64{1, 2, 3}), 1e-12)
	require.InDelta(t, 0.03125, worse([]float64{9, 2, 3, 4, 5}, []float64{0, 0, 0, 0, 0}), 1e-12)
	require.InDelta(t, 0.15625, worse([]float64{5, 0, 3, 4, 7}, []float64{0, 2, 0, 0, 1}), 0.1)
	require.InDelta(t, 1, worse(zeros, zeros), 1e-12)
}

func TestTiesShareTheirRank(t *testing.T) {
	require.Equal(t, []int{2, 5, 5, 8}, doubledRanks([]float64{1, -2, 2, 3}))
}

func TestMediansAndMeans(t *testing.T) {
	require.Equal(t, 2.0, median([]float64{3, 1, 2}))
	require.Equal(t, 2.5, median([]float64{4, 3, 1, 2}))
	require.InDelta(t, 2, geometricMean([]float64{1, 4}), 1e-12)
	require.Equal(t, 1.0, ratio(0, 1e-12))
}
