package command

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// columns are results as a table: parameters, metric keys, reward, trialJobId.
type columns struct {
	heads []string
	rows  [][]string
}

// field is one cell before it is known which column it stands in.
type field struct{ name, text string }

func newColumns(results []result) columns {
	var parameters, reported []string
	flat := make([][2][]field, len(results))
	for i, found := range results {
		flat[i] = [2][]field{flatten("", found.parameter), metricFields(found.value)}
		parameters = extend(parameters, flat[i][0])
		reported = extend(reported, flat[i][1])
	}
	table := columns{heads: append(append(slices.Clone(parameters), distinct(reported, parameters)...), "reward", "trialJobId")}
	for i, found := range results {
		row := append(pick(parameters, flat[i][0]), pick(reported, flat[i][1])...)
		table.rows = append(table.rows, append(row, found.reward, found.trial))
	}
	return table
}

// distinct renames metric keys that are also parameters or fixed columns.
func distinct(reported, parameters []string) []string {
	names := slices.Clone(reported)
	for i, name := range names {
		if slices.Contains(parameters, name) || name == "reward" || name == "trialJobId" {
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
	if !strings.HasPrefix(strings.TrimSpace(value), "{") {
		return nil
	}
	return flatten("", strict(value))
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

// nonFiniteDefault is the default metric where it is NaN or an infinity, else empty.
func nonFiniteDefault(value string) string {
	fields := flatten("default/", json.RawMessage(strings.TrimSpace(value)))
	if strings.HasPrefix(strings.TrimSpace(value), "{") {
		fields = metricFields(value)
	}
	for _, f := range fields {
		if f.name == "default" && (f.text == "NaN" || strings.TrimPrefix(f.text, "-") == "Infinity") {
			return f.text
		}
	}
	return ""
}

// flatten lists an object's members in the order of the text, nested ones as
// "outer/inner". Numbers keep their digits; lists stay JSON.
func flatten(prefix string, text json.RawMessage) []field {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return []field{{strings.TrimSuffix(prefix, "/"), cell(text)}}
	}
	var fields []field
	for decoder.More() {
		key, err := decoder.Token()
		var member json.RawMessage
		if err != nil || decoder.Decode(&member) != nil {
			return fields
		}
		fields = append(fields, flatten(prefix+key.(string)+"/", member)...)
	}
	return fields
}

// cell is a JSON value as a cell: strings without quotes, null as nothing.
func cell(text json.RawMessage) string {
	var word string
	if json.Unmarshal(text, &word) == nil {
		return word
	}
	return string(text)
}
