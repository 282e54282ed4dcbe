package tuners

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
)

// gaussianProcess is a Gaussian process with a constant mean, given values at some
// vectors (Rasmussen and Williams, chapter 2 and section 2.7). Mean and variance of
// the process are those of greatest likelihood.
type gaussianProcess struct {
	kernel   matern
	noise    float64      // variance of the noise, as a share of the process's own
	vectors  [][]float64  // in length scales
	factor   mat.Cholesky // of the kernel matrix with the noise
	upper    blas64.Triangular
	mean     float64
	variance float64
	weights  []float64   // inverse kernel matrix times values less mean
	slopeOf  [][]float64 // slopes of the kernel between its own vectors, of the later one of each pair
}

const leastVariance = 1e-12

// worstCondition is the condition number of a kernel matrix from which too few
// digits are left.
const worstCondition = 1e11

// condition builds a process. Where rounding would spoil the kernel matrix's inverse,
// it takes more noise, which is then in the result.
func condition(kernel matern, noise float64, vectors [][]float64, values []float64) *gaussianProcess {
	g := &gaussianProcess{kernel: kernel, noise: noise, vectors: make([][]float64, len(vectors))}
	for i, vector := range vectors {
		g.vectors[i] = kernel.scaled(vector)
	}
	covariance := g.covariance()
	for !g.factor.Factorize(covariance) || g.factor.Cond() > worstCondition {
		g.noise *= 10
		for i := range vectors {
			covariance.SetSym(i, i, 1+g.noise)
		}
	}
	g.upper = g.factor.RawU().(*mat.TriDense).RawTriangular()
	g.fitMean(values)
	return g
}

func (g *gaussianProcess) covariance() *mat.SymDense {
	n := len(g.vectors)
	covariance := mat.NewSymDense(n, nil)
	raw := covariance.RawSymmetric().Data
	g.slopeOf = make([][]float64, n)
	for i := range n {
		row, slopes := raw[i*n:(i+1)*n], make([]float64, n)
		row[i] = 1 + g.noise
		for j := i + 1; j < n; j++ {
			row[j], slopes[j] = radial(g.kernel.distance(g.vectors[i], g.vectors[j]))
		}
		g.slopeOf[i] = slopes
	}
	return covariance
}

// fitMean finds mean and variance of greatest likelihood, and the weights.
func (g *gaussianProcess) fitMean(values []float64) {
	ones := slices.Repeat([]float64{1}, len(values))
	g.weights = g.solve(values)
	inverse := g.solve(ones)
	g.mean = dot(ones, g.weights) / dot(ones, inverse)
	for i := range g.weights {
		g.weights[i] -= g.mean * inverse[i]
	}
	sum := 0.0
	for i, value := range values {
		sum += (value - g.mean) * g.weights[i]
	}
	g.variance = max(sum/float64(len(values)), leastVariance)
}

// solve is the inverse of the kernel matrix times a vector.
func (g *gaussianProcess) solve(b []float64) []float64 {
	x := slices.Clone(b)
	vector := blas64.Vector{N: len(x), Inc: 1, Data: x}
	blas64.Trsv(blas.Trans, g.upper, vector)
	blas64.Trsv(blas.NoTrans, g.upper, vector)
	return x
}

func dot(a, b []float64) float64 {
	return blas64.Dot(blas64.Vector{N: len(a), Inc: 1, Data: a}, blas64.Vector{N: len(b), Inc: 1, Data: b})
}

// predict is mean and standard deviation at a vector, without the noise.
func (g *gaussianProcess) predict(at []float64) (mean, deviation float64) {
	k, _ := g.covariances(at)
	mean = g.mean + dot(k, g.weights)
	blas64.Trsv(blas.Trans, g.upper, blas64.Vector{N: len(k), Inc: 1, Data: k})
	return mean, g.deviation(dot(k, k))
}

// covariances are the kernel between a vector and the process's own, and its slopes
// by the squared distance.
func (g *gaussianProcess) covariances(at []float64) (k, slopes []float64) {
	k, slopes = make([]float64, len(g.vectors)), make([]float64, len(g.vectors))
	scaled := g.kernel.scaled(at)
	for i, vector := range g.vectors {
		k[i], slopes[i] = radial(g.kernel.distance(scaled, vector))
	}
	return k, slopes
}

func (g *gaussianProcess) deviation(explained float64) float64 {
	return math.Sqrt(g.variance * max(1-explained, leastVariance))
}

// slopes is predict with the derivatives along the edges; those along unordered
// edges are zero.
func (g *gaussianProcess) slopes(at []float64) (mean, deviation float64, meanSlope, deviationSlope []float64) {
	k, radialSlopes := g.covariances(at)
	mean = g.mean + dot(k, g.weights)
	solved := g.solve(k)
	deviation = g.deviation(dot(k, solved))
	meanSlope, deviationSlope = make([]float64, len(at)), make([]float64, len(at))
	scaled := g.kernel.scaled(at)
	for i, vector := range g.vectors {
		toMean := 2 * radialSlopes[i] * g.weights[i]
		toDeviation := -2 * radialSlopes[i] * solved[i] * g.variance / deviation
		for d, x := range scaled {
			meanSlope[d] += toMean * (x - vector[d])
			deviationSlope[d] += toDeviation * (x - vector[d])
		}
	}
	g.kernel.unscale(meanSlope)
	g.kernel.unscale(deviationSlope)
	return mean, deviation, meanSlope, deviationSlope
}

// atVectors is the mean at the process's own vectors.
func (g *gaussianProcess) atVectors(values []float64) []float64 {
	means := make([]float64, len(values))
	for i, value := range values {
		means[i] = value - g.noise*g.weights[i]
	}
	return means
}
