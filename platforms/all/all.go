// Package all is the list of training platforms of this build, as a value.
package all

import (
	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/adl"
	"github.com/perennial-ml/perennial/platforms/aml"
	"github.com/perennial-ml/perennial/platforms/dlc"
	"github.com/perennial-ml/perennial/platforms/dlts"
	"github.com/perennial-ml/perennial/platforms/executable"
	"github.com/perennial-ml/perennial/platforms/fake"
	"github.com/perennial-ml/perennial/platforms/frameworkcontroller"
	"github.com/perennial-ml/perennial/platforms/kubeflow"
	"github.com/perennial-ml/perennial/platforms/kubernetes"
	"github.com/perennial-ml/perennial/platforms/local"
	"github.com/perennial-ml/perennial/platforms/openpai"
	"github.com/perennial-ml/perennial/platforms/remote"
	"github.com/perennial-ml/perennial/platforms/uaitrain"
)

// Options are what platforms stand on.
type Options struct {
	Runner         string     // absolute path of the runner's binary for this machine
	StateDirectory string     // absolute, on a disk of this machine
	Home           string     // platforms.Home of the state directory; empty: nothing is marked as its own
	GPUs           gpu.Prober // of this machine; nil: gpu.Text
	// Runners returns the runner's binary for other machines, by Go's names for
	// their kind.
	Runners func(system, processor string) ([]byte, error)
	// Environment is what platforms that users write find in theirs, NAME=value, where
	// nobody knows that of whoever ran the experiment.
	Environment []string
}

// All returns the platforms of this build. It touches nothing outside this process.
func All(options Options) platforms.Registry {
	registry := platforms.Registry{}
	for _, kind := range []platforms.Kind{
		local.New(local.Options{Runner: options.Runner, StateDirectory: options.StateDirectory, GPUs: options.GPUs}),
		remote.New(remote.Options{StateDirectory: options.StateDirectory, Runner: options.Runners}),
		adl.New(adl.Options{StateDirectory: options.StateDirectory, Home: options.Home, Runner: options.Runners}),
		frameworkcontroller.New(frameworkcontroller.Options{StateDirectory: options.StateDirectory, Home: options.Home, Runner: options.Runners}),
		kubeflow.New(kubeflow.Options{StateDirectory: options.StateDirectory, Home: options.Home, Runner: options.Runners}),
		kubernetes.New(kubernetes.Options{StateDirectory: options.StateDirectory, Home: options.Home, Runner: options.Runners}),
		openpai.New(openpai.Options{StateDirectory: options.StateDirectory, Runner: options.Runner}),
		aml.New(aml.Options{StateDirectory: options.StateDirectory, Runner: options.Runners}),
		dlc.New(dlc.Options{StateDirectory: options.StateDirectory, Runner: options.Runner}),
		dlts.New(dlts.Options{StateDirectory: options.StateDirectory, Runner: options.Runner}),
		uaitrain.New(uaitrain.Options{StateDirectory: options.StateDirectory, Runner: options.Runner}),
		fake.New(fake.Options{StateDirectory: options.StateDirectory}),
		executable.New(executable.Options{StateDirectory: options.StateDirectory, Runner: options.Runner, Environment: options.Environment}),
	} {
		registry[kind.Traits.Name] = kind
	}
	return registry
}
