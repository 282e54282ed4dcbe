package machine

import (
	"time"

	"github.com/perennial-ml/perennial/trial"
)

// Job is one attempt at one trial, complete but for the Terms that it runs on.
type Job struct {
	Key       trial.Key `json:"key"`
	Workspace Workspace `json:"workspace"`
	Command   string    `json:"command"` // run by a shell in the workspace
	// Parameter is the content of trial.ParameterFile, byte for byte; Parameters is
	// the object in it, for our own protocol.
	Parameter  []byte           `json:"parameter"`
	Parameters trial.Parameters `json:"parameters"`
	// Directory is the experiment's, below which the attempt's own lies. Empty: one
	// below Options.Experiments.
	Directory string `json:"directory,omitempty"`
	// EnvironmentFile holds the environment that the run gets; empty: the runner's.
	EnvironmentFile string        `json:"environmentFile,omitempty"`
	MaxDuration     time.Duration `json:"maxDuration,omitempty"` // running time, kept by the runner; 0: unlimited
	Grace           time.Duration `json:"grace,omitempty"`       // between TERM and KILL
	LogLimit        int64         `json:"logLimit,omitempty"`    // bytes kept of each of stdout and stderr
	GPUs            *int          `json:"gpus,omitempty"`        // unset is not 0: NNI hides GPUs on 0
	// Storage is where the attempt has its code and its output; nil: with all else.
	Storage     *trial.SharedStorage `json:"storage,omitempty"`
	TrialModule trial.Module         `json:"trialModule,omitempty"` // when the trial imports our nni; empty: trial.ModuleAuto
}

// Workspace is where a job's code is on the machine.
type Workspace struct {
	Directory string `json:"directory,omitempty"` // absolute
	// Hash names the code by its content: Directory is a snapshot. Empty: the code
	// runs in place.
	Hash string `json:"hash,omitempty"`
}

// Phase is how far a run has come.
type Phase string

// The phases of a run. Exited and Lost are definite: they never change again.
const (
	Absent      Phase = "absent"      // no such run: it was never started
	Waiting     Phase = "waiting"     // its runner is starting
	Running     Phase = "running"     //
	Exited      Phase = "exited"      // the command ended; Report.Exit says how
	Lost        Phase = "lost"        // it is definitely over and nobody knows how
	Unreachable Phase = "unreachable" // it cannot be seen at present; never means that it is dead
)

// Definite tells whether a run in this phase is over for good.
func (p Phase) Definite() bool { return p == Exited || p == Lost }

// Report is what is known about one run.
type Report struct {
	Key     trial.Key     `json:"key"`
	Phase   Phase         `json:"phase"`
	Reason  trial.Reason  `json:"reason"`           // why it waits, was lost or cannot be seen
	Started time.Time     `json:"started,omitzero"` // of the command
	Ended   time.Time     `json:"ended,omitzero"`   // of the command
	Exit    *trial.Exit   `json:"exit,omitempty"`   // with Exited
	Intent  *trial.Intent `json:"intent,omitempty"` // the first one, if it came before the end
	Output  string        `json:"output,omitempty"` // the attempt's directory
}

// Cursor is a place in a run's journal, a byte of it in decimal; the zero value is its
// beginning.
type Cursor string
