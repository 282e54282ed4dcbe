package searchspace

import "math"

// Grid walks a space as NNI's GridSearch does, round by round. Categories are there
// from the first round; of a continuous dimension the first round has the median,
// and each further round adds the medians of the cells between the points so far,
// as long as these emit different values. Within a round the last dimension varies
// fastest. A step costs the same however many there were, refinement aside, which
// costs as much as the round it prepares has new points.
type Grid struct {
	space  *Space
	axes   []axis
	vector Point // of the axes' point numbers; 0 for dimensions not active
	inside bool  // within a round: vector is the place of the last step
	over   bool
}

// axis is what a grid knows of one dimension.
type axis struct {
	size   int       // points in this round
	seen   int       // of these, how many were there in earlier rounds
	points []float64 // continuous dimensions: the points, as shares of the distribution
	cells  []bounds  // cells that may hold further values, as shares
}

// NewGrid returns the grid of a space, at its beginning.
func NewGrid(space *Space) *Grid {
	g := &Grid{space: space, axes: make([]axis, len(space.Dimensions)), vector: make(Point, len(space.Dimensions))}
	for i := range space.Dimensions {
		g.axes[i] = firstAxis(&space.Dimensions[i])
	}
	return g
}

func firstAxis(d *Dimension) axis {
	if d.Kind.categorical() {
		return axis{size: d.Size}
	}
	first := axis{size: 1, points: []float64{0.5}}
	for _, half := range []bounds{{0, 0.5}, {0.5, 1}} {
		if d.differ(half.low, half.high) {
			first.cells = append(first.cells, half)
		}
	}
	return first
}

// differ tells whether the value emitted at share q is above that at share p.
func (d *Dimension) differ(p, q float64) bool {
	return d.limit(p) < d.limit(q)
}

// limit is the value emitted at a share; at the open ends it is infinite.
func (d *Dimension) limit(share float64) float64 {
	x := d.Quantile(share)
	if math.IsInf(x, 0) {
		return x
	}
	return d.Value(x)
}

// Next returns the next point, or false when the space is fully explored. Points
// may emit equal parameters where a choice lists an element twice.
func (g *Grid) Next() (Point, bool) {
	for !g.over {
		if g.step() {
			return g.point(), true
		}
		g.refine()
	}
	return nil, false
}

func (g *Grid) point() Point {
	point := make(Point, len(g.axes))
	for i, a := range g.axes {
		point[i] = g.vector[i]
		if a.points != nil {
			point[i] = g.space.Dimensions[i].Quantile(a.points[int(g.vector[i])])
		}
	}
	return point
}

// step goes to the next vector of this round that no earlier round had.
func (g *Grid) step() bool {
	if !g.inside {
		g.inside = true
		clear(g.vector)
		return g.complete(0)
	}
	for i := len(g.axes) - 1; i >= 0; i-- {
		if g.space.Active(i, g.vector) && g.choose(i, int(g.vector[i])+1) {
			return g.complete(i + 1)
		}
		g.vector[i] = 0
	}
	return false
}

// complete gives dimensions from i on the least points that make the vector new.
func (g *Grid) complete(i int) bool {
	for ; i < len(g.axes); i++ {
		g.vector[i] = 0
		if g.space.Active(i, g.vector) && !g.choose(i, 0) {
			return false
		}
	}
	return true
}

// choose gives dimension i the least point from number from on with which the
// vector can still become new.
func (g *Grid) choose(i, from int) bool {
	plain := g.space.Dimensions[i].branches == nil
	if plain && !g.newBefore(i) && !g.grewAfter(i) {
		from = max(from, g.axes[i].seen)
	}
	for ; from < g.axes[i].size; from++ {
		g.vector[i] = float64(from)
		if plain || g.newBefore(i+1) || g.grewAfter(i) {
			return true
		}
	}
	return false
}

// newBefore tells whether some dimension below i stands at a point of this round.
func (g *Grid) newBefore(i int) bool {
	for j := range i {
		if int(g.vector[j]) >= g.axes[j].seen && g.space.Active(j, g.vector) {
			return true
		}
	}
	return false
}

// grewAfter tells whether some dimension above i, within reach of the vector up to
// i, has points of this round.
func (g *Grid) grewAfter(i int) bool {
	for j := i + 1; j < len(g.axes); j++ {
		if g.axes[j].seen < g.axes[j].size && g.reachable(j, i) {
			return true
		}
	}
	return false
}

// reachable tells whether dimension j can be active with the vector fixed up to i.
func (g *Grid) reachable(j, i int) bool {
	d := &g.space.Dimensions[j]
	if d.parent == topLevel {
		return true
	}
	if d.parent <= i && g.vector[d.parent] != float64(d.branch) {
		return false
	}
	return g.reachable(d.parent, i)
}

// refine begins the next round.
func (g *Grid) refine() {
	g.inside, g.over = false, true
	for i := range g.axes {
		a := &g.axes[i]
		a.seen = a.size
		if a.points != nil && g.space.Dimensions[i].refine(a) {
			g.over = false
		}
	}
}

// refine halves the cells of an axis and tells whether that can still lead to new
// values. The ends of a distribution are no points of the grid, so a cell at an end
// is divided even where its other half emits the same.
func (d *Dimension) refine(a *axis) (grew bool) {
	var cells []bounds
	for _, cell := range a.cells {
		middle := (cell.low + cell.high) / 2
		if math.IsInf(d.Quantile(middle), 0) {
			continue
		}
		left, right := d.differ(cell.low, middle), d.differ(middle, cell.high)
		if (left || cell.low == 0) && (right || cell.high == 1) {
			a.points = append(a.points, middle)
			grew = true
		}
		if left {
			cells = append(cells, bounds{cell.low, middle})
			grew = grew || cell.low == 0
		}
		if right {
			cells = append(cells, bounds{middle, cell.high})
			grew = grew || cell.high == 1
		}
	}
	a.cells, a.size = cells, len(a.points)
	return grew
}
