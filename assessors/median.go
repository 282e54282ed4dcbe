package assessors

import "container/heap"

// median keeps the median of numbers as they come: two heaps that meet in the
// middle, so that a number costs the logarithm of how many there are. Of an even
// count it is the lower of the two middle numbers, or with upperMiddle the upper.
type median struct {
	lower, upper numbers // lower holds the small half, negated: its top is the largest
	upperMiddle  bool
}

func (m *median) size() int { return len(m.lower) + len(m.upper) }

// value is the median of at least one number.
func (m *median) value() float64 {
	if len(m.upper) > len(m.lower) || m.upperMiddle && len(m.upper) == len(m.lower) {
		return m.upper[0]
	}
	return -m.lower[0]
}

func (m *median) add(x float64) {
	heap.Push(&m.lower, -x)
	heap.Push(&m.upper, -heap.Pop(&m.lower).(float64))
	if len(m.upper) > len(m.lower)+1 {
		heap.Push(&m.lower, -heap.Pop(&m.upper).(float64))
	}
}

// numbers is a heap with the least number on top.
type numbers []float64

func (n numbers) Len() int           { return len(n) }
func (n numbers) Less(i, j int) bool { return n[i] < n[j] }
func (n numbers) Swap(i, j int)      { n[i], n[j] = n[j], n[i] }
func (n *numbers) Push(x any)        { *n = append(*n, x.(float64)) }

func (n *numbers) Pop() any {
	last := len(*n) - 1
	x := (*n)[last]
	*n = (*n)[:last]
	return x
}
