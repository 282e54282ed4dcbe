// Package searchspace reads, checks, samples and enumerates search spaces as NNI
// defines them: a JSON object of name → {"_type", "_value"}, choices nested to any
// depth. Key order and the bytes of what the user wrote are kept.
package searchspace

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
)

// Kind is how one parameter is distributed, by NNI's names.
type Kind string

// The kinds of parameters. A leading q means: rounded to a multiple of the third
// number; log means: distributed so in the logarithm.
const (
	Choice      Kind = "choice"      // one element of a list
	RandInt     Kind = "randint"     // an integer of [low, high), both ends rounded up first
	Uniform     Kind = "uniform"     // [low, high]
	QUniform    Kind = "quniform"    // [low, high, q]
	LogUniform  Kind = "loguniform"  // [low, high], low > 0
	QLogUniform Kind = "qloguniform" // [low, high, q], low > 0
	Normal      Kind = "normal"      // [mean, deviation]
	QNormal     Kind = "qnormal"     // [mean, deviation, q]
	LogNormal   Kind = "lognormal"   // [mean, deviation] of the logarithm
	QLogNormal  Kind = "qlognormal"  // [mean, deviation, q] of the logarithm
)

// Kinds lists every kind, in the order documentation shows them.
func Kinds() []Kind {
	return []Kind{Choice, RandInt, Uniform, QUniform, LogUniform, QLogUniform,
		Normal, QNormal, LogNormal, QLogNormal}
}

func (k Kind) categorical() bool { return k == Choice || k == RandInt }
func (k Kind) quantised() bool   { return k != "" && k[0] == 'q' }
func (k Kind) logarithmic() bool { return strings.Contains(string(k), "log") }
func (k Kind) normal() bool      { return strings.HasSuffix(string(k), "normal") }

// Space is a valid search space: its parameters flattened into dimensions, in file
// order, those inside a nested choice right after it. It never changes.
type Space struct {
	Dimensions []Dimension
	Warnings   Faults // what is accepted, but may not mean what its author thinks
	roots      []int  // indices of the dimensions at the top level
}

// Dimension is one parameter of a space. Its coordinates are indices from 0 for
// choice and randint, logarithms for the log kinds, else the values themselves,
// before any rounding. A range of one value, such as uniform [2, 2], is a choice
// with one element.
type Dimension struct {
	Name            string
	Kind            Kind
	Size            int     // choice and randint: how many categories, else 0
	Low, High       float64 // uniform kinds: range of the coordinate
	Mean, Deviation float64 // normal kinds: of the coordinate
	Quantum         float64 // q kinds: the step, else 0

	clip     bounds            // quantised uniform kinds: the ends as written
	first    int64             // randint: the least value
	elements []json.RawMessage // choice: as in the file
	branches []branch          // nested choice: one for each element
	parent   int               // index of the choice it is nested in, or topLevel
	branch   int               // the element of that choice it lies in
	ranged   bool              // was written as a range of one value, of a kind that is not quantised
}

const topLevel = -1

type bounds struct{ low, high float64 }

// branch is one element of a nested choice.
type branch struct {
	name   json.RawMessage // the value of "_name", as in the file
	inside []int           // indices of the dimensions directly in it
}

// Point is one place in a space: a coordinate for each dimension. Coordinates of
// dimensions in branches not taken mean nothing.
type Point []float64

// Active tells whether dimension i counts at a point, which is so unless it lies in
// a branch of a nested choice that the point does not take. Only coordinates
// before i are looked at.
func (s *Space) Active(i int, point Point) bool {
	d := &s.Dimensions[i]
	if d.parent == topLevel {
		return true
	}
	return point[d.parent] == float64(d.branch) && s.Active(d.parent, point)
}

// NeverRepeats tells whether NNI regards two draws from this space as never equal:
// some parameter at the top level is continuous and not quantised.
func (s *Space) NeverRepeats() bool {
	for _, root := range s.roots {
		d := &s.Dimensions[root]
		if d.ranged || !d.Kind.categorical() && !d.Kind.quantised() {
			return true
		}
	}
	return false
}

// Parameters is a point as the JSON object a trial gets, keys in file order:
// {"lr":0.1,"net":{"_name":"A","depth":3}}.
func (s *Space) Parameters(point Point) json.RawMessage {
	var out bytes.Buffer
	s.writeObject(&out, s.roots, point, nil)
	return out.Bytes()
}

func (s *Space) writeObject(out *bytes.Buffer, inside []int, point Point, name json.RawMessage) {
	out.WriteByte('{')
	if name != nil {
		out.WriteString(`"_name":`)
		out.Write(name)
	}
	for n, i := range inside {
		if n > 0 || name != nil {
			out.WriteByte(',')
		}
		out.Write(quoted(s.Dimensions[i].Name))
		out.WriteByte(':')
		s.writeValue(out, i, point)
	}
	out.WriteByte('}')
}

func (s *Space) writeValue(out *bytes.Buffer, i int, point Point) {
	d := &s.Dimensions[i]
	if d.branches == nil {
		out.Write(d.Text(point[i]))
		return
	}
	taken := d.branches[int(point[i])]
	s.writeObject(out, taken.inside, point, taken.name)
}

// quoted is a string as JSON, without the HTML escapes of json.Marshal.
func quoted(text string) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.Encode(text) // a string never fails
	return bytes.TrimRight(out.Bytes(), "\n")
}

// finite keeps what overflowed representable in JSON.
func finite(x float64) float64 {
	return math.Max(-math.MaxFloat64, math.Min(x, math.MaxFloat64))
}
