package main

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/assessors"
	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/all"
	"github.com/perennial-ml/perennial/tuners"
	"github.com/perennial-ml/perennial/tuners/bridge"
)

// build is what this program can run.
func build() experiment.Build {
	registry := all.All(all.Options{})
	return experiment.Build{
		Tuners:         tuners.Names(),
		Assessors:      assessors.Names(),
		Platforms:      slices.Sorted(maps.Keys(registry)),
		GPUs:           true,
		CheckTuner:     checkTuner,
		CheckAssessor:  checkAssessor,
		CheckAlgorithm: checkAlgorithm,
		TryAlgorithms:  tryAlgorithms,
		CheckPlatform:  checkPlatform,
		RunsHere:       func(platform string) bool { return registry[platform].Traits.RunsHere },
	}
}

func checkTuner(name string, arguments, space json.RawMessage) error {
	// Whether there is such a directory is known when the experiment runs.
	const somewhere = "/checkpoint"
	_, err := tuners.New(tuners.Spec{Name: name, Arguments: arguments, Space: space, Checkpoints: somewhere})
	return err
}

// checkAlgorithm looks for what an algorithm that is a process needs, in the
// environment that it will be given: the caller's.
func checkAlgorithm(kind string, a experiment.Algorithm) error {
	return bridge.Check(context.Background(), kind, bridge.Algorithm{
		Name: a.Name, ClassName: a.ClassName, CodeDirectory: a.CodeDirectory, Command: a.Command, Arguments: a.Arguments,
	}, os.Environ())
}

// tryAlgorithms tries what an experiment would run, in the same environment.
func tryAlgorithms(e experiment.Experiment) []experiment.TryFault {
	return activities.Try(context.Background(), e, os.Environ())
}

func checkAssessor(name string, arguments json.RawMessage) error {
	_, err := assessors.New(assessors.Spec{Name: name, Arguments: arguments})
	return err
}

// checkPlatform has the faults of a platform that knows their places shown there,
// and any other error at its name.
func checkPlatform(name string, options json.RawMessage) []experiment.OptionFault {
	err := all.All(all.Options{Environment: os.Environ()}).Check(name, options)
	if err == nil {
		return nil
	}
	var faults platforms.OptionFaults
	if !errors.As(err, &faults) {
		return []experiment.OptionFault{{Message: err.Error()}}
	}
	var placed []experiment.OptionFault
	for _, f := range faults {
		placed = append(placed, experiment.OptionFault(f))
	}
	return placed
}
