package searchspace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
)

// Parse reads a search space from JSON. The error, if any, is Faults and holds
// every fault there is.
func Parse(raw json.RawMessage) (*Space, error) {
	p := parser{}
	space := &Space{}
	members := p.root(raw)
	space.roots = p.level("", members, Dimension{parent: topLevel})
	space.Dimensions, space.Warnings = p.dimensions, p.warnings
	if len(p.faults) > 0 {
		return nil, p.faults
	}
	return space, nil
}

// Elements reads the search space of a Batch tuner: one choice, each element of
// which is all that one trial gets, given as in the file. It should be an object;
// like NNI's tuner, Elements does not insist. The error, if any, is Faults.
func Elements(raw json.RawMessage) ([]json.RawMessage, error) {
	p := parser{}
	var elements []json.RawMessage
	members := p.root(raw)
	if len(members) > 1 {
		p.fault("", fmt.Sprintf("has %d keys", len(members)), "one key of type choice for the Batch tuner")
	}
	for _, m := range members {
		elements = p.batch(below("", m.name), m.value)
	}
	if len(p.faults) > 0 {
		return nil, p.faults
	}
	return elements, nil
}

func (p *parser) batch(path string, raw json.RawMessage) []json.RawMessage {
	kind, elements, ok := p.definition(path, raw)
	if !ok {
		return nil
	}
	if kind != Choice {
		p.fault(below(path, "_type"), fmt.Sprintf("is %q", kind), "choice for the Batch tuner")
		return nil
	}
	for i, element := range elements {
		if !bytes.HasPrefix(element, []byte("{")) {
			continue
		}
		p.members(below(below(path, "_value"), i), element, "")
	}
	return elements
}

// parser gathers dimensions and faults.
type parser struct {
	dimensions []Dimension
	faults     Faults
	warnings   Faults
}

func (p *parser) fault(path, message, want string) {
	p.faults = append(p.faults, Fault{path, message, want})
}

// warn takes note of a range that has one value. NNI logs an error for it and goes
// on, and people fix a parameter so.
func (p *parser) warn(path, message, want string) {
	p.warnings = append(p.warnings, Fault{path, message, want + "; for a fixed value write a choice with one element"})
}

// member is one key of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

const spaceWanted = `an object such as {"lr": {"_type": "uniform", "_value": [0, 1]}}`

func (p *parser) root(raw json.RawMessage) []member {
	if len(bytes.TrimSpace(raw)) == 0 {
		p.fault("", "is missing", spaceWanted)
		return nil
	}
	if fault, ok := syntaxFault(raw); ok {
		p.faults = append(p.faults, fault)
		return nil
	}
	members := p.members("", raw, spaceWanted)
	if len(p.faults) == 0 && len(members) == 0 {
		p.fault("", "is empty", "at least one parameter")
	}
	return members
}

func syntaxFault(raw json.RawMessage) (Fault, bool) {
	var ignored json.RawMessage
	err := json.Unmarshal(raw, &ignored)
	if err == nil {
		return Fault{}, false
	}
	message := "is not JSON: " + err.Error()
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		read := raw[:min(int(syntax.Offset), len(raw))]
		line := bytes.Count(read, []byte("\n")) + 1
		column := len(read) - bytes.LastIndexByte(read, '\n') - 1
		message = fmt.Sprintf("is not JSON: line %d, column %d: %v", line, max(column, 1), err)
	}
	return Fault{"", message, spaceWanted}, true
}

// members reads an object of already valid JSON, in file order.
func (p *parser) members(path string, raw json.RawMessage, want string) []member {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if open, _ := decoder.Token(); open != json.Delim('{') {
		p.fault(path, "is "+shown(raw), want)
		return nil
	}
	var members []member
	seen := map[string]bool{}
	for decoder.More() {
		m := next(decoder)
		if seen[m.name] {
			p.fault(below(path, m.name), "is there twice", "each key once")
			continue
		}
		seen[m.name] = true
		members = append(members, m)
	}
	return members
}

// next reads one member; the JSON is known to be valid, so nothing can fail.
func next(decoder *json.Decoder) member {
	name, _ := decoder.Token()
	m := member{name: name.(string)}
	decoder.Decode(&m.value)
	return m
}

