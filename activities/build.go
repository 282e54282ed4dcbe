package activities

import (
	"hash/fnv"
	"path/filepath"
	"slices"
	"strings"

	"github.com/perennial-ml/perennial/assessors"
	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/tuners"
	"github.com/perennial-ml/perennial/tuners/bridge"
)

// bridged tells whether an algorithm is none of ours and runs in a process.
func bridged(algorithm experiment.Algorithm) bool {
	name := strings.ToLower(algorithm.Name)
	return name == "" || tuners.Native()[name] == nil && assessors.Native()[name] == nil
}

// together tells whether tuner and assessor share one process, as they do in NNI:
// where both are NNI's or classes of its users.
func together(config experiment.Experiment) bool {
	return config.Assessor != nil && bridged(*config.Assessor) && bridged(config.Tuner) &&
		config.Assessor.Command == "" && config.Tuner.Command == ""
}

// build makes the tuner an experiment was accepted with. A later search space
// reaches it as an event, like everything else.
func (a *Activities) build(row record.Experiment) func() (tuners.Tuner, error) {
	return func() (tuners.Tuner, error) {
		config, err := a.config(row)
		if err != nil {
			return nil, err
		}
		if !bridged(config.Tuner) {
			return a.native(config, row.ID)
		}
		spec := a.spec(config, row.ID)
		spec.Tuner = process(config.Tuner)
		if together(config) {
			spec.Assessor = process(*config.Assessor)
		}
		return bridge.Open(spec)
	}
}

// native makes a tuner of ours.
func (a *Activities) native(config experiment.Experiment, id string) (tuners.Tuner, error) {
	return a.Tuners(tuners.Spec{
		Name: config.Tuner.Name, Arguments: config.Tuner.Arguments,
		Space: config.SearchSpace, Seed: seed(id), Checkpoints: a.checkpoints(config, id),
	})
}

// buildAssessor makes an assessor of ours, or one that is a process of its own.
func (a *Activities) buildAssessor(row record.Experiment) func() (tuners.Tuner, error) {
	return func() (tuners.Tuner, error) {
		config, err := a.config(row)
		if err != nil {
			return nil, err
		}
		if !bridged(*config.Assessor) {
			assessor, err := a.Assessors(assessors.Spec{Name: config.Assessor.Name, Arguments: config.Assessor.Arguments})
			return &native{Assessor: assessor}, err
		}
		spec := a.spec(config, row.ID)
		spec.Assessor = process(*config.Assessor)
		return bridge.Open(spec)
	}
}

func process(a experiment.Algorithm) *bridge.Algorithm {
	return &bridge.Algorithm{
		Name: a.Name, ClassName: a.ClassName, CodeDirectory: a.CodeDirectory, Command: a.Command, Arguments: a.Arguments,
	}
}

func (a *Activities) spec(config experiment.Experiment, id string) bridge.Spec {
	home := a.home(config, id)
	spec := bridge.Spec{
		Experiment: id, Space: config.SearchSpace, Seed: seed(id), GPUs: config.TunerGPUs, LogLevel: config.LogLevel,
		Home:     bridge.Home{Log: filepath.Join(home, "log"), Checkpoint: filepath.Join(home, "checkpoint")},
		Patience: config.AlgorithmTimeout.Duration(),
	}
	if a.Variables != nil {
		spec.Home.Environment = a.Variables(id)
	}
	return spec
}

// home is where an experiment's files are on this host; empty where that is unknown.
func (a *Activities) home(config experiment.Experiment, id string) string {
	home := directory(config, id)
	if home == "" && a.StateDirectory != "" {
		home = filepath.Join(a.StateDirectory, "experiments", id)
	}
	return home
}

// checkpoints is where an experiment's trials may leave checkpoints for each other,
// as in NNI; empty where there is no directory that all can reach for sure.
func (a *Activities) checkpoints(config experiment.Experiment, id string) string {
	home := a.home(config, id)
	elsewhere := slices.ContainsFunc(config.Platforms, func(p experiment.Platform) bool {
		return !a.Sections.Registry()[p.Name].Traits.RunsHere
	})
	if home == "" || elsewhere {
		return ""
	}
	return filepath.Join(home, "checkpoint")
}

// seed is the default seed of an experiment's random numbers.
func seed(id string) uint64 {
	hash := fnv.New64a()
	hash.Write([]byte(id))
	return hash.Sum64()
}
