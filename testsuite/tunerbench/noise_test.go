package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNoiseIsTheSameForAllAndOfTheSizeThatIsAskedFor(t *testing.T) {
	job := Job{Function: "Branin01", AtOnce: 1, Trials: 2000, Noise: 0.5}
	require.Equal(t, job.noise(), job.noise())
	squares := 0.0
	for _, noise := range job.noise() {
		squares += square(noise) / 2000
	}
	f, err := functionNamed("Branin01")
	require.NoError(t, err)
	require.InEpsilon(t, square(0.5*f.deviation()), squares, 0.1)
	job.Noise = 0
	require.Equal(t, make([]float64, 2000), job.noise())
}

// Over a range of 4 a straight line has the deviation 4/√12.
func TestTheDeviationIsThatOverTheSpace(t *testing.T) {
	line := onCube("Line", -1, 3, -1, []float64{-1}, func(x []float64) float64 { return x[0] })
	require.InEpsilon(t, 1.1547, line.deviation(), 0.02)
}

func TestWithNoiseTheTrialThatLooksBestIsJudgedByItsTrueValue(t *testing.T) {
	n := &notebook{}
	job := Job{Function: "Branin01", AtOnce: 1, Trials: 4, Noise: 0.2}
	curve, err := job.run(n)
	require.NoError(t, err)
	require.InDelta(t, 28.602-0.398, curve[0], 1e-3, "the curve has no noise")
	require.NotEqual(t, "0 is 28.602", n.log[1], "contenders see it")
	require.InDelta(t, 17.552-0.398, curve[1], 1e-3)
	require.Equal(t, 2.0, looksBest([]float64{1, 2, 3}, []float64{5, -1, 0}))
	require.Equal(t, job.regret(curve[:1], 0), curve[0])
	require.Equal(t, job.regret(curve, 1), curve[3])
}
