package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASHAReachesTheTargetInHalfTheTimeOfTrainingEverythingToItsEnd(t *testing.T) {
	const seeds = 20
	whole, err := minutesToTarget(stoppings()[0], 0, seeds)
	require.NoError(t, err)
	for _, s := range stoppings()[1:4] {
		minutes, err := minutesToTarget(s, 0, seeds)
		require.NoError(t, err)
		require.LessOrEqual(t, timeRatio(minutes, whole), 0.5, s.name)
		require.LessOrEqual(t, median(minutes), 0.5*median(whole), s.name)
	}
}

func TestTheSameSeedGivesTheSameSimulation(t *testing.T) {
	for _, s := range stoppings()[:4] {
		first, err := minutesToTarget(s, 7, 1)
		require.NoError(t, err)
		second, err := minutesToTarget(s, 7, 1)
		require.NoError(t, err)
		require.Equal(t, first, second)
	}
}
