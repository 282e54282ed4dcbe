package tuners

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// tpeOptions are the arguments of TPE.
type tpeOptions struct {
	seed       uint64
	minimize   bool
	startup    int     // n_startup_jobs: until so many results, draws are random
	candidates int     // n_ei_candidates: drawn for each suggestion
	forgetting int     // linear_forgetting: the latest bad trials, which count in full
	prior      float64 // prior_weight: of the kernel that is as wide as the space
	gamma      float64 // of NNI's rule for how many trials are good; 0: a share of them
	liar       string  // what running trials count as
}

// What running trials count as: NNI's four, and our own.
const (
	liarBest  = "best"
	liarWorst = "worst"
	liarMean  = "mean"
	liarNone  = "none"
	liarFaint = "" // bad ones, with little weight
)

// tpeDefaults are the options that did best in docs/tuner-quality.md. NNI's are
// n_startup_jobs 20, gamma 0.25 and constant_liar_type best.
func tpeDefaults(seed uint64) tpeOptions {
	return tpeOptions{seed: seed, minimize: true, startup: 10, candidates: 24, forgetting: 25, prior: 1, liar: liarFaint}
}

// tpeArgs reads the object tpe_args.
func (o *tpeOptions) tpeArgs() check {
	return members(map[string]check{
		"constant_liar_type": o.liarType(),
		"n_startup_jobs":     integerInto(&o.startup, 1, 1_000_000),
		"n_ei_candidates":    integerInto(&o.candidates, 1, 1000),
		"linear_forgetting":  integerInto(&o.forgetting, 1, 1_000_000),
		"prior_weight":       numberInto(&o.prior, 1e-6, 1e6),
		"gamma":              numberInto(&o.gamma, 1e-6, 1e6),
	})
}

// members reads an object, or null, by a check for each of its keys.
func members(checks map[string]check) check {
	names := strings.Join(slices.Sorted(maps.Keys(checks)), ", ")
	return func(value json.RawMessage) error {
		var given map[string]json.RawMessage
		if json.Unmarshal(value, &given) != nil {
			return fmt.Errorf("want an object with any of %s", names)
		}
		var faults []error
		for _, name := range slices.Sorted(maps.Keys(given)) {
			if check, ok := checks[name]; !ok {
				faults = append(faults, fmt.Errorf("it has no %q: want any of %s", name, names))
			} else if err := check(given[name]); err != nil {
				faults = append(faults, fmt.Errorf("%s is %s: %w", name, given[name], err))
			}
		}
		return errors.Join(faults...)
	}
}

// liarType reads constant_liar_type, which may be null.
func (o *tpeOptions) liarType() check {
	word := wordInto(&o.liar, liarBest, liarWorst, liarMean)
	return func(value json.RawMessage) error {
		if string(value) == "null" {
			o.liar = liarNone
			return nil
		}
		if err := word(value); err != nil {
			return fmt.Errorf("%w or null", err)
		}
		return nil
	}
}
