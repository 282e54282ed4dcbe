package tuners

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/perennial-ml/perennial/arguments"
	"github.com/perennial-ml/perennial/searchspace"
)

// Native returns the algorithms of this build, by their names in lower case,
// aliases included. The map is the caller's own.
func Native() map[string]Constructor {
	return map[string]Constructor{
		"random":     NewRandom,
		"gridsearch": NewGridSearch,
		"batch":      NewBatch,
		"batchtuner": NewBatch,
		"tpe":        NewTPE,
		"tpe_legacy": NewTPELegacy,
		"anneal":     NewAnneal,
		"asha":       NewASHA,
		"evolution":  NewEvolution,
		"hyperband":  NewHyperband,
		"pbt":        NewPBT,
		"pbttuner":   NewPBT,

		"regularizedevolution":      NewRegularizedEvolution,
		"regularizedevolutiontuner": NewRegularizedEvolution,
		"bohb":                      NewBOHB,
		"gp":                        NewGP,
		"gptuner":                   NewGP,
		"cmaes":                     NewCMAES,
		"cma-es":                    NewCMAES,
	}
}

// Known returns how NNI spells each of its tuners and advisors, by their names and
// aliases in lower case, whether or not this build has them. The map is the
// caller's own.
func Known() map[string]string {
	known := map[string]string{
		"cma-es":     "CMAES",
		"batchtuner": "Batch", "metistuner": "Metis", "gptuner": "GP", "pbttuner": "PBT", "dngotuner": "DNGO",
		"ppotuner": "PPO", "regularizedevolutiontuner": "RegularizedEvolution",
	}
	for _, name := range []string{"Random", "GridSearch", "TPE", "TPE_legacy", "Anneal", "Evolution", "Batch",
		"SMAC", "Metis", "GP", "PBT", "DNGO", "PPO", "RegularizedEvolution", "NetworkMorphism", "Hyperband", "BOHB", "ASHA", "CMAES"} {
		known[strings.ToLower(name)] = name
	}
	return known
}

// Names lists the algorithms of this build as NNI spells them, sorted, each once.
func Names() []string {
	known := Known()
	var names []string
	for name := range Native() {
		names = append(names, known[name])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// New builds the tuner that spec names. What is wrong with the search space comes
// as searchspace.Faults (errors.As); other errors name the tuner or the argument.
func New(spec Spec) (Tuner, error) {
	build, ok := Native()[strings.ToLower(spec.Name)]
	if !ok {
		return nil, nameError(spec.Name)
	}
	return build(spec)
}

// Describe returns the arguments of a tuner of this build, sorted by name, as its
// constructor checks them.
func Describe(name string) []arguments.Argument {
	return arguments.Describe(func(given json.RawMessage) error {
		_, err := New(Spec{Name: name, Arguments: given})
		return err
	}, meaningsOf(name))
}

func nameError(name string) error {
	build := strings.Join(Names(), ", ")
	known := Known()
	if canonical, ok := known[strings.ToLower(name)]; ok {
		return fmt.Errorf("tuner %s is not in this build: choose one of %s", canonical, build)
	}
	spellings := slices.Compact(slices.Sorted(maps.Values(known)))
	if nearest := searchspace.Nearest(name, spellings); nearest != "" {
		return fmt.Errorf("there is no tuner %q: did you mean %s? (in this build: %s)", name, nearest, build)
	}
	return fmt.Errorf("there is no tuner %q: choose one of %s", name, build)
}
