package tuners

import (
	"math"

	"github.com/perennial-ml/perennial/searchspace"
)

// densities are the two of a budget's results. Candidates are drawn from a wider one
// of the good.
type densities struct {
	good, wide, bad *parzen
}

// leastLog is below what a density is taken for nothing.
const leastLog = -73.0

func newDensities(c *cube, good, bad [][]float64, o *bohbOptions) *densities {
	axes := make([]axis, len(c.edges))
	for i := range axes {
		axes[i] = newAxis(&c.edges[i])
	}
	return &densities{
		good: newParzen(axes, c.normalKernels(axes, good, 1, o.leastBandwidth)),
		wide: newParzen(axes, c.normalKernels(axes, good, o.widening, o.leastBandwidth)),
		bad:  newParzen(axes, c.normalKernels(axes, bad, 1, o.leastBandwidth)),
	}
}

// likeliest is the candidate with the highest ratio of the densities.
func (d *densities) likeliest(stream *searchspace.Stream, candidates int) []float64 {
	var best []float64
	most := math.Inf(-1)
	for range candidates {
		x := d.wide.draw(stream)
		if ratio := max(d.good.log(x), leastLog) - max(d.bad.log(x), leastLog); best == nil || ratio > most {
			best, most = x, ratio
		}
	}
	return best
}

// normalKernels puts a kernel on each vector, with the bandwidths of the normal
// reference rule (as statsmodels has it, which NNI uses), those of ordered axes
// widened.
func (c *cube) normalKernels(axes []axis, vectors [][]float64, widening, least float64) []kernel {
	widths := make([]float64, len(axes))
	for i := range axes {
		widths[i] = referenceWidth(&axes[i], column(vectors, i), len(axes), least)
		if axes[i].categories == 0 {
			widths[i] *= widening
		}
	}
	kernels := make([]kernel, len(vectors))
	for n, vector := range vectors {
		kernels[n] = c.kernelOn(axes, vector, widths)
	}
	return kernels
}

// kernelOn is the kernel on a vector; edges in branches not taken are spread over
// the whole axis.
func (c *cube) kernelOn(axes []axis, vector, widths []float64) kernel {
	k := priorKernel(axes, 1)
	point := c.point(vector)
	for i := range axes {
		if c.space.Active(i, point) {
			k.centre[i], k.width[i] = vector[i], widths[i]
		}
	}
	return k
}

func column(vectors [][]float64, i int) []float64 {
	xs := make([]float64, len(vectors))
	for n, vector := range vectors {
		xs[n] = vector[i]
	}
	return xs
}

// referenceWidth is 1.06 n^(-1/(4+d)) times the deviation; of categories, times the
// share of pairs that differ, and at most 1.
func referenceWidth(a *axis, xs []float64, dimensions int, least float64) float64 {
	factor := 1.06 * math.Pow(float64(len(xs)), -1/float64(4+dimensions))
	if a.categories > 0 {
		return min(max(factor*differing(xs), least), 1)
	}
	mean, squares := 0.0, 0.0
	for _, x := range xs {
		mean += x / float64(len(xs))
	}
	for _, x := range xs {
		squares += (x - mean) * (x - mean) / float64(len(xs))
	}
	return max(factor*math.Sqrt(squares), least)
}

// differing is the share of pairs of different categories.
func differing(xs []float64) float64 {
	counts := map[float64]int{}
	for _, x := range xs {
		counts[x]++
	}
	pairs := len(xs) * len(xs)
	for _, count := range counts {
		pairs -= count * count
	}
	return float64(pairs) / float64(len(xs)*len(xs))
}
