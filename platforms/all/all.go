// Package all is the list of training platforms of this build, as a value.
package all

import (
	"encoding/json"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/fake"
	"github.com/perennial-ml/perennial/platforms/local"
)

// Options are what platforms stand on.
type Options struct {
	Runner         string // absolute path of the runner's binary for this machine
	StateDirectory string // absolute, on a disk of this machine
}

// Constructor makes one platform. It touches nothing outside this process yet.
type Constructor func() platforms.Platform

// All returns the platforms by their names in configurations.
func All(options Options) map[string]Constructor {
	return map[string]Constructor{
		local.Name: func() platforms.Platform {
			return local.New(local.Options{Runner: options.Runner, StateDirectory: options.StateDirectory})
		},
		fake.Name: func() platforms.Platform {
			return fake.New(fake.Options{StateDirectory: options.StateDirectory})
		},
	}
}

// Check tells whether the named platform takes these options, its own section of
// a configuration.
func Check(name string, options json.RawMessage) error {
	if name != fake.Name {
		return nil
	}
	_, err := fake.ParseOptions(options)
	return err
}
