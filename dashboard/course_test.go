package dashboard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestACourseOnlyGetsBetterAndEndsWithTheBest(t *testing.T) {
	require.Equal(t, []float64{3, 2, 2, 1}, bestSoFar([]float64{3, 2, 5, 1}, true))
	require.Equal(t, []float64{3, 3, 5, 5}, bestSoFar([]float64{3, 2, 5, 1}, false))
	require.Empty(t, bestSoFar(nil, false))
	many := make([]float64, 12345)
	for i := range many {
		many[i] = float64(i)
	}
	thinned := bestSoFar(many, false)
	require.LessOrEqual(t, len(thinned), courseLength)
	require.Equal(t, 12344.0, thinned[len(thinned)-1])
}
