package main

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/perennial-ml/perennial/assessors"
	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/platforms/all"
	"github.com/perennial-ml/perennial/tuners"
)

// build is what this program can run.
func build() experiment.Build {
	return experiment.Build{
		Tuners:        tuners.Names(),
		Assessors:     assessors.Names(),
		Platforms:     slices.Sorted(maps.Keys(all.All(all.Options{}))),
		CheckTuner:    checkTuner,
		CheckAssessor: checkAssessor,
		CheckPlatform: all.Check,
	}
}

func checkTuner(name string, arguments, space json.RawMessage) error {
	_, err := tuners.New(tuners.Spec{Name: name, Arguments: arguments, Space: space})
	return err
}

func checkAssessor(name string, arguments json.RawMessage) error {
	_, err := assessors.New(assessors.Spec{Name: name, Arguments: arguments})
	return err
}
