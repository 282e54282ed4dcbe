package experiment

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// kind is what the value of a key may be. Checks, messages and the JSON Schema
// for editors all come from it.
type kind struct {
	words  string // what the value must be, as in "must be …"
	read   func(r *reader, n *yaml.Node) (any, error)
	schema func() map[string]any
}

// complaint is an error about a value, with what would be right. Its text must
// not hold the value, which may be secret.
type complaint struct{ message, hint string }

func (c complaint) Error() string { return c.message }

// errKind says that a value is not of its kind.
var errKind = errors.New("wrong kind")

func schemaOf(pairs ...any) func() map[string]any {
	return func() map[string]any {
		schema := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			schema[pairs[i].(string)] = pairs[i+1]
		}
		return schema
	}
}

// The kinds without parameters.
var (
	text      = kind{"text", readText, schemaOf("type", "string")}
	boolean   = kind{"true or false", readBoolean, schemaOf("type", "boolean")}
	free      = kind{"a mapping", readFree, schemaOf("type", "object")}
	megabytes = kind{"a number of megabytes above 0, or a number with a unit such as 512mb or 2gb", readMegabytes, schemaOf("type", []string{"number", "string"})}
	byteCount = kind{"a number of megabytes above 0, or a number with a unit such as 512kb or 2gb", readBytes, schemaOf("type", []string{"number", "string"})}
	indices   = kind{`GPU indices: a number, a list of numbers, or text such as "0,1"`, readIndices, schemaOf("type", []string{"integer", "array", "string"})}

	path              = kind{"a path", readPath, schemaOf("type", "string")}
	existingFile      = kind{"the path of a file", readFile, schemaOf("type", "string")}
	existingDirectory = kind{"the path of a directory", readDirectory, schemaOf("type", "string")}
)

func durationFrom(least int64) kind {
	words := "a number of seconds, or a number with a unit such as 90s, 30m, 1.5h or 7d"
	if least > 0 {
		words += ", above 0"
	}
	read := func(r *reader, n *yaml.Node) (any, error) {
		return readUnits(r, n, func(text string) (int64, error) { return inUnits(text, secondsIn, 1) }, least)
	}
	schema := schemaOf("type", []string{"number", "string"}, "pattern", `^\s*[0-9.]+([eE][-+]?[0-9]+)?\s*[smhdSMHD]?\s*$`)
	return kind{words, read, schema}
}

func integerFrom(least int64) kind { return integerIn(least, 1<<53) }

func integerIn(least, most int64) kind {
	words := fmt.Sprintf("a whole number from %d to %d", least, most)
	schema := schemaOf("type", "integer", "minimum", least, "maximum", most)
	if most == 1<<53 {
		words = fmt.Sprintf("a whole number of at least %d", least)
		schema = schemaOf("type", "integer", "minimum", least)
	}
	read := func(r *reader, n *yaml.Node) (any, error) { return readInteger(r, n, [2]int64{least, most}) }
	return kind{words, read, schema}
}

// oneOf accepts one of some words, whatever their case, and yields it as spelled here.
func oneOf(names ...string) kind {
	read := func(r *reader, n *yaml.Node) (any, error) {
		i := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, n.Value) })
		if n.Kind == yaml.ScalarNode && i >= 0 {
			return names[i], nil // also "off", which is no truth value here
		}
		if _, err := readText(r, n); err != nil {
			return nil, err
		}
		return nil, complaint{"", meant(n.Value, names)}
	}
	return kind{"one of " + strings.Join(names, ", "), read, schemaOf("enum", names)}
}

func object(s *section) kind {
	read := func(r *reader, n *yaml.Node) (any, error) {
		if n.Kind != yaml.MappingNode {
			return nil, errKind
		}
		return r.section(s, n), nil
	}
	return kind{"a mapping", read, func() map[string]any { return s.schema() }}
}

func listOf(item kind) kind {
	read := func(r *reader, n *yaml.Node) (any, error) {
		if n.Kind != yaml.SequenceNode {
			return nil, errKind
		}
		return readItems(r, n, item), nil
	}
	schema := func() map[string]any { return map[string]any{"type": "array", "items": item.schema()} }
	return kind{"a list", read, schema}
}

func readItems(r *reader, n *yaml.Node, item kind) []any {
	items := []any{}
	for _, node := range n.Content {
		value, err := item.read(r, node)
		if err != nil {
			r.complain(node, item, err)
			continue
		}
		items = append(items, value)
	}
	return items
}

