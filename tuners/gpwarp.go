package tuners

import (
	"math"
	"slices"
)

// warped makes losses fit for a Gaussian process and keeps their order: the worse
// half is squeezed to the spread of the better half (as in Vizier, Song et al.
// 2024), then all get the power transform of Yeo and Johnson (2000) that makes
// them most normal, mean 0 and deviation 1. Losses are finite; there is at least one.
func warped(losses []float64) []float64 {
	z := standardised(squeezed(scaledDown(losses)))
	best, most := 1.0, math.Inf(-1)
	for lambda := -1.0; lambda <= 2; lambda += 0.25 {
		if fit := normality(z, lambda); fit > most {
			best, most = lambda, fit
		}
	}
	return standardised(each(z, func(x float64) float64 { return yeoJohnson(x, best) }))
}

func each(xs []float64, f func(float64) float64) []float64 {
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = f(x)
	}
	return out
}

// scaledDown divides by the greatest size, so that nothing overflows.
func scaledDown(xs []float64) []float64 {
	greatest := math.SmallestNonzeroFloat64
	for _, x := range xs {
		greatest = max(greatest, math.Abs(x))
	}
	return each(xs, func(x float64) float64 { return x / greatest })
}

func standardised(xs []float64) []float64 {
	n := float64(len(xs))
	mean, squares := 0.0, 0.0
	for _, x := range xs {
		mean += x / n
	}
	for _, x := range xs {
		squares += (x - mean) * (x - mean) / n
	}
	deviation := math.Sqrt(squares)
	if deviation < 1e-15 {
		return make([]float64, len(xs))
	}
	return each(xs, func(x float64) float64 { return (x - mean) / deviation })
}

// squeezed puts losses far above the median nearer to it, by a logarithm.
func squeezed(xs []float64) []float64 {
	sorted := slices.Sorted(slices.Values(xs))
	median := sorted[len(sorted)/2]
	spread := median - sorted[0]
	if spread <= 0 {
		return xs
	}
	return each(xs, func(x float64) float64 {
		if x <= median {
			return x
		}
		return median + spread*math.Log1p(min((x-median)/spread, math.MaxFloat64))
	})
}

// yeoJohnson is the transform of Yeo and Johnson.
func yeoJohnson(x, lambda float64) float64 {
	switch {
	case x >= 0 && lambda == 0:
		return math.Log1p(x)
	case x >= 0:
		return (math.Pow(1+x, lambda) - 1) / lambda
	case lambda == 2:
		return -math.Log1p(-x)
	}
	return -(math.Pow(1-x, 2-lambda) - 1) / (2 - lambda)
}

// normality is the logarithm of the likelihood of a normal distribution after the
// transform.
func normality(xs []float64, lambda float64) float64 {
	n := float64(len(xs))
	mean, squares, jacobian := 0.0, 0.0, 0.0
	for _, x := range xs {
		mean += yeoJohnson(x, lambda) / n
		jacobian += math.Copysign(math.Log1p(math.Abs(x)), x)
	}
	for _, x := range xs {
		squares += (yeoJohnson(x, lambda) - mean) * (yeoJohnson(x, lambda) - mean) / n
	}
	return -n/2*math.Log(max(squares, leastVariance)) + (lambda-1)*jacobian
}
