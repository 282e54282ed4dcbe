package tuners

import "math"

// matern is the Matérn kernel of smoothness 5/2 over the cube, with a length scale
// for each edge (automatic relevance determination; Rasmussen and Williams,
// "Gaussian Processes for Machine Learning", 2006, section 4.2). On unordered edges
// two different elements are one unit apart. Its variance is 1.
type matern struct {
	unordered []bool
	inverse   []float64 // of each length scale
}

// newMatern takes the logarithms of the length scales.
func newMatern(unordered []bool, logScales []float64) matern {
	inverse := make([]float64, len(logScales))
	for i, scale := range logScales {
		inverse[i] = math.Exp(-scale)
	}
	return matern{unordered, inverse}
}

// scaled is a vector in length scales, elements of unordered edges as they are.
func (m matern) scaled(vector []float64) []float64 {
	out := make([]float64, len(vector))
	for i, x := range vector {
		out[i] = x
		if !m.unordered[i] {
			out[i] = x * m.inverse[i]
		}
	}
	return out
}

// unscale turns derivatives by a scaled vector into those by the vector itself.
func (m matern) unscale(slope []float64) {
	for i := range slope {
		slope[i] *= m.inverse[i]
		if m.unordered[i] {
			slope[i] = 0
		}
	}
}

// apart is how far apart two scaled vectors are on one edge, squared.
func (m matern) apart(i int, a, b float64) float64 {
	if !m.unordered[i] {
		return (a - b) * (a - b)
	}
	if a != b {
		return m.inverse[i] * m.inverse[i]
	}
	return 0
}

// distance is the squared distance of two scaled vectors.
func (m matern) distance(a, b []float64) float64 {
	sum := 0.0
	b = b[:len(a)]
	for i, x := range a {
		sum += m.apart(i, x, b[i])
	}
	return sum
}

// sqrt5 is the square root of 5.
const sqrt5 = 2.23606797749979

// radial is the kernel as a function of the squared distance, with its slope.
func radial(squared float64) (k, slope float64) {
	r := sqrt5 * math.Sqrt(squared)
	decay := math.Exp(-r)
	return (1 + r + 5*squared/3) * decay, -(1 + r) * decay * 5 / 6
}
