package tuners

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/perennial-ml/perennial/searchspace"
)

// axis is one edge of the cube as densities see it: categories 0, 1, …, or an
// ordered coordinate that is cut off at low and high.
type axis struct {
	edge       *edge
	categories int // of an unordered edge, else 0
	low, high  float64
	step       float64 // between the ranks of randint and of choices of numbers, else 0
}

func newAxis(e *edge) axis {
	switch {
	case e.unordered:
		return axis{edge: e, categories: e.dimension.Size}
	case e.dimension.Size > 0:
		step := 1 / float64(max(e.dimension.Size-1, 1))
		return axis{edge: e, low: -step / 2, high: 1 + step/2, step: step}
	}
	return axis{edge: e, high: 1}
}

// discrete tells whether the axis is ordered and only certain values are emitted.
func (a *axis) discrete() bool {
	return a.categories == 0 && a.edge.stepped()
}

// cell is the part of a discrete axis where the same value is emitted as at x.
func (a *axis) cell(x float64) (low, high float64) {
	if a.step > 0 {
		rank := math.Round(x / a.step)
		return (rank - .5) * a.step, (rank + .5) * a.step
	}
	d := a.edge.dimension
	low, high = d.Cell(a.edge.coordinate(x))
	return d.Share(low), d.Share(high)
}

// parzen is a Parzen window density over some axes: a weighted sum of kernels, each
// a product of truncated normals (their masses in a cell, on discrete axes) and of
// distributions over categories. Vectors have one entry for each axis, as a cube has
// them.
//
// Source: Bergstra et al., "Algorithms for Hyper-Parameter Optimization", NeurIPS
// 2011; multivariate as in Falkner et al., "BOHB", ICML 2018.
type parzen struct {
	axes    []axis
	kernels []kernel
	summed  []float64 // weights up to and with each kernel
	// The same by axis and kernel, for speed: this is what a suggestion spends its
	// time on.
	columns []kernelAxis
	terms   []float64 // scratch
	masses  map[axisCell][]float64
}

// axisCell is a cell of an axis, by its lower end.
type axisCell struct {
	axis int
	low  float64
}

// kernel is one summand.
type kernel struct {
	centre []float64 // a category, or noCategory for all alike
	width  []float64 // deviation; of categories the share that goes to all alike
	weight float64
	factor float64 // logarithm of the weight and of all that does not depend on x
}

const noCategory = -1

// newParzen builds a density; weights need not add up to one. It keeps kernels.
func newParzen(axes []axis, kernels []kernel) *parzen {
	p := &parzen{axes: axes, kernels: kernels, summed: make([]float64, len(kernels))}
	total := 0.0
	for i := range kernels {
		total += kernels[i].weight
		p.summed[i] = total
	}
	for i := range kernels {
		kernels[i].factor = math.Log(kernels[i].weight/total) + p.logConstant(&kernels[i])
	}
	p.transpose()
	return p
}

// kernelAxis is all kernels on one axis.
type kernelAxis struct {
	centres  []float64
	inverses []float64 // of the widths; of categories nothing
	// Logarithms that would be taken again and again: of the normal density at the
	// centre; of a category's probability in a kernel that stands on it, and in one
	// that does not.
	peaks, owns, others []float64
}

func (p *parzen) transpose() {
	p.terms, p.masses = make([]float64, len(p.kernels)), map[axisCell][]float64{}
	p.columns = make([]kernelAxis, len(p.axes))
	for i := range p.axes {
		c := &p.columns[i]
		for n := range p.kernels {
			c.add(&p.kernels[n], i, p.axes[i].categories)
		}
	}
}

func (c *kernelAxis) add(k *kernel, i, categories int) {
	c.centres = append(c.centres, k.centre[i])
	if categories > 0 {
		other := k.width[i] / float64(categories)
		c.owns, c.others = append(c.owns, math.Log(1-k.width[i]+other)), append(c.others, math.Log(other))
		return
	}
	c.inverses = append(c.inverses, 1/k.width[i])
	c.peaks = append(c.peaks, -math.Log(k.width[i]*math.Sqrt(2*math.Pi)))
}

func (p *parzen) logConstant(k *kernel) float64 {
	sum := 0.0
	for i := range p.axes {
		a := &p.axes[i]
		if a.categories > 0 {
			continue
		}
		sum -= math.Log(normalMass((a.low-k.centre[i])/k.width[i], (a.high-k.centre[i])/k.width[i]))
		if !a.discrete() {
			sum -= math.Log(k.width[i] * math.Sqrt(2*math.Pi))
		}
	}
	return sum
}

// priorKernel is as wide as the space.
func priorKernel(axes []axis, weight float64) kernel {
	k := kernel{centre: make([]float64, len(axes)), width: make([]float64, len(axes)), weight: weight}
	for i := range axes {
		k.centre[i], k.width[i] = middle, 1
		if axes[i].categories > 0 {
			k.centre[i], k.width[i] = noCategory, 1
		}
	}
	return k
}

