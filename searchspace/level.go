package searchspace

import "slices"

// TopLevel returns the indices of the dimensions that every point has, in file
// order. The slice is the caller's own.
func (s *Space) TopLevel() []int { return slices.Clone(s.roots) }

// Inside returns the indices of the dimensions that lie directly in a branch of
// dimension i, in file order; none unless i is a nested choice. The slice is the
// caller's own.
func (s *Space) Inside(i, branch int) []int {
	if s.Dimensions[i].branches == nil {
		return nil
	}
	return slices.Clone(s.Dimensions[i].branches[branch].inside)
}
