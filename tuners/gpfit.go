package tuners

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"
)

// likelihood is the marginal likelihood of a process's length scales and noise with
// a prior on each, both as logarithms (Rasmussen and Williams, section 5.4.1). The
// prior of the length scales grows with the root of the number of edges, as in
// Hvarfner et al., "Vanilla Bayesian Optimization Performs Great in High Dimensions",
// ICML 2024; of five pairs of centre and spread this did best on four functions of
// docs/tuner-quality.md.
type likelihood struct {
	unordered []bool
	vectors   [][]float64
	values    []float64
	floor     float64 // the least noise
}

// Priors, of natural logarithms.
const (
	scaleCentre = 0.0 // and half the logarithm of the number of edges
	scaleSpread = 1.2
	noiseCentre = -9.0
	noiseSpread = 3.0
)

// farthest bounds the logarithms, beyond which the kernel does not change any more.
const farthest = 28.0

// start is where a search begins: the same length scale for every edge.
func (l *likelihood) start(scale float64) []float64 {
	theta := slices.Repeat([]float64{math.Log(scale)}, len(l.unordered)+1)
	theta[len(l.unordered)] = noiseCentre
	return theta
}

// split reads length scales and noise out of the logarithms.
func (l *likelihood) split(theta []float64) (matern, float64) {
	d := len(l.unordered)
	return newMatern(l.unordered, theta[:d]), l.floor + math.Exp(theta[d])
}

// negative is minus the logarithm of likelihood and prior; slope gets its
// derivatives.
func (l *likelihood) negative(theta, slope []float64) float64 {
	if slices.ContainsFunc(theta, func(x float64) bool { return !(math.Abs(x) < farthest) }) {
		return math.Inf(1)
	}
	kernel, noise := l.split(theta)
	g := condition(kernel, noise, l.vectors, l.values)
	n := float64(len(l.values))
	l.slope(g, theta, slope)
	return n/2*math.Log(g.variance) + g.factor.LogDet()/2 + l.prior(theta, slope)
}

// prior adds its derivatives to slope.
func (l *likelihood) prior(theta, slope []float64) float64 {
	d := len(l.unordered)
	sum := 0.0
	for i, x := range theta {
		centre, spread := scaleCentre+math.Log(float64(d))/2, scaleSpread
		if i == d {
			centre, spread = noiseCentre, noiseSpread
		}
		z := (x - centre) / spread
		sum += z * z / 2
		slope[i] += z / spread
	}
	return sum
}

// slope is the derivative of the likelihood: half the trace of the product of
// (inverse - weights weights' / variance) and the kernel matrix's derivative. That
// of the mean and the variance is zero, as they are at their best.
func (l *likelihood) slope(g *gaussianProcess, theta, slope []float64) {
	clear(slope)
	d := len(l.unordered)
	var inverse mat.SymDense
	if g.factor.InverseTo(&inverse) != nil {
		return // ill-conditioned: the prior alone decides where to go
	}
	n := len(g.vectors)
	for i := range g.vectors {
		row := inverse.RawSymmetric().Data[i*n : (i+1)*n]
		slope[d] += (row[i] - g.weights[i]*g.weights[i]/g.variance) / 2 * math.Exp(theta[d])
		for j := i + 1; j < n; j++ {
			g.addPair(slope, i, j, row[j]-g.weights[i]*g.weights[j]/g.variance)
		}
	}
}

// addPair adds what a pair of vectors contributes, with its weight in the trace.
func (g *gaussianProcess) addPair(slope []float64, i, j int, weight float64) {
	weight *= -2 * g.slopeOf[i][j]
	other := g.vectors[j]
	for e, x := range g.vectors[i] {
		slope[e] += weight * g.kernel.apart(e, x, other[e])
	}
}

// fit finds the most plausible logarithms, going from the better of some starts.
func (l *likelihood) fit() []float64 {
	var best []float64
	least := math.Inf(1)
	for _, scale := range []float64{0.5, 0.2} {
		start := l.start(scale)
		if value := l.negative(start, make([]float64, len(start))); best == nil || value < least {
			best, least = start, value
		}
	}
	best, _ = minimise(l.negative, best, fitEvaluations)
	return best
}

// fitEvaluations is how many evaluations of the likelihood a fit may take.
const fitEvaluations = 20

// minimise goes downhill with at most about so many evaluations of a function and
// its slope (L-BFGS). What it returns is never above the start.
func minimise(function func(x, slope []float64) float64, from []float64, evaluations int) ([]float64, float64) {
	last := evaluated{function: function}
	problem := optimize.Problem{
		Func: func(x []float64) float64 { return last.at(x).value },
		Grad: func(slope, x []float64) { copy(slope, last.at(x).slope) },
	}
	settings := &optimize.Settings{GradEvaluations: evaluations, FuncEvaluations: evaluations, GradientThreshold: 1e-6}
	result, _ := optimize.Minimize(problem, from, settings, &optimize.LBFGS{})
	if result == nil || math.IsNaN(result.F) || slices.ContainsFunc(result.X, math.IsNaN) {
		return from, function(from, make([]float64, len(from)))
	}
	return result.X, result.F
}

// evaluated is a function with its latest value and slope, which are asked for one
// after the other.
type evaluated struct {
	function func(x, slope []float64) float64
	x, slope []float64
	value    float64
}

func (e *evaluated) at(x []float64) *evaluated {
	if !slices.Equal(x, e.x) {
		e.x, e.slope = slices.Clone(x), make([]float64, len(x))
		e.value = e.function(x, e.slope)
	}
	return e
}
