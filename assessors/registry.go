package assessors

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/perennial-ml/perennial/arguments"
	"github.com/perennial-ml/perennial/searchspace"
)

// Native returns the assessors of this build, by their names in lower case. The
// map is the caller's own.
func Native() map[string]Constructor {
	return map[string]Constructor{"asha": NewASHA, "curvefitting": NewCurvefitting, "medianstop": NewMedianstop}
}

// Names lists the assessors of this build as they are spelled, sorted.
func Names() []string { return []string{"ASHA", "Curvefitting", "Medianstop"} }

// New builds the assessor that spec names. Errors name the assessor or the
// argument that is wrong, and what would be right.
func New(spec Spec) (Assessor, error) {
	build, ok := Native()[strings.ToLower(spec.Name)]
	if !ok {
		return nil, nameError(spec.Name)
	}
	return build(spec)
}

// Describe returns the arguments of an assessor of this build, sorted by name, as its
// constructor checks them.
func Describe(name string) []arguments.Argument {
	return arguments.Describe(func(given json.RawMessage) error {
		_, err := New(Spec{Name: name, Arguments: given})
		return err
	}, meaningsOf(name))
}

func nameError(name string) error {
	if nearest := searchspace.Nearest(name, Names()); nearest != "" {
		return fmt.Errorf("there is no assessor %q: did you mean %s?", name, nearest)
	}
	return fmt.Errorf("there is no assessor %q: choose one of %s", name, strings.Join(Names(), ", "))
}
