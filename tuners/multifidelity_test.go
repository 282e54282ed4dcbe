package tuners_test

import (
	"encoding/json"
	"testing"

	"github.com/perennial-ml/perennial/testsuite/tunertest"
	"github.com/perennial-ml/perennial/tuners"
)

// inSpaceBeside is InSpace for tuners that add keys of their own.
func inSpaceBeside(keys ...string) func(space, parameters json.RawMessage) error {
	return func(space, parameters json.RawMessage) error {
		var given map[string]json.RawMessage
		if err := json.Unmarshal(parameters, &given); err != nil {
			return err
		}
		for _, key := range keys {
			delete(given, key)
		}
		bare, err := json.Marshal(given)
		if err != nil {
			return err
		}
		return tunertest.InSpace(space, bare)
	}
}

func TestHyperbandKeepsTheTunersPromises(t *testing.T) {
	for _, arguments := range []string{`{"R": 4, "eta": 2}`, `{"R": 9, "exec_mode": "serial"}`} {
		tunertest.Run(t, tuners.New, tunertest.Options{
			Spec:   tuners.Spec{Name: "Hyperband", Seed: 1, Arguments: json.RawMessage(arguments)},
			Admits: inSpaceBeside("TRIAL_BUDGET"),
		})
	}
}

func TestASHAKeepsTheTunersPromises(t *testing.T) {
	for _, arguments := range []string{`{"max_budget": 4, "eta": 2}`, `{"max_budget": 9, "eta": 2, "checkpoints": true}`} {
		tunertest.Run(t, tuners.New, tunertest.Options{
			Spec:   tuners.Spec{Name: "ASHA", Seed: 1, Arguments: json.RawMessage(arguments), Checkpoints: "/c"},
			Admits: inSpaceBeside("TRIAL_BUDGET", "load_checkpoint_dir", "save_checkpoint_dir"),
		})
	}
}

func TestPBTKeepsTheTunersPromises(t *testing.T) {
	tunertest.Run(t, tuners.New, tunertest.Options{
		Spec:   tuners.Spec{Name: "PBTTuner", Seed: 1, Arguments: json.RawMessage(`{"population_size": 3, "fraction": 0.4}`), Checkpoints: "/c"},
		Admits: inSpaceBeside("load_checkpoint_dir", "save_checkpoint_dir"),
	})
}
