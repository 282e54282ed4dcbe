package searchspace

import "math"

// Emitted is the coordinate of the value that is emitted for a coordinate; it
// differs from the coordinate for the quantised kinds only.
func (d *Dimension) Emitted(coordinate float64) float64 {
	if !d.Kind.quantised() {
		return coordinate
	}
	x, _ := d.coordinate(d.Value(coordinate)) // what Value emits lies inside
	return x
}

// Share undoes Quantile: the share of a continuous dimension's distribution that
// lies below a coordinate.
func (d *Dimension) Share(coordinate float64) float64 {
	if d.Kind.normal() {
		return math.Erfc((d.Mean-coordinate)/(d.Deviation*math.Sqrt2)) / 2
	}
	return (coordinate - d.Low) / (d.High - d.Low)
}
