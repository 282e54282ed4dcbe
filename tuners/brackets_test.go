package tuners

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The expected sizes and budgets are those that NNI 3.0's Hyperband printed.
func TestBracketsAreThoseOfNNI(t *testing.T) {
	require.Equal(t, []bracket{
		{3, []rung{{27, 2}, {9, 6}, {3, 20}, {1, 60}}},
		{2, []rung{{12, 6}, {4, 20}, {1, 60}}},
		{1, []rung{{6, 20}, {2, 60}}},
		{0, []rung{{4, 60}}},
	}, bracketsOf(1, 60, 3))
	require.Equal(t, []bracket{
		{4, []rung{{81, 1}, {27, 3}, {9, 9}, {3, 27}, {1, 81}}},
		{3, []rung{{34, 3}, {11, 9}, {3, 27}, {1, 81}}},
		{2, []rung{{15, 9}, {5, 27}, {1, 81}}},
		{1, []rung{{8, 27}, {2, 81}}},
		{0, []rung{{5, 81}}},
	}, bracketsOf(1, 81, 3))
}

func TestBracketsOfOneBudgetHaveOneRung(t *testing.T) {
	require.Equal(t, []bracket{{0, []rung{{1, 1}}}}, bracketsOf(1, 1, 2))
	require.Equal(t, []bracket{{0, []rung{{1, 5}}}}, bracketsOf(3, 5, 2))
}

func TestTheLeastBudgetIsNeverBelowTheMinimum(t *testing.T) {
	require.Equal(t, []bracket{{1, []rung{{3, 9}, {1, 27}}}, {0, []rung{{2, 27}}}}, bracketsOf(4, 27, 3))
}
