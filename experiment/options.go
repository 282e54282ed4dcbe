package experiment

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// OptionFault is one thing that a platform finds wrong with its section.
type OptionFault struct {
	// Field is where, in canonical spelling, as in "machineList[1].host"; empty for
	// the section as a whole.
	Field   string
	Message string
	Hint    string // what would be right, empty where the message says it
}

// checkOptions asks the platform itself about its section. Of what was found wrong
// before, it was given nothing, and what it says about that is left out.
func (r *reader) checkOptions(v *values, options json.RawMessage) {
	if r.build.CheckPlatform == nil || !slices.Contains(r.build.Platforms, v.platform.name) {
		return
	}
	known := slices.Clone(r.faults.first)
	for _, f := range r.build.CheckPlatform(v.platform.name, options) {
		placed := r.optionFault(v, f)
		if !slices.ContainsFunc(known, placed.isAbout) {
			r.faults.add(func() Fault { return placed })
		}
	}
}

// checkTrial asks whether trials could begin, once they are said how.
func (r *reader) checkTrial(v *values, made Platform) {
	if r.build.TryPlatform != nil {
		r.services = append(r.services, func() { r.take(v, made, r.build.TryPlatform) })
	}
	if r.build.CheckTrial == nil || made.Command == "" && !v.platform.ownCommands || made.CodeDirectory == "" && !v.platform.codeElsewhere {
		return
	}
	r.take(v, made, r.build.CheckTrial)
}

// take places what somebody finds at a platform's section.
func (r *reader) take(v *values, made Platform, look func(Platform) (faults, warnings []OptionFault)) {
	faults, warnings := look(made)
	for _, f := range faults {
		r.faults.add(func() Fault { return r.optionFault(v, f) })
	}
	for _, f := range warnings {
		r.warnings.add(func() Fault { return r.optionFault(v, f) })
	}
}

// isAbout tells whether another fault is about the same field or one within it.
func (f Fault) isAbout(other Fault) bool {
	rest, within := strings.CutPrefix(other.Field, f.Field)
	return f.File == other.File && within && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// optionFault places a fault at its field, or where the section is silent about
// that at the mapping that lacks it.
func (r *reader) optionFault(v *values, f OptionFault) Fault {
	if f.Field == "" {
		return r.document.at(v.at("platform"), f.Message, f.Hint)
	}
	n, lacks := v.locate(f.Field)
	placed := r.document.at(n, f.Message, f.Hint)
	if lacks != "" {
		placed.Field = r.document.lacking(n, lacks)
	}
	return placed
}

// step is one key of a field's path, and the rest of the path.
var step = regexp.MustCompile(`^(\w+)(?:\[(\d+)\])?(?:\.(.*))?$`)

// locate returns the node of a field, or the deepest mapping on the way to it and
// the name that is missing there.
func (v *values) locate(field string) (n *yaml.Node, lacks string) {
	parts := step.FindStringSubmatch(field)
	if parts == nil || v.entries[parts[1]].node == nil {
		return v.node, field
	}
	found := v.entries[parts[1]]
	inner, ok := found.item(parts[2]).(*values)
	switch {
	case ok && parts[3] != "":
		return inner.locate(parts[3])
	case ok:
		return inner.node, ""
	}
	return found.node, ""
}

// item is an element of a list by its index, or without one the value itself.
func (e entry) item(index string) any {
	list, isList := e.value.([]any)
	i, err := strconv.Atoi(index)
	if !isList || err != nil || i >= len(list) {
		return e.value
	}
	return list[i]
}
