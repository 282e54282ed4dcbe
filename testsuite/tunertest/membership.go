package tunertest

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// definition is one parameter of a search space.
type definition struct {
	Type  string            `json:"_type"`
	Value []json.RawMessage `json:"_value"`
}

// InSpace says what is wrong with parameters as a set of a search space: keys,
// ranges, quantisation, and spelling (integers of randint without a point, numbers
// of the other kinds with one or an exponent, elements of choices as in the space).
func InSpace(space, parameters json.RawMessage) error {
	var wanted, got map[string]json.RawMessage
	if err := json.Unmarshal(space, &wanted); err != nil {
		return err
	}
	if err := json.Unmarshal(parameters, &got); err != nil {
		return err
	}
	delete(wanted, "_name")
	delete(got, "_name")
	if len(wanted) != len(got) {
		return fmt.Errorf("%s has other keys than %s", parameters, space)
	}
	for name, raw := range wanted {
		var d definition
		if err := json.Unmarshal(raw, &d); err != nil {
			return err
		}
		if err := d.admits(got[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// InBatch says whether parameters are an element of a Batch tuner's space.
func InBatch(space, parameters json.RawMessage) error {
	var wanted map[string]definition
	if err := json.Unmarshal(space, &wanted); err != nil {
		return err
	}
	for _, d := range wanted {
		return d.lists(parameters)
	}
	return nil
}

func (d definition) admits(value json.RawMessage) error {
	switch d.Type {
	case "choice":
		if d.nested() {
			return d.takesBranch(value)
		}
		return d.lists(value)
	case "randint":
		return d.hasInteger(value)
	}
	return d.hasFloat(value)
}

func (d definition) lists(value json.RawMessage) error {
	for _, element := range d.Value {
		if spelling(element) == spelling(value) {
			return nil
		}
	}
	return fmt.Errorf("%s is no element of %s", value, d.Value)
}

// spelling is JSON as it is after a log, where blanks are lost and numbers are not.
func spelling(raw json.RawMessage) string {
	text, err := json.Marshal(raw)
	if err != nil {
		return string(raw)
	}
	return string(text)
}

func nameOf(value json.RawMessage) string {
	var named struct {
		Name string `json:"_name"`
	}
	json.Unmarshal(value, &named) // what has no name has the name ""
	return named.Name
}

func (d definition) nested() bool {
	for _, element := range d.Value {
		if nameOf(element) == "" {
			return false
		}
	}
	return true
}

func (d definition) takesBranch(value json.RawMessage) error {
	for _, element := range d.Value {
		if nameOf(element) == nameOf(value) {
			return InSpace(element, value)
		}
	}
	return fmt.Errorf("%s takes no branch of %s", value, d.Value)
}

func (d definition) bound(i int) float64 {
	x, _ := strconv.ParseFloat(string(d.Value[i]), 64) // the generators write numbers
	return x
}

func (d definition) hasInteger(value json.RawMessage) error {
	n, err := strconv.Atoi(string(value))
	if err != nil || float64(n) < d.bound(0) || float64(n) >= d.bound(1) {
		return fmt.Errorf("%s is no integer of [%s, %s)", value, d.Value[0], d.Value[1])
	}
	return nil
}

func (d definition) hasFloat(value json.RawMessage) error {
	x, err := strconv.ParseFloat(string(value), 64)
	if err != nil || !strings.ContainsAny(string(value), ".e") {
		return fmt.Errorf("%s is not spelled as a float", value)
	}
	// exp(log(x)) may miss the ends by a few units in the last place.
	slack := 1e-12 * math.Abs(d.bound(1))
	if strings.HasSuffix(d.Type, "uniform") && (x < d.bound(0)-slack || x > d.bound(1)+slack) {
		return fmt.Errorf("%s lies outside [%s, %s]", value, d.Value[0], d.Value[1])
	}
	if strings.HasPrefix(d.Type, "q") && !d.onGrid(x) {
		return fmt.Errorf("%s is no multiple of %s", value, d.Value[2])
	}
	return nil
}

func (d definition) onGrid(x float64) bool {
	q := d.bound(2)
	atEnd := strings.HasSuffix(d.Type, "uniform") && (x == d.bound(0) || x == d.bound(1))
	return atEnd || math.RoundToEven(x/q)*q == x
}
