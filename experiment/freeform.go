package experiment

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// freeForm turns a tree whose keys are the user's own into JSON: keys in the order
// of the file and as written, numbers with their own digits.
type freeForm struct {
	r      *reader
	buffer bytes.Buffer
	places map[string]*yaml.Node // by JSON pointer
}

// freeForm returns the JSON of a tree, and the node of every JSON pointer into it.
func (r *reader) freeForm(n *yaml.Node) (json.RawMessage, map[string]*yaml.Node) {
	f := freeForm{r: r, places: map[string]*yaml.Node{}}
	f.value(n, "")
	return f.buffer.Bytes(), f.places
}

func (f *freeForm) value(n *yaml.Node, pointer string) {
	f.places[pointer] = n
	switch n.Kind {
	case yaml.MappingNode:
		f.mapping(n, pointer)
	case yaml.SequenceNode:
		f.list(n, pointer)
	default:
		f.scalar(n)
	}
}

func (f *freeForm) mapping(n *yaml.Node, pointer string) {
	separator := "{"
	for key, value := range pairs(n) {
		if _, ok := truth(key); ok {
			f.r.warn(key, fmt.Sprintf("the key %s is read as text; NNI reads a boolean", key.Value), "put it into quotes")
		}
		f.buffer.WriteString(separator)
		f.text(key.Value)
		f.buffer.WriteString(":")
		f.value(value, pointer+"/"+escaped(key.Value))
		separator = ","
	}
	f.buffer.WriteString(strings.TrimSuffix(separator, ",") + "}")
}

// escaped is a key as a reference token of a JSON pointer (RFC 6901).
func escaped(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}

func (f *freeForm) list(n *yaml.Node, pointer string) {
	f.buffer.WriteString("[")
	for i, item := range n.Content {
		if i > 0 {
			f.buffer.WriteString(",")
		}
		f.value(item, pointer+"/"+strconv.Itoa(i))
	}
	f.buffer.WriteString("]")
}

func (f *freeForm) scalar(n *yaml.Node) {
	if null(n) {
		f.buffer.WriteString("null")
		return
	}
	if value, ok := truth(n); ok {
		if n.ShortTag() != "!!bool" {
			f.r.warn(n, asRead(n, value), "put it into quotes if text is meant")
		}
		f.buffer.WriteString(strconv.FormatBool(value))
		return
	}
	if number, note, ok := jsonNumber(n); ok {
		if note != "" {
			f.r.warn(n, asRead(n, number)+": "+note, "put it into quotes if text is meant")
		}
		f.buffer.WriteString(number)
		return
	}
	f.other(n)
}

func (f *freeForm) other(n *yaml.Node) {
	switch tag := n.ShortTag(); {
	case plain(n) && tag == "!!float" && strings.ContainsAny(n.Value, "nN"):
		f.r.fault(n, fmt.Sprintf("%s is no finite number", n.Value), "")
	case !strings.HasPrefix(tag, "!!") || tag == "!!binary":
		f.r.fault(n, fmt.Sprintf("the tag %s is not understood", quoted(n.Tag)), "")
	}
	f.text(n.Value)
}

func (f *freeForm) text(text string) {
	encoder := json.NewEncoder(&f.buffer)
	encoder.SetEscapeHTML(false)
	encoder.Encode(text) // never fails on a string
	f.buffer.Truncate(f.buffer.Len() - 1)
}
