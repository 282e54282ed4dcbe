// Package all is the list of training platforms of this build, as a value.
package all

import (
	"encoding/json"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/fake"
	"github.com/perennial-ml/perennial/platforms/local"
	"github.com/perennial-ml/perennial/platforms/remote"
)

// Options are what platforms stand on.
type Options struct {
	Runner         string     // absolute path of the runner's binary for this machine
	StateDirectory string     // absolute, on a disk of this machine
	GPUs           gpu.Prober // of this machine; nil: gpu.Text
	// Runners returns the runner's binary for other machines, by Go's names for
	// their kind.
	Runners func(system, processor string) ([]byte, error)
	// Sections returns the sections of a platform in an experiment, secrets
	// resolved: each is called by the name of the experiment that it acts for.
	Sections func(experiment, platform string) ([]json.RawMessage, error)
	// LookupEnv finds variables of whoever ran an experiment.
	LookupEnv func(experiment, name string) (string, bool)
}

// Constructor makes one platform. It touches nothing outside this process yet.
type Constructor func() platforms.Platform

// All returns the platforms by their names in configurations.
func All(options Options) map[string]Constructor {
	return map[string]Constructor{
		local.Name: func() platforms.Platform {
			return local.New(local.Options{Runner: options.Runner, StateDirectory: options.StateDirectory, GPUs: options.GPUs})
		},
		remote.Name: func() platforms.Platform { return remote.New(remoteOptions(options)) },
		fake.Name: func() platforms.Platform {
			return fake.New(fake.Options{StateDirectory: options.StateDirectory})
		},
	}
}

func remoteOptions(options Options) remote.Options {
	made := remote.Options{StateDirectory: options.StateDirectory, Runner: options.Runners, LookupEnv: options.LookupEnv}
	if options.Sections != nil {
		made.Sections = func(experiment string) ([]json.RawMessage, error) { return options.Sections(experiment, remote.Name) }
	}
	return made
}

// Check tells whether the named platform takes these options, its own section of
// a configuration.
func Check(name string, options json.RawMessage) error {
	switch name {
	case remote.Name:
		return remote.CheckOptions(options)
	case fake.Name:
		_, err := fake.ParseOptions(options)
		return err
	}
	return nil
}
