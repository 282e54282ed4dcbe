package experiment

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/perennial-ml/perennial/searchspace"
	"go.yaml.in/yaml/v3"
)

var searchSpaceKind = kind{"a mapping", readSearchSpace, schemaOf("type", "object")}

func readSearchSpace(r *reader, n *yaml.Node) (any, error) {
	if n.Kind != yaml.MappingNode {
		return nil, errKind
	}
	raw, places := r.freeForm(n)
	r.inline = places
	return raw, nil
}

// space is a search space and a way from a JSON pointer into it to a fault there.
type space struct {
	raw   json.RawMessage
	fault func(pointer string) Fault
}

// searchSpace finds the search space and checks that the tuner can use it.
func (r *reader) searchSpace(top *values, tuner Algorithm) json.RawMessage {
	found := r.findSpace(top)
	if found == nil {
		return nil
	}
	warnings, err := CheckSpace(found.raw, tuner)
	for _, f := range warnings {
		r.warnings.add(func() Fault { return found.place(f) })
	}
	if err == nil && slices.Contains(r.build.Tuners, tuner.Name) && r.build.CheckTuner != nil {
		err = r.build.CheckTuner(tuner.Name, tuner.Arguments, found.raw)
	}
	if err != nil {
		r.spaceFaults(found, top, err)
	}
	return found.raw
}

// CheckSpace holds a space to NNI's rules. A class or a program of the user's own
// may have rules of its own. The error, if any, is searchspace.Faults.
func CheckSpace(raw json.RawMessage, tuner Algorithm) (warnings searchspace.Faults, err error) {
	if tuner.ClassName != "" || tuner.Command != "" {
		return nil, nil
	}
	if tuner.Name == "Batch" {
		_, err = searchspace.Elements(raw)
		return nil, err
	}
	space, err := searchspace.Parse(raw)
	if err != nil {
		return nil, err
	}
	return space.Warnings, nil
}

func (r *reader) spaceFaults(found *space, top *values, err error) {
	var faults searchspace.Faults
	if !errors.As(err, &faults) {
		section := get[*values](top, "tuner")
		if section == nil {
			section = get[*values](top, "advisor")
		}
		r.fault(argumentsNode(section), err.Error(), "")
		return
	}
	known := map[[3]any]bool{}
	for _, fault := range r.faults.first {
		known[fault.where()] = true
	}
	for i, f := range faults {
		if r.faults.full() {
			r.faults.count += len(faults) - i
			return
		}
		placed := found.place(f)
		if !known[placed.where()] {
			known[placed.where()] = true
			r.faults.add(func() Fault { return placed })
		}
	}
}

// place is a fault of the space as one of the file it stands in.
func (s *space) place(f searchspace.Fault) Fault {
	placed := s.fault(f.Path)
	placed.Message, placed.Hint = f.Message, "want "+f.Want
	return placed
}

func (r *reader) findSpace(top *values) *space {
	file, inline := top.has("searchSpaceFile"), top.has("searchSpace")
	switch {
	case file && inline:
		r.warn(top.at("searchSpace"), "is not used: searchSpaceFile wins", "remove one of them")
		return r.spaceFile(top)
	case file:
		return r.spaceFile(top)
	case !inline:
		r.missing(top, "searchSpaceFile")
		return nil
	case r.inline == nil:
		return nil
	}
	return &space{get[json.RawMessage](top, "searchSpace"), r.document.within(r.inline)}
}

// within places faults in a tree.
func (d *document) within(places map[string]*yaml.Node) func(string) Fault {
	return func(pointer string) Fault {
		node := places[pointer]
		for node == nil {
			pointer = parent(pointer)
			node = places[pointer]
		}
		return d.at(node, "", "")
	}
}

// parent of a JSON pointer; that of the root is the root, which always has a place.
func parent(pointer string) string { return pointer[:max(strings.LastIndex(pointer, "/"), 0)] }

