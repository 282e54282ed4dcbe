package tuners

import (
	"encoding/json"
	"fmt"

	"github.com/perennial-ml/perennial/arguments"
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
func (o *tpeOptions) tpeArgs() arguments.Check {
	return arguments.Members(map[string]arguments.Check{
		"constant_liar_type": o.liarType(),
		"n_startup_jobs":     arguments.Integer(&o.startup, 1, 1_000_000),
		"n_ei_candidates":    arguments.Integer(&o.candidates, 1, 1000),
		"linear_forgetting":  arguments.Integer(&o.forgetting, 1, 1_000_000),
		"prior_weight":       arguments.Number(&o.prior, 1e-6, 1e6),
		"gamma":              arguments.Number(&o.gamma, 1e-6, 1e6),
	})
}

// liarType reads constant_liar_type, which may be null.
func (o *tpeOptions) liarType() arguments.Check {
	word := arguments.Word(&o.liar, liarBest, liarWorst, liarMean)
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
