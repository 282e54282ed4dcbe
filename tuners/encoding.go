package tuners

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/perennial-ml/perennial/searchspace"
)

// cube is a search space as models of real vectors see it: one number for each
// dimension. Continuous and quantised dimensions become the share of their
// distribution below the value (so logarithms and normal distributions are
// straightened out), randint and choices of numbers their rank, from 0 to 1; other
// choices stay unordered and are the index of the element. A dimension in a branch
// not taken is 0.5, or -1 where it is unordered.
type cube struct {
	space *searchspace.Space
	edges []edge
}

// edge is one dimension of the cube.
type edge struct {
	dimension *searchspace.Dimension
	unordered bool
	ranked    []int // choices of numbers: the elements from the least to the greatest
}

// Where a dimension in a branch not taken is put.
const (
	middle      = 0.5
	absent      = -1.0
	shareMargin = 1e-9 // a normal distribution has no value at the shares 0 and 1
)

func newCube(space *searchspace.Space) *cube {
	c := &cube{space: space, edges: make([]edge, len(space.Dimensions))}
	for i := range space.Dimensions {
		c.edges[i] = newEdge(&space.Dimensions[i])
	}
	return c
}

func newEdge(d *searchspace.Dimension) edge {
	e := edge{dimension: d}
	if d.Kind == searchspace.Choice {
		e.ranked = rankedNumbers(d)
		e.unordered = e.ranked == nil
	}
	return e
}

// rankedNumbers sorts the elements of a choice that are all numbers; nil otherwise.
func rankedNumbers(d *searchspace.Dimension) []int {
	values := make([]float64, d.Size)
	order := make([]int, d.Size)
	for i := range order {
		value, err := strconv.ParseFloat(string(d.Text(float64(i))), 64)
		if err != nil || math.IsNaN(value) {
			return nil
		}
		values[i], order[i] = value, i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	return order
}

// stepped tells whether an edge has steps: not every number on it can be emitted.
func (e *edge) stepped() bool {
	return e.dimension.Size > 0 || e.dimension.Quantum > 0
}

// locate is where the emitted value of a coordinate lies on the edge.
func (e *edge) locate(coordinate float64) float64 {
	switch d := e.dimension; {
	case e.unordered:
		return coordinate
	case e.ranked != nil:
		return rankShare(slices.Index(e.ranked, int(coordinate)), d.Size)
	case d.Size > 0:
		return rankShare(int(coordinate), d.Size)
	default:
		return d.Share(d.Emitted(coordinate))
	}
}

func rankShare(rank, size int) float64 {
	if size == 1 {
		return middle
	}
	return float64(rank) / float64(size-1)
}

// coordinate undoes locate; between steps it goes to the nearest.
func (e *edge) coordinate(x float64) float64 {
	d := e.dimension
	if e.unordered {
		return x
	}
	if d.Size == 0 {
		return d.Quantile(min(max(x, e.least()), 1-e.least()))
	}
	rank := math.Round(min(max(x, 0), 1) * float64(d.Size-1))
	if e.ranked != nil {
		return float64(e.ranked[int(rank)])
	}
	return rank
}

// least is the least share that has a value.
func (e *edge) least() float64 {
	if e.dimension.Deviation > 0 {
		return shareMargin
	}
	return 0
}

// vector is a point in the cube.
func (c *cube) vector(point searchspace.Point) []float64 {
	vector := make([]float64, len(c.edges))
	for i := range c.edges {
		vector[i] = c.edges[i].inactive()
		if c.space.Active(i, point) {
			vector[i] = c.edges[i].locate(point[i])
		}
	}
	return vector
}

func (e *edge) inactive() float64 {
	if e.unordered {
		return absent
	}
	return middle
}

// point is what a vector stands for. Of unordered edges in branches not taken
// before and taken now, it is the first element.
func (c *cube) point(vector []float64) searchspace.Point {
	point := make(searchspace.Point, len(c.edges))
	for i := range c.edges {
		if c.space.Active(i, point) {
			point[i] = max(c.edges[i].coordinate(vector[i]), c.edges[i].floor())
		}
	}
	return point
}

// floor is the least coordinate of an edge whose coordinates are indices.
func (e *edge) floor() float64 {
	if e.unordered {
		return 0
	}
	return math.Inf(-1)
}

// snapped is a vector moved to what would be emitted for it.
func (c *cube) snapped(vector []float64) []float64 {
	return c.vector(c.point(vector))
}

// parameters is a vector as a trial gets it.
func (c *cube) parameters(vector []float64) json.RawMessage {
	return c.space.Parameters(c.point(vector))
}

// draw draws a vector from the space's own distribution.
func (c *cube) draw(stream *searchspace.Stream) []float64 {
	return c.vector(c.space.Draw(stream))
}

// moved is a vector from another cube in this one, or false where it does not fit.
func (c *cube) moved(from *cube, vector []float64) ([]float64, bool) {
	point, ok := c.space.Locate(from.parameters(vector))
	if !ok {
		return nil, false
	}
	return c.vector(point), true
}

// spread is element n of a sequence that fills the cube evenly from the start: an
// additive recurrence by powers of the generalised golden ratio (Roberts, "The
// Unreasonable Effectiveness of Quasirandom Sequences", 2018), shifted by the seed.
func (c *cube) spread(seed uint64, n int) []float64 {
	shift := searchspace.NewStream(seed, 0)
	ratio := goldenRatio(len(c.edges))
	step := 1.0
	vector := make([]float64, len(c.edges))
	for i := range vector {
		step /= ratio
		_, share := math.Modf(shift.Open() + float64(n+1)*step)
		vector[i] = c.edges[i].atShare(share)
	}
	return c.snapped(vector)
}

// goldenRatio is the positive root of x^(d+1) = x + 1.
func goldenRatio(d int) float64 {
	x := 1.5
	for range 60 {
		x = math.Pow(1+x, 1/float64(d+1))
	}
	return x
}

// atShare is the place on the edge below which a share of the distribution lies.
func (e *edge) atShare(share float64) float64 {
	size := float64(e.dimension.Size)
	switch {
	case e.unordered:
		return math.Floor(share * size)
	case size > 1:
		return math.Floor(share*size) / (size - 1)
	}
	return share
}