// spaceFile reads a search space from its file, which is JSON or else YAML.
func (r *reader) spaceFile(top *values) *space {
	path := get[string](top, "searchSpaceFile")
	if path == "" {
		return nil
	}
	node := top.at("searchSpaceFile")
	content, err := ReadFile(path, maxJSON)
	if err == nil && len(content) > maxJSON {
		err = fmt.Errorf("is larger than %d MiB", maxJSON>>20)
	}
	if err != nil {
		r.fault(node, fmt.Sprintf("the search space %s %v", quoted(node.Value), err), "it was looked for at "+path)
		return nil
	}
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	name := r.shown(node.Value)
	if json.Valid(content) {
		return jsonSpace(name, content)
	}
	return r.yamlSpace(name, content)
}

// shown is a path as the user would write it from where the file was named.
func (r *reader) shown(written string) string {
	if filepath.IsAbs(written) || strings.HasPrefix(written, "~") {
		return written
	}
	return filepath.Join(filepath.Dir(r.document.name), written)
}

func jsonSpace(name string, content []byte) *space {
	lines := splitLines(content)
	places := jsonPlaces(content)
	return &space{content, func(pointer string) Fault {
		offset, found := places[pointer]
		for !found {
			pointer = parent(pointer)
			offset, found = places[pointer]
		}
		return inJSON(Fault{File: name, Field: field(pointer)}, lines, content[:offset])
	}}
}

// inJSON places a fault behind what was read before it.
func inJSON(f Fault, lines []string, read []byte) Fault {
	f.Line = bytes.Count(read, []byte("\n")) + 1
	f.Column = utf8.RuneCount(read[bytes.LastIndexByte(read, '\n')+1:]) + 1
	f.Source, f.caret = lines[min(f.Line, len(lines))-1], f.Column
	return f
}

// field spells a JSON pointer as faults do: "/lr/_value/1" is lr._value[1].
func field(pointer string) string {
	var spelled string
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		if _, err := strconv.Atoi(token); err == nil && spelled != "" {
			spelled += "[" + token + "]"
			continue
		}
		spelled = join(spelled, token)
	}
	return spelled
}

// yamlSpace reads a search space that is no valid JSON.
func (r *reader) yamlSpace(name string, content []byte) *space {
	d := newDocument(name, content)
	d.masks = nil
	own := &reader{document: d}
	if d.root == nil || len(d.faults.first) > 0 {
		r.faults.take(findings{notYAML(name, content, d.faults.first), d.faults.count})
		return nil
	}
	raw, places := own.freeForm(d.root)
	r.faults.take(own.faults)
	r.warnings.take(own.warnings)
	if own.faults.count > 0 {
		return nil
	}
	return &space{raw, d.within(places)}
}

// notYAML prefers what the JSON parser says of a file that looks like JSON.
func notYAML(name string, content []byte, faults []Fault) []Fault {
	var ignored any
	var syntax *json.SyntaxError
	err := json.Unmarshal(content, &ignored)
	looksLikeJSON := bytes.HasPrefix(bytes.TrimSpace(content), []byte("{"))
	if !looksLikeJSON || !errors.As(err, &syntax) {
		return faults
	}
	read := content[:max(min(int(syntax.Offset), len(content))-1, 0)]
	f := inJSON(Fault{File: name}, splitLines(content), read)
	f.Message = "is not JSON: " + syntax.Error()
	return []Fault{f}
}

// jsonPlaces returns the offset of every value of a valid JSON text, by pointer.
func jsonPlaces(content []byte) map[string]int64 {
	p := placer{content: content, decoder: json.NewDecoder(bytes.NewReader(content)), places: map[string]int64{}}
	p.value("")
	return p.places
}

type placer struct {
	content []byte
	decoder *json.Decoder
	places  map[string]int64
}

// next is the offset of the token to come, behind blanks and separators.
func (p *placer) next() int64 {
	offset := p.decoder.InputOffset()
	for int(offset) < len(p.content) && bytes.IndexByte([]byte(" \t\r\n:,"), p.content[offset]) >= 0 {
		offset++
	}
	return offset
}

func (p *placer) value(pointer string) {
	p.places[pointer] = p.next()
	token, _ := p.decoder.Token() // the text is valid
	delimiter, _ := token.(json.Delim)
	for i := 0; delimiter != 0 && p.decoder.More(); i++ {
		step := strconv.Itoa(i)
		if delimiter == '{' {
			name, _ := p.decoder.Token()
			step = escaped(name.(string))
		}
		p.value(pointer + "/" + step)
	}
	if delimiter != 0 {
		p.decoder.Token()
	}
}
