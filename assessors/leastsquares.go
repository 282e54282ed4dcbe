package assessors

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// fitted is a curve's parameters and the sum of the squares of what they miss.
type fitted struct {
	parameters []float64
	squares    float64
}

// Bounds of a fit: steps, and how far a step may be damped.
const (
	mostSteps   = 30
	mostDamping = 1e6
	converged   = 1e-5 // relative gain of a step below which it is the last
)

// fit finds parameters near start with a least sum of squares (Levenberg and
// Marquardt's method, with Marquardt's scaling). It takes a bounded number of steps
// and gives the best it has found.
func fit(at func(float64, []float64) float64, start, xs, ys []float64) fitted {
	best := measured(at, slices.Clone(start), xs, ys)
	damping := 1e-3
	for range mostSteps {
		if math.IsInf(best.squares, 1) || best.squares == 0 {
			return best
		}
		matrix, slope := normal(at, best.parameters, xs, ys)
		next, raised := downhill(at, best, matrix, slope, damping, xs, ys)
		if next.squares >= best.squares {
			return best
		}
		gain := best.squares - next.squares
		best, damping = next, raised/10
		if gain < converged*best.squares {
			return best
		}
	}
	return best
}

// downhill raises the damping until a step is down, or it is so high that none is.
func downhill(at func(float64, []float64) float64, from fitted, matrix *mat.SymDense, slope *mat.VecDense,
	damping float64, xs, ys []float64) (fitted, float64) {
	for ; damping < mostDamping; damping *= 10 {
		parameters, ok := step(from.parameters, matrix, slope, damping)
		if !ok {
			continue
		}
		if next := measured(at, parameters, xs, ys); next.squares < from.squares {
			return next, damping
		}
	}
	return from, damping
}

// measured is infinite where the curve has no value.
func measured(at func(float64, []float64) float64, parameters, xs, ys []float64) fitted {
	squares := 0.0
	for i, x := range xs {
		miss := at(x, parameters) - ys[i]
		squares += miss * miss
	}
	if math.IsNaN(squares) {
		squares = math.Inf(1)
	}
	return fitted{parameters, squares}
}

// normal is the normal equations' matrix and right side, from forward differences.
func normal(at func(float64, []float64) float64, parameters, xs, ys []float64) (*mat.SymDense, *mat.VecDense) {
	size := len(parameters)
	matrix, slope := mat.NewSymDense(size, nil), mat.NewVecDense(size, nil)
	row := make([]float64, size)
	for i, x := range xs {
		value := at(x, parameters)
		differences(at, x, value, parameters, row)
		for a := range size {
			slope.SetVec(a, slope.AtVec(a)+row[a]*(ys[i]-value))
			for b := a; b < size; b++ {
				matrix.SetSym(a, b, matrix.At(a, b)+row[a]*row[b])
			}
		}
	}
	return matrix, slope
}

func differences(at func(float64, []float64) float64, x, value float64, parameters, row []float64) {
	for a, parameter := range parameters {
		width := 1e-7 * max(math.Abs(parameter), 1e-3)
		parameters[a] = parameter + width
		row[a] = (at(x, parameters) - value) / width
		parameters[a] = parameter
		if math.IsNaN(row[a]) || math.IsInf(row[a], 0) {
			row[a] = 0
		}
	}
}

// step solves the damped equations; false where they have no solution.
func step(from []float64, matrix *mat.SymDense, slope *mat.VecDense, damping float64) ([]float64, bool) {
	size := len(from)
	damped := mat.NewSymDense(size, nil)
	damped.CopySym(matrix)
	for a := range size {
		damped.SetSym(a, a, matrix.At(a, a)*(1+damping)+1e-12)
	}
	var cholesky mat.Cholesky
	var move mat.VecDense
	if !cholesky.Factorize(damped) || cholesky.SolveVecTo(&move, slope) != nil {
		return nil, false
	}
	to := slices.Clone(from)
	for a := range to {
		to[a] += move.AtVec(a)
	}
	return to, true
}
