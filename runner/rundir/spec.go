package rundir

import (
	"maps"
	"os"
	"time"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/trial"
)

// Spec is what the runner is told, complete: JobFile, written once, before the
// runner is started, and never changed.
type Spec struct {
	Format      int               `json:"format"`
	Key         trial.Key         `json:"key"`
	Claim       string            `json:"claim,omitempty"` // Run.Claim
	Command     string            `json:"command"`         // for the shell
	Shell       string            `json:"shell"`           // absolute path, called with -c
	Directories trial.Directories `json:"directories"`     // the command's working directory is Code
	NNIPlatform string            `json:"nniPlatform"`     // NNI_PLATFORM as the trial sees it
	// EnvironmentFile is an Environment to restore below Variables; empty: the
	// command gets the runner's own environment.
	EnvironmentFile string        `json:"environmentFile,omitempty"`
	PathPrefix      string        `json:"pathPrefix,omitempty"`  // put in front of the command's PATH
	MaxDuration     time.Duration `json:"maxDuration,omitempty"` // running time, 0: unlimited
	// LostAfter ends the attempt when nobody touched its ContactFile for that
	// long; 0: never.
	LostAfter time.Duration `json:"lostAfter,omitempty"`
	Grace     time.Duration `json:"grace"`              // between TERM and KILL
	LogLimit  int64         `json:"logLimit,omitempty"` // bytes kept of each of stdout and stderr, 0: unlimited
	GPUs      *int          `json:"gpus,omitempty"`     // unset is not 0
	Lease     *GPULease     `json:"lease,omitempty"`    // set where GPUs is above 0
	// TrialModule says when the trial imports our nni; empty: trial.ModuleAuto.
	TrialModule trial.Module `json:"trialModule,omitempty"`
}

// Variables returns what the command finds in its environment on top of the
// caller's: the contract of trial.Environment, and the GPUs it was given, none
// where 0 were asked for. Where GPUs is unset CUDA_VISIBLE_DEVICES is not touched.
func (s Spec) Variables() map[string]string {
	variables := trial.Environment(s.Key, s.NNIPlatform, s.Directories)
	if s.GPUs != nil && *s.GPUs == 0 {
		variables["CUDA_VISIBLE_DEVICES"] = "-1"
	}
	if s.Lease != nil {
		maps.Copy(variables, gpu.Variables(s.Lease.Slots))
	}
	return variables
}

// Shell returns the shell that runs commands on this machine: bash, as NNI used,
// or sh where there is no bash.
func Shell() string { return firstShell("/bin/bash", "/bin/sh") }

// firstShell returns the last path where none of them exists.
func firstShell(paths ...string) string {
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return paths[len(paths)-1]
}

// WriteSpec writes the attempt's Spec.
func (r Run) WriteSpec(spec Spec) error {
	spec.Format = Format
	return writeJSON(r.Path(JobFile), spec)
}

// ReadSpec returns the attempt's Spec, os.ErrNotExist where there is none yet.
func (r Run) ReadSpec() (Spec, error) {
	var spec Spec
	err := readJSON(r.Path(JobFile), &spec)
	return spec, err
}
