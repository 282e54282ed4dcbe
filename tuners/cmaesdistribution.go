package tuners

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/perennial-ml/perennial/searchspace"
)

// distribution is what CMAES draws from: a normal distribution over the ordered edges
// of the cube, and shares of the elements of each unordered one. The names are those
// of Hansen's tutorial; above fullDimensions the covariance matrix is kept diagonal
// (Ros and Hansen, "A Simple Modification in CMA-ES", 2008).
type distribution struct {
	cube       *cube
	smooth     []int // the ordered edges
	size       int   // of a generation
	weights    []float64
	mean       []float64 // of the ordered edges
	sigma      float64
	covariance *mat.SymDense
	axes       *mat.Dense // the covariance matrix's eigenvectors,
	lengths    []float64  // and the roots of its eigenvalues
	sigmaPath  []float64
	path       []float64
	learned    int // generations
	shares     map[int][]float64
	rates      rates
}

// fullDimensions is up to how many ordered edges covariances are learned.
const fullDimensions = 60

// rates are the constants of the tutorial's table 1.
type rates struct {
	effective    float64 // variance-effective selection mass
	sigmaPath    float64
	sigmaDamping float64
	path         float64
	rankOne      float64
	rankMany     float64
	length       float64 // of a normally distributed vector
	share        float64 // of unordered edges
}

func newDistribution(c *cube, size int, sigma float64, around []float64) *distribution {
	d := &distribution{cube: c, size: size, sigma: sigma, shares: map[int][]float64{}}
	for i := range c.edges {
		if c.edges[i].unordered {
			d.shares[i] = evenShares(c.edges[i].dimension.Size)
			continue
		}
		d.smooth = append(d.smooth, i)
		d.mean = append(d.mean, middle)
		if around != nil {
			d.mean[len(d.mean)-1] = around[i]
		}
	}
	d.weights = selectionWeights(size)
	d.rates = newRates(d.weights, len(d.smooth))
	d.sigmaPath, d.path = make([]float64, len(d.mean)), make([]float64, len(d.mean))
	d.forgetShape()
	return d
}

func evenShares(size int) []float64 {
	shares := make([]float64, size)
	for i := range shares {
		shares[i] = 1 / float64(size)
	}
	return shares
}

// selectionWeights are those of the better half of a generation.
func selectionWeights(size int) []float64 {
	weights := make([]float64, size/2)
	sum := 0.0
	for i := range weights {
		weights[i] = math.Log(float64(size+1)/2) - math.Log(float64(i+1))
		sum += weights[i]
	}
	return each(weights, func(w float64) float64 { return w / sum })
}

func newRates(weights []float64, dimensions int) rates {
	n := float64(max(dimensions, 1))
	r := rates{effective: 1 / dot(weights, weights)}
	m := r.effective
	r.sigmaPath = (m + 2) / (n + m + 5)
	r.sigmaDamping = 1 + 2*max(0, math.Sqrt((m-1)/(n+1))-1) + r.sigmaPath
	r.path = (4 + m/n) / (n + 4 + 2*m/n)
	r.rankOne = 2 / ((n+1.3)*(n+1.3) + m)
	r.rankMany = min(1-r.rankOne, 2*(m-2+1/m)/((n+2)*(n+2)+m))
	if dimensions > fullDimensions {
		r.rankOne *= (n + 2) / 3
		r.rankMany = min(1-r.rankOne, r.rankMany*(n+2)/3)
	}
	r.length = math.Sqrt(n) * (1 - 1/(4*n) + 1/(21*n*n))
	r.share = 0.25
	return r
}

// forgetShape makes the normal distribution round again.
func (d *distribution) forgetShape() {
	n := len(d.mean)
	if n == 0 {
		return
	}
	d.covariance, d.axes, d.lengths = mat.NewSymDense(n, nil), mat.NewDense(n, n, nil), make([]float64, n)
	for i := range n {
		d.covariance.SetSym(i, i, 1)
		d.axes.Set(i, i, 1)
		d.lengths[i] = 1
	}
}

