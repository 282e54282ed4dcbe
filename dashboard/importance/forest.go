package importance

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// table is what trees grow on: parameters in columns, and a target for each row.
type table struct {
	columns [][]float64
	named   []bool // by column: its numbers are names, without an order
	target  []float64
}

// node is a leaf, or asks about a column: rows whose value is at most the bound go left, of
// names those that are the bound.
type node struct {
	column      int // -1: a leaf
	bound       float64
	mean        float64
	left, right *node
}

const leastLeaf = 3 // rows

// tree grows on some rows, and looks at some of the columns at each fork.
func (t *table) tree(rows []int, random *rand.Rand) *node {
	leaf := &node{column: -1, mean: t.mean(rows)}
	if len(rows) < 2*leastLeaf {
		return leaf
	}
	best := cut{gain: 1e-12}
	for _, column := range random.Perm(len(t.columns))[:(2*len(t.columns)+2)/3] {
		best = t.cutBy(column, rows, best)
	}
	if best.left == 0 {
		return leaf
	}
	left, right := t.part(rows, best)
	leaf.column, leaf.bound = best.column, best.bound
	leaf.left, leaf.right = t.tree(left, random), t.tree(right, random)
	return leaf
}

// cut is a fork, and how much less the squared error is with it.
type cut struct {
	column, left int
	bound, gain  float64
}

// cutBy is the best fork by a column, if that is better than the best so far.
func (t *table) cutBy(column int, rows []int, best cut) cut {
	if t.named[column] {
		return t.cutByName(column, rows, best)
	}
	values := t.columns[column]
	sorted := slices.Clone(rows)
	slices.SortFunc(sorted, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	all, left := t.sum(rows), 0.0
	for i, row := range sorted[:len(sorted)-1] {
		left += t.target[row]
		next := values[sorted[i+1]]
		if values[row] != next {
			best = better(best, cut{column: column, left: i + 1, bound: between(values[row], next)}, left, all, len(rows))
		}
	}
	return best
}

func between(low, high float64) float64 {
	if middle := low + (high-low)/2; middle < high && !math.IsInf(low, 0) {
		return middle
	}
	return low
}

func (t *table) cutByName(column int, rows []int, best cut) cut {
	sums, counts := map[float64]float64{}, map[float64]int{}
	for _, row := range rows {
		sums[t.columns[column][row]] += t.target[row]
		counts[t.columns[column][row]]++
	}
	all := t.sum(rows)
	for name := range len(rows) { // names are numbered from 0: their order is always the same
		if count := counts[float64(name)]; count > 0 && count < len(rows) {
			best = better(best, cut{column: column, left: count, bound: float64(name)}, sums[float64(name)], all, len(rows))
		}
	}
	return best
}

// better is a fork if it takes more of the squared error away than the best so far.
func better(best, this cut, left, all float64, count int) cut {
	right := count - this.left
	if this.left < leastLeaf || right < leastLeaf {
		return best
	}
	this.gain = left*left/float64(this.left) + (all-left)*(all-left)/float64(right) - all*all/float64(count)
	if this.gain > best.gain {
		return this
	}
	return best
}

func (t *table) part(rows []int, by cut) (left, right []int) {
	for _, row := range rows {
		if t.goesLeft(by.column, by.bound, t.columns[by.column][row]) {
			left = append(left, row)
		} else {
			right = append(right, row)
		}
	}
	return left, right
}

func (t *table) goesLeft(column int, bound, value float64) bool {
	return t.named[column] && value == bound || !t.named[column] && value <= bound
}

// guess is what a tree says of a row in which one column has the value of another row.
func (t *table) guess(n *node, row, changed, donor int) float64 {
	for n.column >= 0 {
		from := row
		if n.column == changed {
			from = donor
		}
		if t.goesLeft(n.column, n.bound, t.columns[n.column][from]) {
			n = n.left
		} else {
			n = n.right
		}
	}
	return n.mean
}

func (t *table) sum(rows []int) (sum float64) {
	for _, row := range rows {
		sum += t.target[row]
	}
	return sum
}

func (t *table) mean(rows []int) float64 { return t.sum(rows) / float64(max(len(rows), 1)) }