// log is the logarithm of the density at x; of discrete axes, of the mass in x's cell.
func (p *parzen) log(x []float64) float64 {
	for n := range p.kernels {
		p.terms[n] = p.kernels[n].factor
	}
	for i := range p.axes {
		p.addAxis(i, x[i])
	}
	return logSum(p.terms)
}

// addAxis adds what axis i contributes at x to each kernel's logarithm.
func (p *parzen) addAxis(i int, x float64) {
	a, c := &p.axes[i], &p.columns[i]
	switch {
	case a.categories > 0:
		c.addCategories(p.terms, x)
	case a.discrete():
		for n, logMass := range p.logMasses(i, x) {
			p.terms[n] += logMass
		}
	default:
		for n, centre := range c.centres {
			z := (x - centre) * c.inverses[n]
			p.terms[n] -= z * z / 2
		}
	}
}

func (c *kernelAxis) addCategories(terms []float64, category float64) {
	for n, centre := range c.centres {
		if centre == category {
			terms[n] += c.owns[n]
		} else {
			terms[n] += c.others[n]
		}
	}
}

// logMasses is, for each kernel, the logarithm of its mass in x's cell of a discrete
// axis. Candidates share cells, so they are kept.
func (p *parzen) logMasses(i int, x float64) []float64 {
	low, high := p.axes[i].cell(x)
	cell := axisCell{i, low}
	masses, known := p.masses[cell]
	if !known {
		masses = p.columns[i].logMasses(low, high)
		p.masses[cell] = masses
	}
	return masses
}

// narrowCell is the width of a cell, in deviations, below which the density at its
// middle stands for all of it: the error is below 1 %.
const narrowCell = 0.5

func (c *kernelAxis) logMasses(low, high float64) []float64 {
	masses := make([]float64, len(c.centres))
	middle, logWidth := (low+high)/2, math.Log(high-low)
	for n, centre := range c.centres {
		if inverse := c.inverses[n]; (high-low)*inverse < narrowCell {
			z := (middle - centre) * inverse
			masses[n] = c.peaks[n] + logWidth - z*z/2
		} else {
			masses[n] = math.Log(normalMass((low-centre)*inverse, (high-centre)*inverse))
		}
	}
	return masses
}

// draw draws a vector.
func (p *parzen) draw(stream *searchspace.Stream) []float64 {
	k := &p.kernels[p.pick(stream.Open())]
	x := make([]float64, len(p.axes))
	for i := range p.axes {
		x[i] = k.draw(&p.axes[i], i, stream)
	}
	return x
}

// pick is the kernel at a share of the summed weights.
func (p *parzen) pick(share float64) int {
	last := len(p.kernels) - 1
	return min(sort.SearchFloat64s(p.summed, share*p.summed[last]), last)
}

func (k *kernel) draw(a *axis, i int, stream *searchspace.Stream) float64 {
	share := stream.Open()
	if a.categories == 0 {
		return drawNormal(k.centre[i], k.width[i], a.low, a.high, share)
	}
	if k.centre[i] != noCategory && share > k.width[i] {
		return k.centre[i]
	}
	return float64(stream.Below(uint64(a.categories)))
}

// drawNormal is the point of a normal distribution, cut off at low and high, below
// which the given share of it lies.
func drawNormal(centre, width, low, high, share float64) float64 {
	below, above := normalShare((low-centre)/width), normalShare((high-centre)/width)
	p := below + float64((above-below)*share)
	x := centre + float64(width*math.Sqrt2*math.Erfinv(float64(2*p)-1))
	return min(max(x, low), high)
}

// normalShare is the share of the standard normal distribution below z.
func normalShare(z float64) float64 {
	return math.Erfc(-z/math.Sqrt2) / 2
}

// normalMass is the share of the standard normal distribution between a and b, never
// zero, so that its logarithm is finite.
func normalMass(a, b float64) float64 {
	if a > 0 {
		a, b = -b, -a // the lower tail keeps its digits
	}
	return max(normalShare(b)-normalShare(a), math.SmallestNonzeroFloat64)
}

// negligible is how far below the greatest a term has no digit left in a sum.
const negligible = 45

// logSum is the logarithm of the sum of exp(term).
func logSum(terms []float64) float64 {
	most := slices.Max(terms)
	sum := 0.0
	for _, term := range terms {
		if term > most-negligible {
			sum += math.Exp(term - most)
		}
	}
	return most + math.Log(sum)
}

// neighbourWidths are the kernel widths of Bergstra et al.: the distance to the
// farther of the two neighbours on the axis. The ends are no neighbours, unless
// there is one centre only. Widths are kept between least and the whole range.
func neighbourWidths(centres []float64, least float64) []float64 {
	order := make([]int, len(centres))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(centres[a], centres[b]) })
	widths := make([]float64, len(centres))
	for n, i := range order {
		width := 0.0
		if n > 0 {
			width = centres[i] - centres[order[n-1]]
		}
		if n < len(order)-1 {
			width = max(width, centres[order[n+1]]-centres[i])
		}
		if len(order) == 1 {
			width = max(centres[i], 1-centres[i])
		}
		widths[i] = min(max(width, least), 1)
	}
	return widths
}
