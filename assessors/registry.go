package assessors

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/perennial-ml/perennial/searchspace"
)

// Native returns the assessors of this build, by their names in lower case. The
// map is the caller's own.
func Native() map[string]Constructor {
	return map[string]Constructor{"medianstop": NewMedianstop}
}

// Known returns how NNI spells each of its assessors, by their names in lower
// case, whether or not this build has them. The map is the caller's own.
func Known() map[string]string {
	return map[string]string{"medianstop": "Medianstop", "curvefitting": "Curvefitting"}
}

// Names lists the assessors of this build as NNI spells them, sorted.
func Names() []string {
	known := Known()
	var names []string
	for name := range Native() {
		names = append(names, known[name])
	}
	slices.Sort(names)
	return names
}

// New builds the assessor that spec names. Errors name the assessor or the
// argument that is wrong, and what would be right.
func New(spec Spec) (Assessor, error) {
	build, ok := Native()[strings.ToLower(spec.Name)]
	if !ok {
		return nil, nameError(spec.Name)
	}
	return build(spec)
}

func nameError(name string) error {
	build := strings.Join(Names(), ", ")
	known := Known()
	if canonical, ok := known[strings.ToLower(name)]; ok {
		return fmt.Errorf("assessor %s is not in this build: choose one of %s", canonical, build)
	}
	if nearest := searchspace.Nearest(name, slices.Sorted(maps.Values(known))); nearest != "" {
		return fmt.Errorf("there is no assessor %q: did you mean %s? (in this build: %s)", name, nearest, build)
	}
	return fmt.Errorf("there is no assessor %q: choose one of %s", name, build)
}
