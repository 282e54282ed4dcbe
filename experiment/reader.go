package experiment

import (
	"errors"

	"go.yaml.in/yaml/v3"
)

// reader reads one experiment file and gathers what is wrong with it.
type reader struct {
	document  *document
	directory string // of the file, absolute: relative paths start there
	build     Build
	converted bool                  // from v1
	inline    map[string]*yaml.Node // the search space in the file itself, by JSON pointer
	tried     map[string]*yaml.Node // the algorithms that could be tried, by their kind
	services  []func()              // asks each platform's service
	faults    findings
	warnings  findings
}

func (r *reader) fault(n *yaml.Node, message, hint string) {
	r.faults.add(func() Fault { return r.document.at(n, message, hint) })
}

func (r *reader) warn(n *yaml.Node, message, hint string) {
	if r.document.hidden(n) {
		message = "could be read in two ways"
	}
	r.warnings.add(func() Fault { return r.document.at(n, message, hint) })
}

// complain records why a value was refused.
func (r *reader) complain(n *yaml.Node, k kind, err error) {
	var c complaint
	if errors.As(err, &c) && c.message != "" {
		r.fault(n, c.message, c.hint)
		return
	}
	message := "must be " + k.words
	if !r.document.hidden(n) {
		message += ", not " + described(n)
	}
	r.fault(n, message, c.hint)
}

// at returns the node of a key's value, or that of the mapping that lacks it.
func (v *values) at(name string) *yaml.Node {
	if node := v.entries[name].node; node != nil {
		return node
	}
	return v.node
}