// draw draws a vector of the cube. What falls outside is drawn again a few times and
// then moved to the end.
func (d *distribution) draw(stream *searchspace.Stream) []float64 {
	vector := make([]float64, len(d.cube.edges))
	for i := range vector {
		if shares, ok := d.shares[i]; ok {
			vector[i] = float64(pickShare(shares, stream.Open()))
		}
	}
	const attempts = 10
	inside := false
	for attempt := 0; attempt < attempts && !inside; attempt++ {
		inside = d.drawSmooth(vector, stream)
	}
	return vector
}

func pickShare(shares []float64, at float64) int {
	for i, share := range shares {
		at -= share
		if at < 0 {
			return i
		}
	}
	return len(shares) - 1
}

// drawSmooth draws the ordered edges and tells whether the draw lies inside.
func (d *distribution) drawSmooth(vector []float64, stream *searchspace.Stream) bool {
	inside := true
	steps := d.stretched(normals(len(d.mean), stream))
	for n, i := range d.smooth {
		x := d.mean[n] + d.sigma*steps[n]
		x += d.margin(n) * normal(stream)
		vector[i] = min(max(x, 0), 1)
		inside = inside && vector[i] == x
	}
	return inside
}

// margin is a standard deviation in addition on edges with steps, so that the
// neighbouring steps are always in reach (in the spirit of Hamano et al., "CMA-ES
// with Margin", GECCO 2022).
func (d *distribution) margin(n int) float64 {
	least := d.cube.edges[d.smooth[n]].step() / 3
	own := d.sigma * math.Sqrt(d.covariance.At(n, n))
	return math.Sqrt(max(0, least*least-own*own))
}

// step is about how far apart the steps of an edge are, 0 where there are none.
func (e *edge) step() float64 {
	switch d := e.dimension; {
	case d.Size > 1:
		return 1 / float64(d.Size-1)
	case d.Quantum > 0:
		low, high := d.Cell(d.Quantile(middle))
		return min(d.Share(high)-d.Share(low), 1)
	}
	return 0
}

func normals(n int, stream *searchspace.Stream) []float64 {
	z := make([]float64, n)
	for i := range z {
		z[i] = normal(stream)
	}
	return z
}

// normal draws from the standard normal distribution.
func normal(stream *searchspace.Stream) float64 {
	return math.Sqrt2 * math.Erfinv(2*stream.Open()-1)
}

// stretched gives round steps the distribution's shape.
func (d *distribution) stretched(z []float64) []float64 {
	y := make([]float64, len(z))
	for i := range y {
		for j := range z {
			y[i] += d.axes.At(i, j) * d.lengths[j] * z[j]
		}
	}
	return y
}

// rounded undoes the shape: it is a step times the inverse root of the covariance matrix.
func (d *distribution) rounded(y []float64) []float64 {
	n := len(y)
	out := make([]float64, n)
	for j := range n {
		along := 0.0
		for i := range n {
			along += d.axes.At(i, j) * y[i]
		}
		for i := range n {
			out[i] += d.axes.At(i, j) * along / d.lengths[j]
		}
	}
	return out
}

// learn moves the distribution to the better half of a generation, which is sorted.
func (d *distribution) learn(ranked []observed, seed uint64) {
	d.learned++
	d.learnShares(ranked)
	if len(d.mean) == 0 {
		return
	}
	steps := make([][]float64, len(d.weights))
	for i := range steps {
		steps[i] = d.step(ranked[i], seed)
	}
	d.move(steps)
	d.reshape(steps)
}

// step is the step from the mean to a trial, in sigmas. Edges in branches not taken
// count as drawn at random. Long steps, as those of trials drawn from an earlier
// distribution or rounded may be, are shortened (Hansen, "Injecting External
// Solutions into CMA-ES", 2011).
func (d *distribution) step(o observed, seed uint64) []float64 {
	point := d.cube.point(o.vector)
	stream := searchspace.NewStream(seed, o.trial)
	step := make([]float64, len(d.mean))
	for n, i := range d.smooth {
		chance := normal(stream) * math.Sqrt(d.covariance.At(n, n))
		step[n] = (o.vector[i] - d.mean[n]) / d.sigma
		if !d.cube.space.Active(i, point) {
			step[n] = chance
		}
	}
	z := d.rounded(step)
	limit := d.rates.length + 2*math.Sqrt(float64(len(z)))/float64(len(z)+2)
	if length := math.Sqrt(dot(z, z)); length > limit {
		return each(step, func(x float64) float64 { return x * limit / length })
	}
	return step
}

