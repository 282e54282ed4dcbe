package main

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryFunctionHasItsLeastValueWhereItIsSaidToBe(t *testing.T) {
	for _, f := range Functions() {
		t.Run(f.Name, func(t *testing.T) {
			at, value := descend(&f, f.At)
			require.InDelta(t, f.Minimum, value, 1e-6)
			for i := range at {
				require.InDelta(t, f.At[i], at[i], 1e-2)
			}
		})
	}
}

// Descents from anywhere end no lower.
func TestNoFunctionHasALowerValueThanItsMinimum(t *testing.T) {
	for _, f := range Functions() {
		t.Run(f.Name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			for range 30 {
				x := make([]float64, len(f.Low))
				for i := range x {
					x[i] = f.Low[i] + random.Float64()*(f.High[i]-f.Low[i])
				}
				_, value := descend(&f, x)
				require.GreaterOrEqual(t, value, f.Minimum-1e-6)
			}
		})
	}
}

// descend goes down by a pattern search (Hooke and Jeeves) within the bounds.
func descend(f *Function, from []float64) ([]float64, float64) {
	x := append([]float64{}, from...)
	best := f.Value(x)
	for step := 1e-2; step > 1e-9; step /= 2 {
		for improved := true; improved; {
			improved = false
			for i := range x {
				for _, way := range []float64{-1, 1} {
					before := x[i]
					x[i] = math.Min(math.Max(before+way*step*(f.High[i]-f.Low[i]), f.Low[i]), f.High[i])
					if value := f.Value(x); value < best {
						best, improved = value, true
					} else {
						x[i] = before
					}
				}
			}
		}
	}
	return x, best
}

func TestRegretIsReadFromParametersWithinTheBoundsOnly(t *testing.T) {
	f := Functions()[0]
	regret, err := f.Regret([]byte(`{"x1": 2.275, "x0": 3.141592653589793}`))
	require.NoError(t, err)
	require.InDelta(t, 0, regret, 1e-12)
	_, err = f.Regret([]byte(`{"x1": 2.275, "x0": 11}`))
	require.EqualError(t, err, `parameters {"x1": 2.275, "x0": 11} of Branin01: want x0 in [-5, 10]`)
	_, err = f.Regret([]byte(`{"x1": 2.275}`))
	require.Error(t, err)
}
