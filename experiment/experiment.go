// Package experiment reads experiment.yml, in NNI's v1 and v2 schemas with our own
// keys beside them, and turns it into one canonical Experiment. Every fault is
// reported at once, with its place in the file and what would be right.
package experiment

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/perennial-ml/perennial/trial"
)

// Format is the number of the canonical form below.
const Format = 1

// Experiment is the canonical form: paths absolute, search space inlined, units
// resolved, trial fields copied down to the platforms, defaults applied.
type Experiment struct {
	Format       int             `json:"format"`
	Name         string          `json:"experimentName,omitempty"`
	SearchSpace  json.RawMessage `json:"searchSpace"` // as in the user's file, byte for byte
	Concurrency  int             `json:"trialConcurrency"`
	MaxTrials    int             `json:"maxTrialNumber,omitempty"`             // 0: unlimited
	MaxDuration  Seconds         `json:"maxExperimentDuration,omitempty"`      // 0: unlimited
	MaxTrialTime Seconds         `json:"maxTrialDuration,omitempty"`           // 0: unlimited
	Directory    string          `json:"experimentWorkingDirectory,omitempty"` // empty: below the state directory
	LogLevel     string          `json:"logLevel,omitempty"`
	TrialModule  string          `json:"trialModule,omitempty"` // a trial.Module, empty for its default
	Tuner        Algorithm       `json:"tuner"`
	Assessor     *Algorithm      `json:"assessor,omitempty"`
	TunerGPUs    []int           `json:"tunerGpuIndices,omitempty"`
	// AlgorithmTimeout is how long a tuner or an assessor that is a process may take
	// for one thing; 0: as long as usual.
	AlgorithmTimeout Seconds `json:"algorithmTimeout,omitempty"`
	// IncludeIntermediate feeds the last intermediate of an early-stopped trial
	// to the tuner as its result (v1's includeIntermediateResults).
	IncludeIntermediate bool            `json:"includeIntermediateResults,omitempty"`
	Platforms           []Platform      `json:"trainingService"`
	SharedStorage       json.RawMessage `json:"sharedStorage,omitempty"`
}

// CodeDirectories are the places of all directories with code of the user's on a machine of
// ours, some of which may be empty. One that is not absolute lies below the state directory
// of whoever runs the experiment.
func (e *Experiment) CodeDirectories() []*string {
	all := []*string{&e.Tuner.CodeDirectory}
	if e.Assessor != nil {
		all = append(all, &e.Assessor.CodeDirectory)
	}
	for i := range e.Platforms {
		if known := findPlatform(e.Platforms[i].Name); known == nil || !known.codeElsewhere {
			all = append(all, &e.Platforms[i].CodeDirectory)
		}
	}
	return all
}

// Seconds is a duration as NNI counts it: whole seconds, rounded up.
type Seconds int64

// Duration returns s as Go's duration.
func (s Seconds) Duration() time.Duration { return time.Duration(s) * time.Second }

// Algorithm is a tuner or an assessor: a name, a class of the user's, or a command.
type Algorithm struct {
	Name          string          `json:"name,omitempty"` // NNI's spelling, such as "GridSearch"
	ClassName     string          `json:"className,omitempty"`
	CodeDirectory string          `json:"codeDirectory,omitempty"` // of the class, or where the command runs
	Command       string          `json:"command,omitempty"`       // a program that speaks JSON lines, by a shell
	Arguments     json.RawMessage `json:"classArgs,omitempty"`     // an object, keys as written
}

// String is what people call it.
func (a Algorithm) String() string { return cmp.Or(a.Name, a.ClassName, a.Command) }

// Platform is one training service and how trials run on it.
type Platform struct {
	Name          string  `json:"platform"` // lower case, v2's spelling: "local", "openpai", "fake"
	Command       string  `json:"trialCommand"`
	CodeDirectory string  `json:"trialCodeDirectory"`
	GPUs          *int    `json:"trialGpuNumber,omitempty"` // unset is not 0
	Grace         Seconds `json:"trialGracePeriod"`         // between TERM and KILL; 5 by default
	LogLimit      int64   `json:"logLimit"`                 // bytes kept of each stream; 256 MiB by default
	Snapshot      bool    `json:"snapshot,omitempty"`       // run local trials from an immutable copy
	// Storage is sharedStorage as a trial's machine finds it.
	Storage *trial.SharedStorage `json:"storage,omitempty"`
	// Options is the rest of the platform's section in canonical key spelling.
	Options json.RawMessage `json:"options,omitempty"`
}