// level reads the parameters of one object into dimensions placed like place and
// returns their indices.
func (p *parser) level(path string, members []member, place Dimension) []int {
	var indices []int
	for _, m := range members {
		d := Dimension{Name: m.name, parent: place.parent, branch: place.branch}
		if p.parameter(below(path, m.name), m.value, d) {
			indices = append(indices, p.lastPlacedLike(place))
		}
	}
	return indices
}

// lastPlacedLike finds the newest dimension of one level, which those nested in it
// may follow.
func (p *parser) lastPlacedLike(place Dimension) int {
	i := len(p.dimensions) - 1
	for p.dimensions[i].parent != place.parent || p.dimensions[i].branch != place.branch {
		i--
	}
	return i
}

// parameter reads one parameter and, after it, those nested in it.
func (p *parser) parameter(path string, raw json.RawMessage, d Dimension) bool {
	kind, values, ok := p.definition(path, raw)
	if !ok {
		return false
	}
	d.Kind = kind
	path = below(path, "_value")
	switch {
	case kind == Choice:
		return p.choice(path, values, d)
	case kind == RandInt:
		return p.randint(path, values, d)
	case kind.normal():
		return p.normal(path, values, d)
	}
	return p.uniform(path, values, d)
}

// definition reads {"_type", "_value"}.
func (p *parser) definition(path string, raw json.RawMessage) (Kind, []json.RawMessage, bool) {
	before := len(p.faults)
	var kind Kind
	var values []json.RawMessage
	parts := map[string]json.RawMessage{}
	for _, m := range p.members(path, raw, `an object with "_type" and "_value"`) {
		parts[m.name] = m.value
	}
	if len(p.faults) > before {
		return "", nil, false
	}
	if text, ok := parts["_type"]; ok {
		kind = p.kind(below(path, "_type"), text)
	} else {
		p.fault(path, `has no "_type"`, kindsWanted())
	}
	if text, ok := parts["_value"]; ok {
		values = p.values(below(path, "_value"), text)
	} else {
		p.fault(path, `has no "_value"`, "a list such as [0, 1]")
	}
	return kind, values, len(p.faults) == before
}

func (p *parser) kind(path string, raw json.RawMessage) Kind {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		p.fault(path, "is "+shown(raw), kindsWanted())
		return ""
	}
	switch text {
	case "layer_choice", "input_choice", "mutable_layer":
		p.fault(path, "is "+shown(raw)+", which is for neural architecture search",
			"a hyperparameter's type: architecture search is not supported ("+kindsWanted()+")")
		return ""
	}
	names := kindNames()
	for _, name := range names {
		if name == text {
			return Kind(text)
		}
	}
	want := kindsWanted()
	if nearest := Nearest(text, names); nearest != "" {
		want = nearest + ", or another of " + strings.Join(names, ", ")
	}
	p.fault(path, "is "+shown(raw)+", which is no type", want)
	return ""
}

func kindsWanted() string { return "one of " + strings.Join(kindNames(), ", ") }

func kindNames() []string {
	var names []string
	for _, kind := range Kinds() {
		names = append(names, string(kind))
	}
	return names
}

func (p *parser) values(path string, raw json.RawMessage) []json.RawMessage {
	var values []json.RawMessage
	if json.Unmarshal(raw, &values) != nil || values == nil {
		p.fault(path, "is "+shown(raw), "a list such as [0, 1]")
		return nil
	}
	if len(values) == 0 {
		p.fault(path, "is empty", "at least one element")
	}
	return values
}

func (p *parser) choice(path string, values []json.RawMessage, d Dimension) bool {
	d.Size, d.elements = len(values), values
	index := len(p.dimensions)
	p.dimensions = append(p.dimensions, d)
	if !nested(values) {
		return true
	}
	branches := make([]branch, len(values))
	for i, value := range values {
		branches[i] = p.branch(below(path, i), value, Dimension{parent: index, branch: i})
	}
	p.dimensions[index].branches = branches
	return true
}

// nested tells whether every element is an object with "_name", NNI's sign of a
// nested choice.
func nested(values []json.RawMessage) bool {
	for _, value := range values {
		var object map[string]json.RawMessage
		if json.Unmarshal(value, &object) != nil || object["_name"] == nil {
			return false
		}
	}
	return true
}

func (p *parser) branch(path string, raw json.RawMessage, place Dimension) branch {
	var b branch
	var parameters []member
	for _, m := range p.members(path, raw, "an object") {
		if m.name == "_name" {
			b.name = m.value
			continue
		}
		parameters = append(parameters, m)
	}
	b.inside = p.level(path, parameters, place)
	return b
}

