package searchspace

import (
	"encoding/json"
	"math"
	"strconv"
)

// Value is the number a continuous dimension emits for a coordinate: the
// logarithm undone, rounded to a multiple of q with halves to even, then clipped.
func (d *Dimension) Value(coordinate float64) float64 {
	x := coordinate
	if d.Kind.logarithmic() {
		x = math.Exp(x)
	}
	if d.Kind.quantised() {
		// Adding zero turns a negative zero into the zero Python prints.
		x = math.RoundToEven(x/d.Quantum)*d.Quantum + 0
	}
	if d.Kind.quantised() && !d.Kind.normal() {
		x = math.Min(math.Max(x, d.clip.low), d.clip.high)
	}
	return finite(x)
}

// fix makes a range of one value the choice of that value.
func (d *Dimension) fix(value float64) {
	*d = Dimension{Name: d.Name, parent: d.parent, branch: d.branch, ranged: !d.Kind.quantised(),
		Kind: Choice, Size: 1, elements: []json.RawMessage{json.RawMessage(FormatFloat(value))}}
}

// Text is what a coordinate means to the trial, as JSON: an element of a choice
// byte for byte as in the file, integers for randint, else a number as Python
// spells a float. A nested choice's element is given whole.
func (d *Dimension) Text(coordinate float64) json.RawMessage {
	switch d.Kind {
	case Choice:
		return d.elements[int(coordinate)]
	case RandInt:
		return strconv.AppendInt(nil, d.first+int64(coordinate), 10)
	}
	return json.RawMessage(FormatFloat(d.Value(coordinate)))
}

// Quantile is the coordinate of a continuous dimension below which a share p of
// its distribution lies; infinite for normal kinds at 0 and 1.
func (d *Dimension) Quantile(p float64) float64 {
	// The conversions keep compilers from fusing product and sum, which rounds
	// differently on other processors.
	if d.Kind.normal() {
		return d.Mean + float64(d.Deviation*math.Sqrt2*math.Erfinv(float64(2*p)-1))
	}
	return d.Low + float64((d.High-d.Low)*p)
}

// Draw draws a coordinate.
func (d *Dimension) Draw(stream *Stream) float64 {
	if d.Kind.categorical() {
		return float64(stream.Below(uint64(d.Size)))
	}
	return d.Quantile(stream.Open())
}

// Draw draws a point; dimensions in branches not taken use up no random numbers.
func (s *Space) Draw(stream *Stream) Point {
	point := make(Point, len(s.Dimensions))
	for i := range s.Dimensions {
		if s.Active(i, point) {
			point[i] = s.Dimensions[i].Draw(stream)
		}
	}
	return point
}
