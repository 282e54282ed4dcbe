package activities

import (
	"context"
	"errors"
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
		return bridge.Open(a.spec(config, row.ID, roleTuner))
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
		return bridge.Open(a.spec(config, row.ID, roleAssessor))
	}
}

// Try does with the algorithms of an experiment that run in processes of their own
// what the experiment would do first, in an environment, NAME=value, and ends them.
func Try(ctx context.Context, config experiment.Experiment, environment []string) (faults []experiment.TryFault) {
	for kind, spec := range specs(config) {
		spec.Experiment, spec.Home.Environment = "trying00", environment
		err := bridge.Try(ctx, spec)
		if err == nil {
			continue
		}
		fault := experiment.TryFault{Kind: string(kind), Message: err.Error()}
		var broken *bridge.Breakdown
		if errors.As(err, &broken) && len(broken.Traceback) > 1 {
			fault.Hint = "what it said last:\n      " + strings.Join(broken.Traceback, "\n      ")
		}
		faults = append(faults, fault)
	}
	return faults
}

// specs are an experiment's processes, by the role of what they are started for.
func specs(config experiment.Experiment) map[role]bridge.Spec {
	common := bridge.Spec{Space: config.SearchSpace, GPUs: config.TunerGPUs, LogLevel: config.LogLevel, Patience: config.AlgorithmTimeout.Duration()}
	all := map[role]bridge.Spec{}
	if bridged(config.Tuner) {
		spec := common
		spec.Tuner = process(config.Tuner)
		if together(config) {
			spec.Assessor = process(*config.Assessor)
		}
		all[roleTuner] = spec
	}
	if config.Assessor != nil && bridged(*config.Assessor) && !together(config) {
		spec := common
		spec.Assessor = process(*config.Assessor)
		all[roleAssessor] = spec
	}
	return all
}

func process(a experiment.Algorithm) *bridge.Algorithm {
	return &bridge.Algorithm{
		Name: a.Name, ClassName: a.ClassName, CodeDirectory: a.CodeDirectory, Command: a.Command, Arguments: a.Arguments,
	}
}

func (a *Activities) spec(config experiment.Experiment, id string, role role) bridge.Spec {
	home := a.home(config, id)
	spec := specs(config)[role]
	spec.Experiment, spec.Seed = id, seed(id)
	spec.Home = bridge.Home{Log: filepath.Join(home, "log"), Checkpoint: filepath.Join(home, "checkpoint")}
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
