package experiment

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// key declares one key of a section: how it is spelled, what it may hold, what
// stands for it when it is absent, and what it means.
type key struct {
	name     string
	kind     kind
	doc      string
	required bool
	fallback any // a canonical value; nil where absence means "unset"
}

// section declares a mapping of the v2 schema and of ours. Keys ignore case and
// underscores.
type section struct {
	keys []key
	// rest, where set, accepts keys that are not declared: the platform's own.
	rest bool
}

func (s *section) names() []string {
	var names []string
	for _, k := range s.keys {
		names = append(names, k.name)
	}
	return names
}

func (s *section) find(written string) *key {
	for i := range s.keys {
		if fold(s.keys[i].name) == fold(written) {
			return &s.keys[i]
		}
	}
	return nil
}

// with returns a section of these keys and more.
func (s *section) with(keys ...key) *section {
	return &section{keys: append(append([]key{}, s.keys...), keys...), rest: s.rest}
}

// entry is a value that was read, and where it stands.
type entry struct {
	node  *yaml.Node // nil for a default
	value any
}

// values is a mapping that was read by its section.
type values struct {
	section  *section
	node     *yaml.Node
	entries  map[string]entry // by canonical name
	platform *platform        // of a training service
	extra    map[string]json.RawMessage
	order    []string // of extra
}

// get returns a value by its canonical name, the zero T where it is unset.
func get[T any](v *values, name string) T {
	value, _ := v.entries[name].value.(T)
	return value
}

// has tells whether a key is set, by the file or by default.
func (v *values) has(name string) bool {
	_, ok := v.entries[name]
	return ok
}

// children returns the mappings of a list.
func (v *values) children(name string) []*values {
	var list []*values
	for _, item := range get[[]any](v, name) {
		if child, ok := item.(*values); ok {
			list = append(list, child)
		}
	}
	return list
}

// MarshalJSON writes the keys in the order of the declaration.
func (v *values) MarshalJSON() ([]byte, error) { return v.json(nil) }

// json writes what is set, without the keys in omit.
func (v *values) json(omit map[string]bool) ([]byte, error) {
	var buffer bytes.Buffer
	put := func(name string, value any) error {
		raw, err := json.Marshal(value)
		if err == nil {
			fmt.Fprintf(&buffer, "%s%q:%s", separator(&buffer), name, raw)
		}
		return err
	}
	for _, k := range v.section.keys {
		if entry, ok := v.entries[k.name]; ok && !omit[k.name] {
			if err := put(k.name, entry.value); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range v.order {
		if err := put(name, v.extra[name]); err != nil {
			return nil, err
		}
	}
	return []byte("{" + buffer.String() + "}"), nil
}

func separator(buffer *bytes.Buffer) string {
	if buffer.Len() > 0 {
		return ","
	}
	return ""
}

// section reads a mapping by its declaration. Faults are recorded; what is right
// is read all the same.
func (r *reader) section(s *section, n *yaml.Node) *values {
	v := &values{section: s, node: n, entries: map[string]entry{}, extra: map[string]json.RawMessage{}}
	seen := map[string]*yaml.Node{}
	for name, value := range pairs(n) {
		if first := seen[fold(name.Value)]; first != nil {
			r.fault(name, fmt.Sprintf("is the same key as %s in line %d", quoted(first.Value), first.Line), "keys ignore case and underscores")
			continue
		}
		seen[fold(name.Value)] = name
		r.pair(v, name, value)
	}
	r.complete(v)
	return v
}

func (r *reader) pair(v *values, name, value *yaml.Node) {
	k := v.section.find(name.Value)
	switch {
	case k == nil && v.section.rest:
		v.extra[name.Value], _ = r.freeForm(value)
		v.order = append(v.order, name.Value)
	case k == nil:
		r.unknown(v, name)
	case null(value):
	default:
		r.entry(v, k, value)
	}
}

func (r *reader) entry(v *values, k *key, value *yaml.Node) {
	read, err := k.kind.read(r, value)
	if err != nil {
		r.complain(value, k.kind, err)
		v.entries[k.name] = entry{node: value} // wrong is not missing
		return
	}
	v.entries[k.name] = entry{value, read}
}

func (r *reader) unknown(v *values, name *yaml.Node) {
	names := v.section.names()
	meaning := successors[name.Value]
	if meaning != "" && v.section.find(meaning) != nil {
		r.fault(name, "is a key of NNI's v1 schema", "here it is "+meaning)
	} else {
		meaning = nearest(name.Value, names)
		r.fault(name, "no such key", meantAmong(name.Value, names))
	}
	if meaning != "" && !v.has(meaning) {
		v.entries[meaning] = entry{node: name} // mistyped is not missing
	}
}

// complete applies defaults and finds what is missing.
func (r *reader) complete(v *values) {
	for _, k := range v.section.keys {
		if v.has(k.name) {
			continue
		}
		if k.fallback != nil {
			v.entries[k.name] = entry{value: k.fallback}
		}
		if k.required {
			r.missing(v, k.name)
		}
	}
}

// missing records that a key is required, at the mapping that lacks it.
func (r *reader) missing(v *values, name string) {
	hint := ""
	if k := v.section.find(name); k != nil {
		hint = fmt.Sprintf("%s: %s", k.doc, k.kind.words)
	}
	r.missingAt(v.node, name, hint)
}

func (r *reader) missingAt(n *yaml.Node, name, hint string) {
	r.faults.add(func() Fault {
		fault := r.document.at(n, "is required", hint)
		fault.Field = r.document.lacking(n, name)
		return fault
	})
}

// lacking is how the file would spell a key that a mapping does not have.
func (d *document) lacking(n *yaml.Node, name string) string {
	if spelled := d.spelled[n][name]; spelled != "" {
		return spelled
	}
	return join(d.fields[n], name)
}
