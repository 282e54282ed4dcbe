package command

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/perennial-ml/perennial/dashboard/views"
)

// columns are those of results as a table, NNI's: parameters, metric keys, reward,
// trialJobId, intermediate.
type columns struct {
	parameters, reported, fixed []string
	trials                      map[string]bool // what has ended since has no row
}

// field is one cell before it is known which column it stands in.
type field struct{ name, text string }

func newColumns(all results) (columns, error) {
	table := columns{trials: map[string]bool{}}
	for found, err := range all {
		if err != nil {
			return table, err
		}
		table.trials[found.trial] = true
		table.parameters = extend(table.parameters, fields("parameter", found.parameter))
		table.reported = extend(table.reported, metricFields(found.value))
		table.fixed = extend(table.fixed, found.fixed())
	}
	table.fixed = inOrder(table.fixed)
	return table, nil
}

func (c columns) heads() []string {
	taken := slices.Concat(c.parameters, fixedNames[:ofNNI], c.fixed)
	return slices.Concat(c.parameters, distinct(c.reported, taken), c.fixed)
}

// row is a result's, where it was there when the columns were chosen.
func (c columns) row(found result) (cells []string, known bool) {
	if !c.trials[found.trial] {
		return nil, false
	}
	return slices.Concat(pick(c.parameters, fields("parameter", found.parameter)),
		pick(c.reported, metricFields(found.value)), pick(c.fixed, found.fixed())), true
}

// fixedNames are columns of every export, where they mean something; the first are
// NNI's.
var fixedNames = []string{"reward", "trialJobId", "intermediate", "state", "reason"}

const ofNNI = 3

// inOrder is those of fixedNames that are among names; trialJobId always is.
func inOrder(names []string) []string {
	return slices.DeleteFunc(slices.Clone(fixedNames), func(name string) bool {
		return name != "trialJobId" && !slices.Contains(names, name)
	})
}

// fixed is the reward of a metric that is no object, the trial's id and, where
// somebody asked for them, the intermediate results as a JSON list, and how the trial
// ended.
func (r result) fixed() []field {
	all := []field{{"trialJobId", r.trial}}
	if !isObject(r.value) {
		all = append(all, field{"reward", r.reward})
	}
	if r.intermediate != nil {
		all = append(all, field{"intermediate", "[" + strings.Join(r.intermediate, ",") + "]"})
	}
	if r.state != "" {
		all = append(all, field{"state", string(r.state)}, field{"reason", r.reason})
	}
	return all
}

func isObject(value string) bool { return strings.HasPrefix(strings.TrimSpace(value), "{") }

// distinct renames metric keys that are also names of other columns.
func distinct(reported, taken []string) []string {
	names := slices.Clone(reported)
	for i, name := range names {
		if slices.Contains(taken, name) {
			names[i] = "metric/" + name
		}
	}
	return names
}

func extend(names []string, fields []field) []string {
	for _, f := range fields {
		if !slices.Contains(names, f.name) {
			names = append(names, f.name)
		}
	}
	return names
}

func pick(names []string, fields []field) []string {
	cells := make([]string, len(names))
	for _, f := range fields {
		cells[slices.Index(names, f.name)] = f.text
	}
	return cells
}

// metricFields are the keys of a metric that is an object; any other metric is
// its reward alone.
func metricFields(value string) []field {
	if !isObject(value) {
		return nil
	}
	return fields("", strict(value))
}

var wordOfPython = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?Infinity|NaN`)

// strict is a metric as JSON: the NaN and Infinity that Python writes as strings.
func strict(value string) json.RawMessage {
	return json.RawMessage(wordOfPython.ReplaceAllStringFunc(value, func(word string) string {
		if word[0] == '"' {
			return word
		}
		return `"` + word + `"`
	}))
}

// nonFinite is a metric that is NaN or an infinity, else empty.
func nonFinite(value string) string {
	if text := strings.TrimSpace(value); text == "NaN" || strings.TrimPrefix(text, "-") == "Infinity" {
		return text
	}
	return ""
}

// fields lists an object's members in the order of the text. Numbers keep their
// digits; lists and objects, such as a nested choice, stay JSON. What is no object
// is one field.
func fields(name string, text json.RawMessage) []field {
	inside, ok := views.Members(text)
	if !ok {
		return []field{{name, cell(text)}}
	}
	return cells(inside)
}

// flatten is fields with nested objects taken apart, as "outer/inner".
func flatten(text json.RawMessage) []field { return cells(views.Flatten(text)) }

func cells(inside []views.Field) []field {
	var all []field
	for _, f := range inside {
		all = append(all, field{f.Name, cell(f.Value)})
	}
	return all
}

// cell is a JSON value as a cell: strings without quotes, null as nothing.
func cell(text json.RawMessage) string {
	var word string
	if json.Unmarshal(text, &word) == nil {
		return word
	}
	return string(text)
}