func readText(r *reader, n *yaml.Node) (any, error) {
	if n.Kind != yaml.ScalarNode {
		return nil, errKind
	}
	if !plain(n) {
		return n.Value, nil
	}
	if n.ShortTag() == "!!bool" || n.ShortTag() == "!!int" || n.ShortTag() == "!!float" {
		return nil, complaint{"", "put the value into quotes"}
	}
	if _, ok := truth(n); ok || sexagesimal.MatchString(n.Value) {
		r.warn(n, "is read as text; NNI reads something else", "put the value into quotes")
	}
	return n.Value, nil
}

func readBoolean(_ *reader, n *yaml.Node) (any, error) {
	value, ok := truth(n)
	if !ok {
		return nil, errKind
	}
	return value, nil
}

func readInteger(r *reader, n *yaml.Node, limits [2]int64) (any, error) {
	value, note, ok := whole(n)
	if !ok {
		return nil, errKind
	}
	if !value.IsInt64() || value.Int64() < limits[0] || value.Int64() > limits[1] {
		return nil, errKind
	}
	if note != "" {
		r.warn(n, asRead(n, value)+": "+note, "")
	}
	return value.Int64(), nil
}

func readFree(r *reader, n *yaml.Node) (any, error) {
	if n.Kind != yaml.MappingNode {
		return nil, errKind
	}
	raw, _ := r.freeForm(n)
	return raw, nil
}

// unitText is a scalar as text for the unit parsers, YAML 1.1's odd integers
// resolved.
func unitText(r *reader, n *yaml.Node) (string, error) {
	if n.Kind != yaml.ScalarNode {
		return "", errKind
	}
	number, note, ok := jsonNumber(n)
	if !ok {
		return n.Value, nil
	}
	if note != "" {
		r.warn(n, asRead(n, number)+": "+note, "write a number with a unit")
	}
	return number, nil
}

func readMegabytes(r *reader, n *yaml.Node) (any, error) {
	size, err := readBytes(r, n)
	if err != nil {
		return nil, err
	}
	return (size.(int64) + 1<<20 - 1) >> 20, nil
}

func readBytes(r *reader, n *yaml.Node) (any, error) {
	return readUnits(r, n, func(text string) (int64, error) { return inUnits(text, bytesIn, 1<<20) }, 1)
}

func readUnits(r *reader, n *yaml.Node, parse func(string) (int64, error), least int64) (any, error) {
	text, err := unitText(r, n)
	if err != nil {
		return nil, err
	}
	value, err := parse(text)
	if err != nil || value < least {
		return nil, errKind
	}
	return value, nil
}

var indexList = regexp.MustCompile(`^\s*[0-9]{1,4}(\s*,\s*[0-9]{1,4})*\s*$`)

func readIndices(r *reader, n *yaml.Node) (any, error) {
	indices, err := listIndices(r, n)
	if err != nil {
		return nil, err
	}
	seen := map[int]bool{}
	for _, index := range indices {
		if seen[index] {
			return nil, complaint{fmt.Sprintf("names GPU %d twice", index), ""}
		}
		seen[index] = true
	}
	return indices, nil
}

func listIndices(r *reader, n *yaml.Node) ([]int, error) {
	if n.Kind == yaml.SequenceNode {
		return sequenceIndices(n)
	}
	if _, _, ok := whole(n); ok {
		index, err := readInteger(r, n, [2]int64{0, 9999})
		if err != nil {
			return nil, err
		}
		return []int{int(index.(int64))}, nil
	}
	if n.Kind != yaml.ScalarNode || !indexList.MatchString(n.Value) {
		return nil, errKind
	}
	list := []int{}
	for part := range strings.SplitSeq(n.Value, ",") {
		index, _ := strconv.Atoi(strings.TrimSpace(part)) // digits, by indexList
		list = append(list, index)
	}
	return list, nil
}

func sequenceIndices(n *yaml.Node) ([]int, error) {
	list := []int{}
	for _, item := range n.Content {
		index, _, ok := whole(item)
		if !ok || !index.IsInt64() || index.Int64() < 0 || index.Int64() > 9999 {
			return nil, complaint{"must list GPUs by whole numbers of at least 0", ""}
		}
		list = append(list, int(index.Int64()))
	}
	return list, nil
}
