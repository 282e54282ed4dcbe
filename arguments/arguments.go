// Package arguments reads what an algorithm takes in classArgs: each argument by
// a check that stores its value, or says what would be right. The checks are also
// where the documentation has it from what there is to give.
package arguments

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Check reads one argument, as JSON. Its error says what would be right, beginning
// with "want".
type Check func(value json.RawMessage) error

// Read applies to each given argument its check and reports all that are wrong or
// unknown. taker names who takes them, such as "tuner TPE". given may be nil or null.
func Read(taker string, given json.RawMessage, checks map[string]Check) error {
	values := map[string]json.RawMessage{}
	if len(given) > 0 && json.Unmarshal(given, &values) != nil {
		return fmt.Errorf("classArgs of %s is %s: want an object", taker, given)
	}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		check, ok := checks[name]
		if !ok {
			takes := slices.Sorted(maps.Keys(checks))
			faults = append(faults, &fault{text: fmt.Sprintf("%s has no argument %q: %s", taker, name, allowed(takes)), takes: takes})
		} else if err := check(values[name]); err != nil {
			text := fmt.Sprintf("argument %s of %s is %s: %v", name, taker, values[name], err)
			faults = append(faults, &fault{text: text, want: strings.TrimPrefix(err.Error(), "want ")})
		}
	}
	return errors.Join(faults...)
}

func allowed(names []string) string {
	if len(names) == 0 {
		return "it takes none"
	}
	return "it takes " + strings.Join(names, ", ")
}

// fault says which argument is wrong and what would be right.
type fault struct {
	text  string
	takes []string // where there is no such argument: those there are, sorted
	want  string   // where its value is wrong
}

// Error implements error.
func (f *fault) Error() string { return f.text }

// Argument is one that an algorithm takes.
type Argument struct {
	Name  string
	Takes string // what it may be, such as "an integer from 1 to 99999"
	Meaning
}

// Meaning is what an argument does.
type Meaning struct {
	Default string // as JSON, words without quotes; empty where none is a value
	Text    string
}

// Describe returns the arguments that an algorithm takes, sorted by name, with their
// meanings. build must be what hands Read its argument: it is asked by arguments that
// none takes.
func Describe(build func(given json.RawMessage) error, meanings map[string]Meaning) []Argument {
	var unknown *fault
	if !errors.As(build(json.RawMessage(`{"": {}}`)), &unknown) {
		return nil
	}
	var all []Argument
	for _, name := range unknown.takes {
		all = append(all, Argument{name, takes(build, name), meanings[name]})
	}
	return all
}

func takes(build func(json.RawMessage) error, name string) string {
	given, err := json.Marshal(map[string]any{name: []any{[]any{}}})
	if err != nil {
		return ""
	}
	var wrong *fault
	if errors.As(build(given), &wrong) {
		return wrong.want
	}
	return ""
}
