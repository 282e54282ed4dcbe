package experiment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Limits of what is read, so that no file can exhaust memory or the stack.
const (
	maxYAML    = 4 << 20
	maxJSON    = 16 << 20
	maxDepth   = 64
	maxAliased = 100_000 // nodes that aliases may repeat
)

// document is a YAML file as a tree in which aliases and merge keys are resolved,
// with the place and the written name of every node.
type document struct {
	name   string
	lines  []string
	root   *yaml.Node
	fields map[*yaml.Node]string
	masks  []mask
	// spelled names keys that a node lacks, where the file's schema calls them
	// otherwise than ours.
	spelled map[*yaml.Node]map[string]string
	faults  findings
}

// newDocument reads a tree. Without a root, faults say why.
func newDocument(name string, content []byte) *document {
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	d := &document{
		name: name, fields: map[*yaml.Node]string{}, spelled: map[*yaml.Node]map[string]string{},
	}
	if fault := unreadable(content); fault != nil {
		d.faults.add(func() Fault { return d.named(*fault) })
		return d
	}
	d.lines = splitLines(content)
	d.parse(content)
	return d
}

func splitLines(content []byte) []string {
	lines := strings.Split(string(content), "\n")
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "\r")
	}
	return lines
}

func (d *document) named(f Fault) Fault {
	f.File = d.name
	return f
}

// unreadable finds what makes content no text at all.
func unreadable(content []byte) *Fault {
	switch {
	case len(content) > maxYAML:
		return &Fault{
			Message: fmt.Sprintf("is larger than %d MiB", maxYAML>>20),
			Hint:    "move a large search space into a JSON file and name it in searchSpaceFile",
		}
	case !utf8.Valid(content) || bytes.ContainsRune(content, 0):
		return &Fault{Message: "is not text", Hint: "an experiment file is YAML, saved as UTF-8"}
	case len(bytes.TrimSpace(content)) == 0:
		return &Fault{Message: "is empty", Hint: "`starter init` writes an experiment file to begin with"}
	}
	return nil
}

func (d *document) parse(content []byte) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var first, second yaml.Node
	if err := decoder.Decode(&first); errors.Is(err, io.EOF) {
		d.faults.add(func() Fault { return Fault{File: d.name, Message: "holds nothing but comments"} })
		return
	} else if err != nil {
		d.faults.add(func() Fault { return d.syntax(err) })
		return
	}
	if err := decoder.Decode(&second); err == nil {
		d.add(&second, "holds a second document", "keep one document in a file: remove what follows ---")
	} else if !errors.Is(err, io.EOF) {
		d.faults.add(func() Fault { return d.syntax(err) })
		return
	}
	d.adopt(&first)
}

func (d *document) adopt(first *yaml.Node) {
	d.masks = findMasks(first.Content[0])
	e := expander{document: d}
	root := e.expand(first.Content[0], 0)
	if root == nil || d.faults.count > 0 {
		return
	}
	d.root = root
	d.nameNodes(root, "")
}

// nameNodes records how the file spells each node's way from the root.
func (d *document) nameNodes(n *yaml.Node, field string) {
	d.fields[n] = field
	switch n.Kind {
	case yaml.MappingNode:
		for key, value := range pairs(n) {
			inner := join(field, key.Value)
			d.fields[key] = inner
			d.nameNodes(value, inner)
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			d.nameNodes(item, fmt.Sprintf("%s[%d]", field, i))
		}
	}
}

func join(field, key string) string {
	if field == "" {
		return cut(key)
	}
	return field + "." + cut(key)
}

// pairs iterates over the keys and values of a mapping.
func pairs(n *yaml.Node) func(func(key, value *yaml.Node) bool) {
	return func(yield func(key, value *yaml.Node) bool) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i], n.Content[i+1]) {
				return
			}
		}
	}
}

// add records a fault at a node.
func (d *document) add(n *yaml.Node, message, hint string) {
	d.faults.add(func() Fault { return d.at(n, message, hint) })
}

func (d *document) at(n *yaml.Node, message, hint string) Fault {
	source, caret := d.source(n.Line, n.Column)
	return Fault{
		File: d.name, Line: n.Line, Column: n.Column, Field: d.fields[n],
		Message: d.redacted(message), Hint: d.redacted(hint), Source: source, caret: caret,
	}
}

var yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// syntax places the YAML parser's error.
func (d *document) syntax(err error) Fault {
	f := Fault{File: d.name, Message: "is not YAML: " + err.Error()}
	parts := yamlError.FindStringSubmatch(err.Error())
	if parts == nil {
		return f
	}
	f.Message = "is not YAML: " + parts[2]
	if strings.Contains(parts[2], "max depth") {
		f.Message = "is nested too deeply"
	}
	f.Line, _ = strconv.Atoi(parts[1])
	if f.Line > 0 && strings.HasPrefix(parts[2], "did not find expected") {
		f.Line++ // the library counts these from 0
	}
	f.Line = min(f.Line, len(d.lines))
	if f.Line == 0 {
		return f
	}
	line := d.lines[f.Line-1]
	f.Column = 1 + len(line) - len(strings.TrimLeft(line, " \t"))
	f.Source, f.caret = maskUnparsed(d.lines, f.Line), f.Column
	if strings.HasPrefix(line, "\t") {
		f.Hint = "indent with spaces: YAML does not allow tabs"
	}
	return f
}

// expander copies a tree, putting in what aliases and merge keys stand for.
type expander struct {
	document *document
	aliased  int // nodes made from aliases
	within   int // aliases around the present node
	stopped  bool
}

func (e *expander) expand(n *yaml.Node, depth int) *yaml.Node {
	if e.stopped {
		return nil
	}
	if e.within > 0 {
		e.aliased++
	}
	switch {
	case depth > maxDepth:
		return e.stop(n, fmt.Sprintf("is nested more than %d deep", maxDepth))
	case e.aliased > maxAliased:
		return e.stop(n, fmt.Sprintf("its aliases repeat more than %d values", maxAliased))
	case n.Kind == yaml.AliasNode:
		e.within++
		defer func() { e.within-- }()
		return e.expand(n.Alias, depth+1)
	}
	made := &yaml.Node{Kind: n.Kind, Tag: n.Tag, Value: n.Value, Style: n.Style, Line: n.Line, Column: n.Column}
	e.fill(made, n, depth)
	return made
}

func (e *expander) stop(n *yaml.Node, message string) *yaml.Node {
	e.stopped = true
	e.document.add(n, message, "")
	return nil
}

func (e *expander) fill(made, n *yaml.Node, depth int) {
	switch n.Kind {
	case yaml.SequenceNode:
		for _, item := range n.Content {
			made.Content = append(made.Content, e.expand(item, depth+1))
		}
	case yaml.MappingNode:
		e.mapping(made, n, depth)
	}
}

func (e *expander) mapping(made, n *yaml.Node, depth int) {
	seen := map[string]*yaml.Node{}
	var merged []*yaml.Node
	for key, value := range pairs(n) {
		if key.Kind != yaml.ScalarNode && key.Kind != yaml.AliasNode {
			e.document.add(key, "a key must be text", "")
			continue
		}
		key, value := e.expand(key, depth+1), e.expand(value, depth+1)
		if e.stopped {
			return
		}
		if key.ShortTag() == "!!merge" {
			merged = append(merged, value)
			continue
		}
		if first := seen[key.Value]; first != nil {
			e.document.add(key, fmt.Sprintf("the key %s stands here twice", quoted(key.Value)),
				fmt.Sprintf("the first is in line %d", first.Line))
			continue
		}
		seen[key.Value] = key
		made.Content = append(made.Content, key, value)
	}
	for _, value := range merged {
		e.merge(made, value, seen)
	}
}

// merge adds the pairs of a merge key's value that made does not have.
func (e *expander) merge(made, value *yaml.Node, seen map[string]*yaml.Node) {
	switch value.Kind {
	case yaml.SequenceNode:
		for _, item := range value.Content {
			if item.Kind == yaml.MappingNode {
				e.merge(made, item, seen)
			}
		}
	case yaml.MappingNode:
		for key, item := range pairs(value) {
			if seen[key.Value] == nil {
				seen[key.Value] = key
				made.Content = append(made.Content, key, item)
			}
		}
	default:
		e.document.add(value, "<< needs a mapping", "")
	}
}

// cut shortens what a file says to what a message can hold.
func cut(text string) string {
	if utf8.RuneCountInString(text) > 60 {
		return string([]rune(text)[:60]) + "…"
	}
	return text
}

func quoted(text string) string { return strconv.Quote(cut(text)) }
