package searchspace

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
)

// Locate is the way back from Parameters: the point that a trial's parameters came
// from. Blanks and the order of keys make no difference, and keys that the space
// does not have are passed over. It is false where a key is missing or a value lies
// outside the space, as it may after the space was changed. Of a rounded parameter
// the coordinate is that of the rounded value; of equal elements of a choice the
// first is meant.
func (s *Space) Locate(parameters json.RawMessage) (Point, bool) {
	point := make(Point, len(s.Dimensions))
	return point, s.locateObject(point, s.roots, parameters)
}

func (s *Space) locateObject(point Point, inside []int, raw json.RawMessage) bool {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil {
		return false
	}
	for _, i := range inside {
		value, ok := object[s.Dimensions[i].Name]
		if !ok || !s.locateValue(point, i, value) {
			return false
		}
	}
	return true
}

func (s *Space) locateValue(point Point, i int, raw json.RawMessage) bool {
	d := &s.Dimensions[i]
	if d.branches != nil {
		return s.locateBranch(point, i, raw)
	}
	var ok bool
	point[i], ok = d.Locate(raw)
	return ok
}

// locateBranch takes the first branch of that name in which all parameters lie.
func (s *Space) locateBranch(point Point, i int, raw json.RawMessage) bool {
	var named struct {
		Name json.RawMessage `json:"_name"`
	}
	if json.Unmarshal(raw, &named) != nil {
		return false
	}
	for n, b := range s.Dimensions[i].branches {
		point[i] = float64(n)
		if sameJSON(b.name, named.Name) && s.locateObject(point, b.inside, raw) {
			return true
		}
	}
	return false
}

// Locate is the coordinate of a value as Text writes it, false where the dimension
// does not have it. A nested choice's element is never found.
func (d *Dimension) Locate(value json.RawMessage) (float64, bool) {
	switch d.Kind {
	case Choice:
		return d.locateElement(value)
	case RandInt:
		n, err := strconv.ParseInt(string(value), 10, 64)
		return float64(n - d.first), err == nil && n >= d.first && n-d.first < int64(d.Size)
	}
	x, ok := number(value)
	if !ok {
		return 0, false
	}
	return d.coordinate(x)
}

func (d *Dimension) locateElement(value json.RawMessage) (float64, bool) {
	for i, element := range d.elements {
		if sameJSON(element, value) {
			return float64(i), true
		}
	}
	return 0, false
}

// sameJSON tells whether two values are spelled alike, blanks, the order of keys
// and the escapes in strings aside, which a log may change.
func sameJSON(a, b json.RawMessage) bool {
	return bytes.Equal(a, b) || bytes.Equal(spelling(a), spelling(b))
}

func spelling(raw json.RawMessage) []byte {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return raw
	}
	sorted, err := json.Marshal(value)
	if err != nil {
		return raw
	}
	return sorted
}

// slack is how far, as a share of the range, a value may miss the ends of it, as
// exp(log(x)) does.
const slack = 1e-9

// coordinate undoes Value, which of rounded values gives one of many coordinates.
func (d *Dimension) coordinate(x float64) (float64, bool) {
	if d.Kind.logarithmic() {
		if x <= 0 && (x < 0 || !d.Kind.quantised()) {
			return 0, false
		}
		x = math.Log(max(x, d.Quantum/4)) // what rounds to zero has no logarithm
	}
	if d.Kind.normal() {
		return x, true
	}
	margin := slack * (d.High - d.Low)
	return min(max(x, d.Low), d.High), x >= d.Low-margin && x <= d.High+margin
}

// Cell is the range of coordinates of a quantised dimension that emit the same
// value as coordinate; infinite at the ends of the normal kinds.
func (d *Dimension) Cell(coordinate float64) (low, high float64) {
	x, q := d.Value(coordinate), d.Quantum
	least, most := math.Inf(-1), math.Inf(1)
	step := math.RoundToEven(x / q)
	low, high = (step-.5)*q, (step+.5)*q
	if !d.Kind.normal() {
		least, most = d.Low, d.High
		low, high = d.clippedCell(x, low, high)
	}
	if d.Kind.logarithmic() {
		low, high = math.Log(max(low, 0)), math.Log(high)
	}
	return max(low, least), min(high, most)
}

// clippedCell widens the cell of an end to all that is clipped to it.
func (d *Dimension) clippedCell(x, low, high float64) (float64, float64) {
	if x <= d.clip.low {
		low, high = math.Inf(-1), (math.Floor(x/d.Quantum)+.5)*d.Quantum
	}
	if x >= d.clip.high {
		low, high = (math.Ceil(x/d.Quantum)-.5)*d.Quantum, math.Inf(1)
	}
	return low, high
}
