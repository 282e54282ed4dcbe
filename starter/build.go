package main

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"slices"

	"github.com/perennial-ml/perennial/assessors"
	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/platforms/all"
	"github.com/perennial-ml/perennial/tuners"
	"github.com/perennial-ml/perennial/tuners/bridge"
)

// build is what this program can run.
func build() experiment.Build {
	return experiment.Build{
		Tuners:         tuners.Names(),
		Assessors:      assessors.Names(),
		Platforms:      slices.Sorted(maps.Keys(all.All(all.Options{}))),
		GPUs:           true,
		CheckTuner:     checkTuner,
		CheckAssessor:  checkAssessor,
		CheckAlgorithm: checkAlgorithm,
		CheckPlatform:  all.Check,
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

func checkAssessor(name string, arguments json.RawMessage) error {
	_, err := assessors.New(assessors.Spec{Name: name, Arguments: arguments})
	return err
}
