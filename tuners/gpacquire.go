package tuners

import (
	"cmp"
	"math"
	"slices"

	"github.com/perennial-ml/perennial/searchspace"
)

// utility says how promising a loss with this mean and standard deviation is, with
// the derivatives by both; greater is better.
type utility func(mean, deviation float64) (value, byMean, byDeviation float64)

const logRootTau = 0.9189385332046727 // log sqrt(2 pi)

// tailStart is where the expected improvement is taken from its asymptote, in
// standard deviations, because differences lose their digits.
const tailStart = -30.0

// expectedImprovement is the logarithm of the expected improvement over best by
// more than xi (Jones et al. 1998; in logarithms, whose slope does not vanish far
// from the best: Ament et al., NeurIPS 2023).
func expectedImprovement(best, xi float64) utility {
	return func(mean, deviation float64) (value, byMean, byDeviation float64) {
		z := (best - xi - mean) / deviation
		logDensity := -z*z/2 - logRootTau
		share := math.Erfc(-z/math.Sqrt2) / 2
		improvement := math.Exp(logDensity) + z*share // in deviations
		logImprovement := math.Log(improvement)
		slope := share / improvement
		if z < tailStart {
			logImprovement = logDensity - 2*math.Log(-z)
			slope = -z - 2/z
		}
		value = math.Log(deviation) + logImprovement
		return value, -slope / deviation, (1 - z*slope) / deviation
	}
}

// probabilityOfImprovement is the logarithm of the probability that best is
// undercut by more than xi.
func probabilityOfImprovement(best, xi float64) utility {
	return func(mean, deviation float64) (value, byMean, byDeviation float64) {
		z := (best - xi - mean) / deviation
		logDensity := -z*z/2 - logRootTau
		value = math.Log(math.Erfc(-z/math.Sqrt2) / 2)
		if z < tailStart {
			value = logDensity - math.Log(-z)
		}
		slope := math.Exp(logDensity - value)
		return value, -slope / deviation, -z * slope / deviation
	}
}

// lowerBound is the lower confidence bound of the loss, kappa deviations down.
func lowerBound(kappa float64) utility {
	return func(mean, deviation float64) (value, byMean, byDeviation float64) {
		return kappa*deviation - mean, -1, kappa
	}
}

// acquisition looks for the vector of greatest utility.
type acquisition struct {
	cube    *cube
	process *gaussianProcess
	utility utility
	stream  *searchspace.Stream
}

// candidate is a vector with its utility.
type candidate struct {
	vector []float64
	value  float64
}

// How long the search for the best utility is.
const (
	drawnCandidates  = 160 // from the space's own distribution
	movedCandidates  = 20  // around each of the incumbents
	moveRounds       = 3
	movedShare       = 0.3 // of the coordinates
	movedBest        = 12  // how many of the best go on to the next round
	refinedStarts    = 2   // of the best of all, and of the best draws
	refinementBudget = 20  // evaluations of utility and slope from each start
)

// ranked returns candidates, the best first: draws from all over the space, then in
// rounds the neighbourhood of the best so far. The most promising of all, and of the
// draws, which may lie at the foot of a higher hill, are moved uphill along the edges
// without steps.
func (a *acquisition) ranked(incumbents [][]float64) []candidate {
	var found []candidate
	for range drawnCandidates {
		found = append(found, a.rate(a.cube.draw(a.stream)))
	}
	far := slices.Clone(best(found, refinedStarts))
	for _, incumbent := range incumbents {
		for range movedCandidates {
			found = append(found, a.rate(a.near(incumbent, 0.1)))
		}
	}
	for round := range moveRounds {
		found = best(found, movedBest)
		found = append(found, a.moves(found, 0.1*math.Pow(0.3, float64(round)))...)
	}
	return a.refined(best(found, len(found)), far)
}

func best(found []candidate, count int) []candidate {
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(b.value, a.value) })
	return found[:min(count, len(found))]
}

func (a *acquisition) moves(around []candidate, reach float64) []candidate {
	var found []candidate
	for _, c := range around {
		for range 3 {
			found = append(found, a.rate(a.near(c.vector, reach)))
		}
	}
	return found
}

func (a *acquisition) rate(vector []float64) candidate {
	value, _, _ := a.utility(a.process.predict(vector))
	if math.IsNaN(value) {
		value = math.Inf(-1)
	}
	return candidate{vector, value}
}

// near is a vector about a third of whose coordinates, at least one, are moved by
// about reach, or by a step where there are steps.
func (a *acquisition) near(vector []float64, reach float64) []float64 {
	moved := slices.Clone(vector)
	surely := int(a.stream.Below(uint64(len(moved))))
	for i := range moved {
		if i == surely || a.stream.Open() < movedShare {
			moved[i] = a.cube.edges[i].near(moved[i], reach, a.stream)
		}
	}
	return a.cube.snapped(moved)
}

func (e *edge) near(x, reach float64, stream *searchspace.Stream) float64 {
	if e.unordered {
		return float64(stream.Below(uint64(e.dimension.Size)))
	}
	step := math.Erfinv(2*stream.Open()-1) * math.Sqrt2
	if e.dimension.Size > 1 {
		reach = max(reach, 1/float64(e.dimension.Size-1))
	}
	return min(max(x+step*reach, 0), 1)
}

// refined moves the first candidates uphill, and some others too.
func (a *acquisition) refined(found, others []candidate) []candidate {
	if !slices.ContainsFunc(a.cube.edges, func(e edge) bool { return !e.stepped() }) {
		return found
	}
	for _, c := range slices.Concat(found[:min(refinedStarts, len(found))], others) {
		angles, _ := minimise(a.downhill(c.vector), a.angles(c.vector), refinementBudget)
		found = append(found, a.rate(a.cube.snapped(a.atAngles(c.vector, angles))))
	}
	return best(found, len(found))
}

// angles says where on the smooth edges a vector is: the cube is folded from an
// unbounded space, x = (1 - cos angle) / 2, so that nothing is outside.
func (a *acquisition) angles(vector []float64) []float64 {
	var angles []float64
	for i, x := range vector {
		if a.smooth(i) {
			angles = append(angles, math.Acos(1-2*min(max(x, 1e-4), 1-1e-4)))
		}
	}
	return angles
}

func (a *acquisition) smooth(i int) bool {
	return !a.cube.edges[i].stepped()
}

func (a *acquisition) atAngles(vector, angles []float64) []float64 {
	at := slices.Clone(vector)
	next := 0
	for i := range at {
		if a.smooth(i) {
			at[i] = (1 - math.Cos(angles[next])) / 2
			next++
		}
	}
	return at
}

// downhill is minus the utility as a function of the angles.
func (a *acquisition) downhill(vector []float64) func(angles, slope []float64) float64 {
	return func(angles, slope []float64) float64 {
		at := a.atAngles(vector, angles)
		mean, deviation, meanSlope, deviationSlope := a.process.slopes(at)
		value, byMean, byDeviation := a.utility(mean, deviation)
		next := 0
		for i := range at {
			if a.smooth(i) {
				slope[next] = -(byMean*meanSlope[i] + byDeviation*deviationSlope[i]) * math.Sin(angles[next]) / 2
				next++
			}
		}
		return -value
	}
}