// largestCategories is how many categories a coordinate tells apart.
const largestCategories = 1 << 53

func (p *parser) randint(path string, values []json.RawMessage, d Dimension) bool {
	if _, ok := p.numbers(path, values, "[low, high)"); !ok {
		return false
	}
	low, lowFits := roundedUp(values[0])
	high, highFits := roundedUp(values[1])
	switch {
	case !lowFits || !highFits || uint64(high)-uint64(low) > largestCategories && high > low:
		p.fault(path, "spans too many integers", "bounds below 2^63 that are at most 2^53 apart")
		return false
	case low >= high:
		p.fault(path, fmt.Sprintf("has no integer in [%s, %s)", values[0], values[1]),
			"low < high; high itself is never drawn")
		return false
	}
	d.first, d.Size = low, int(high-low)
	p.dimensions = append(p.dimensions, d)
	return true
}

func (p *parser) uniform(path string, values []json.RawMessage, d Dimension) bool {
	before := len(p.faults)
	shape := "[low, high]"
	if d.Kind.quantised() {
		shape = "[low, high, q]"
	}
	x, ok := p.numbers(path, values, shape)
	if !ok {
		return false
	}
	if x[0] > x[1] {
		p.fault(path, fmt.Sprintf("has low %s and high %s", values[0], values[1]), "low < high")
	} else if math.IsInf(x[1]-x[0], 0) {
		p.fault(path, "is too wide for floating point", "high - low below 1.7e308")
	}
	if d.Kind.logarithmic() && x[0] <= 0 {
		p.fault(below(path, 0), "is "+string(values[0]), "low > 0, for it has a logarithm")
	}
	d.Low, d.High, d.clip = x[0], x[1], bounds{x[0], x[1]}
	if d.Kind.logarithmic() {
		d.Low, d.High = math.Log(x[0]), math.Log(x[1])
	}
	p.quantum(path, values, &d)
	if len(p.faults) == before && d.Low == d.High {
		value := x[0]
		if d.Kind.quantised() {
			value = d.Value(d.Low)
		}
		d.fix(value)
		p.warn(path, fmt.Sprintf("has low %s and high %s, so it is always %s", values[0], values[1], d.elements[0]), "low < high")
	}
	p.dimensions = append(p.dimensions, d)
	return len(p.faults) == before
}

func (p *parser) normal(path string, values []json.RawMessage, d Dimension) bool {
	before := len(p.faults)
	shape := "[mean, deviation]"
	if d.Kind.quantised() {
		shape = "[mean, deviation, q]"
	}
	x, ok := p.numbers(path, values, shape)
	if !ok {
		return false
	}
	if x[1] < 0 {
		p.fault(below(path, 1), "is "+string(values[1]), "a deviation > 0")
	}
	d.Mean, d.Deviation = x[0], x[1]
	p.quantum(path, values, &d)
	if len(p.faults) == before && d.Deviation == 0 {
		d.fix(d.Value(d.Mean))
		p.warn(below(path, 1), fmt.Sprintf("is %s, so it is always %s", values[1], d.elements[0]), "a deviation > 0")
	}
	p.dimensions = append(p.dimensions, d)
	return len(p.faults) == before
}

func (p *parser) quantum(path string, values []json.RawMessage, d *Dimension) {
	if !d.Kind.quantised() {
		return
	}
	d.Quantum, _ = number(values[2])
	if d.Quantum <= 0 {
		p.fault(below(path, 2), "is "+string(values[2]), "a step q > 0")
	}
}

// numbers reads the numbers of a range; shape says how many and what they are.
func (p *parser) numbers(path string, values []json.RawMessage, shape string) ([]float64, bool) {
	before := len(p.faults)
	if count := strings.Count(shape, ",") + 1; len(values) != count {
		p.fault(path, fmt.Sprintf("has %d elements", len(values)), fmt.Sprintf("%d numbers, %s", count, shape))
	}
	numbers := make([]float64, len(values))
	for i, value := range values {
		x, ok := number(value)
		if !ok {
			p.fault(below(path, i), "is "+shown(value)+", not a finite number", "numbers, "+shape)
		}
		numbers[i] = x
	}
	return numbers, len(p.faults) == before
}