// move moves the mean, and sigma by how long the way of late was.
func (d *distribution) move(steps [][]float64) {
	r := &d.rates
	average := make([]float64, len(d.mean))
	for i, step := range steps {
		for n := range average {
			average[n] += d.weights[i] * step[n]
		}
	}
	z := d.rounded(average)
	for n := range d.mean {
		d.mean[n] = min(max(d.mean[n]+d.sigma*average[n], 0), 1)
		d.sigmaPath[n] = (1-r.sigmaPath)*d.sigmaPath[n] + math.Sqrt(r.sigmaPath*(2-r.sigmaPath)*r.effective)*z[n]
	}
	length := math.Sqrt(dot(d.sigmaPath, d.sigmaPath))
	steady := d.steady(length)
	for n := range d.path {
		d.path[n] = (1-r.path)*d.path[n] + steady*math.Sqrt(r.path*(2-r.path)*r.effective)*average[n]
	}
	d.sigma *= math.Exp(min(1, r.sigmaPath/r.sigmaDamping*(length/r.length-1)))
	d.sigma = min(d.sigma, 1)
}

// steady is 0 while sigma grows fast, which the path shall not follow, else 1.
func (d *distribution) steady(length float64) float64 {
	expected := math.Sqrt(1 - math.Pow(1-d.rates.sigmaPath, 2*float64(d.learned)))
	if length/expected < (1.4+2/float64(len(d.mean)+1))*d.rates.length {
		return 1
	}
	return 0
}

// reshape learns the covariance matrix from the path and the steps.
func (d *distribution) reshape(steps [][]float64) {
	n := len(d.mean)
	for i := range n {
		last := n
		if n > fullDimensions {
			last = i + 1
		}
		for j := i; j < last; j++ {
			d.covariance.SetSym(i, j, d.reshaped(steps, i, j))
		}
	}
	d.decompose()
}

func (d *distribution) reshaped(steps [][]float64, i, j int) float64 {
	r := &d.rates
	many := 0.0
	for k, step := range steps {
		many += d.weights[k] * step[i] * step[j]
	}
	return (1-r.rankOne-r.rankMany)*d.covariance.At(i, j) + r.rankOne*d.path[i]*d.path[j] + r.rankMany*many
}

// decompose finds axes and lengths of the covariance matrix.
func (d *distribution) decompose() {
	n := len(d.mean)
	if n > fullDimensions {
		for i := range n {
			d.lengths[i] = math.Sqrt(d.covariance.At(i, i))
		}
		return
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(d.covariance, true) || eigen.Values(nil)[0] <= 0 {
		d.forgetShape()
		return
	}
	eigen.VectorsTo(d.axes)
	for i, value := range eigen.Values(nil) {
		d.lengths[i] = math.Sqrt(value)
	}
}

// leastShare is what all elements of an unordered edge together always keep.
const leastShare = 0.1

// learnShares moves the shares of elements to those among the better half. Trials
// that did not take an edge's branch leave its shares as they are.
func (d *distribution) learnShares(ranked []observed) {
	for edge, shares := range d.shares {
		seen, mass := make([]float64, len(shares)), 0.0
		for i, weight := range d.weights {
			element := ranked[i].vector[edge]
			if element == absent {
				continue
			}
			seen[int(element)] += weight
			mass += weight
		}
		moveShares(shares, seen, mass, d.rates.share)
	}
}

func moveShares(shares, seen []float64, mass, rate float64) {
	for k := range shares {
		shares[k] += rate * (seen[k] - mass*shares[k])
	}
	keepLeast(shares)
}

// keepLeast lifts small shares, at the cost of all others.
func keepLeast(shares []float64) {
	least := leastShare / float64(len(shares))
	sum := 0.0
	for k := range shares {
		shares[k] = max(shares[k], least)
		sum += shares[k]
	}
	for k := range shares {
		shares[k] /= sum
	}
}
