package searchspace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Strays tells what of a trial's parameters does not lie in the space: keys that it
// does not have, keys that are missing, values that it would never give. None of it
// keeps a trial from running.
func (s *Space) Strays(parameters json.RawMessage) Faults {
	return s.strays("", s.roots, parameters)
}

func (s *Space) strays(path string, inside []int, raw json.RawMessage) Faults {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil {
		return Faults{{path, "is no object of parameters", "an object with " + strings.Join(s.names(inside), ", ")}}
	}
	var faults Faults
	for _, i := range inside {
		value, given := object[s.Dimensions[i].Name]
		if !given {
			faults = append(faults, Fault{below(path, s.Dimensions[i].Name), "is missing", s.Dimensions[i].wanted()})
			continue
		}
		delete(object, s.Dimensions[i].Name)
		faults = append(faults, s.strayValue(below(path, s.Dimensions[i].Name), i, value)...)
	}
	if path != "" {
		delete(object, "_name")
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		faults = append(faults, Fault{below(path, name), "is no parameter of the search space", s.meant(name, inside)})
	}
	return faults
}

func (s *Space) strayValue(path string, i int, raw json.RawMessage) Faults {
	d := &s.Dimensions[i]
	if d.branches == nil {
		if _, lies := d.Locate(raw); lies {
			return nil
		}
		return Faults{{path, "is " + shown(bytes.TrimSpace(raw)), d.wanted()}}
	}
	var named struct {
		Name json.RawMessage `json:"_name"`
	}
	_ = json.Unmarshal(raw, &named) // what is no object has no name
	for _, b := range d.branches {
		if sameJSON(b.name, named.Name) {
			return s.strays(path, b.inside, raw)
		}
	}
	return Faults{{path, "is " + shown(bytes.TrimSpace(raw)), d.wanted()}}
}

func (s *Space) names(inside []int) []string {
	var names []string
	for _, i := range inside {
		names = append(names, s.Dimensions[i].Name)
	}
	return names
}

func (s *Space) meant(name string, inside []int) string {
	if nearest := Nearest(name, s.names(inside)); nearest != "" {
		return nearest
	}
	return anyOf(s.names(inside))
}

// wanted is what the dimension takes, in words.
func (d *Dimension) wanted() string {
	switch {
	case d.branches != nil:
		var names []string
		for _, b := range d.branches {
			names = append(names, string(b.name))
		}
		return `an object whose "_name" is ` + anyOf(names)
	case d.Kind == Choice:
		var elements []string
		for i := range d.Size {
			elements = append(elements, string(d.Text(float64(i))))
		}
		return anyOf(elements)
	case d.Kind == RandInt:
		return fmt.Sprintf("a whole number from %d to %d", d.first, d.first+int64(d.Size)-1)
	case d.Kind.normal():
		return "a number"
	}
	return fmt.Sprintf("a number from %.6g to %.6g", d.Value(d.Low), d.Value(d.High))
}

// mostNamed is how many elements of a choice a message names.
const mostNamed = 12

func anyOf(names []string) string {
	if len(names) > mostNamed {
		return fmt.Sprintf("one of %s and %d others", strings.Join(names[:mostNamed], ", "), len(names)-mostNamed)
	}
	if len(names) == 1 {
		return names[0]
	}
	return "one of " + strings.Join(names, ", ")
}
