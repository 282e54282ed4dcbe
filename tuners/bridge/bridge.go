// Package bridge runs tuners, assessors and advisors that are not ours, each in a
// process of its own: NNI's built-in ones and users' classes in NNI's dispatcher
// (`python -m nni`, of the release that is installed), and programs in any language
// that speak JSON lines on their standard input and output.
//
// A process is fed only from an experiment's event log and remembers nothing that
// the log does not hold, so one that died, hung or spoke nonsense is ended and
// replaced: the log's asks win over whatever the new process would propose.
package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
)

// Algorithm is a tuner, an assessor or an advisor: a name that NNI knows, a class of
// the user's, or a command. Exactly one of Name, ClassName and Command is set.
type Algorithm struct {
	Name          string          `json:"name,omitempty"`          // built into NNI, or registered by nnictl
	ClassName     string          `json:"className,omitempty"`     // module.Class
	CodeDirectory string          `json:"codeDirectory,omitempty"` // of the class, or where the command runs; absolute
	Command       string          `json:"command,omitempty"`       // for /bin/sh
	Arguments     json.RawMessage `json:"classArgs,omitempty"`     // an object or nil
}

// String is what people call it.
func (a Algorithm) String() string {
	switch {
	case a.Name != "":
		return a.Name
	case a.ClassName != "":
		return a.ClassName
	}
	return a.Command
}

// Home is where an algorithm's process lives, and what it inherits.
type Home struct {
	Environment []string // NAME=value, of whoever started the experiment
	// Log and Checkpoint are directories, absolute; they are made where they are
	// missing. The process runs in Log unless it is a command, and writes
	// dispatcher.log there, assessor.log if it is an assessor alone.
	Log, Checkpoint string
}

// Spec says what to run, and for what.
type Spec struct {
	Experiment string // its id
	// Tuner proposes; nil where only the assessor is not ours.
	Tuner *Algorithm
	// Assessor judges. One that is a command runs alone: Tuner is nil then.
	Assessor *Algorithm
	Space    json.RawMessage // as in the user's file
	Seed     uint64          // of what has no seed of its own
	Home     Home
	GPUs     []int  // that the process may see
	LogLevel string // NNI's: fatal, error, warning, info, debug, trace
	// Patience is how long the process may take to start, and to treat one event
	// or make one proposal; DefaultPatience where it is 0.
	Patience time.Duration
}

// DefaultPatience is enough for a large model to be fitted on a busy machine.
const DefaultPatience = 10 * time.Minute

func (s Spec) patience() time.Duration {
	if s.Patience > 0 {
		return s.Patience
	}
	return DefaultPatience
}

// about says whose error it is; of two in one process nobody can tell.
func (s Spec) about(err error) error {
	if s.Tuner != nil && s.Assessor != nil {
		return fmt.Errorf("tuner %s and assessor %s: %w", s.Tuner, s.Assessor, err)
	}
	return fmt.Errorf("%s %s: %w", s.role(), s.subject(), err)
}

// subject is the algorithm that the process was started for.
func (s Spec) subject() *Algorithm {
	if s.Tuner != nil {
		return s.Tuner
	}
	return s.Assessor
}

// role names the process among those of its experiment.
func (s Spec) role() string {
	if s.Tuner != nil {
		return "tuner"
	}
	return "assessor"
}

// Process is a running algorithm. Its methods are for one goroutine at a time,
// Changed, Stops and Close for any. After an error it is of no more use: Close it,
// Open another and apply the log to that from the beginning.
type Process interface {
	tuners.Tuner
	io.Closer

	// Judges tells whether it may want trials to be stopped: only then it need be
	// fed while nothing is to be proposed.
	Judges() bool
	// Stops returns the trials that it wants stopped since the last call.
	Stops() []Stop
	// Failure is why it is of no more use, such as that it died; nil while it is.
	Failure() error
	// Changed holds a value when, since it was last read, it had a proposal that
	// nobody asked for, wanted a trial stopped, or died.
	Changed() <-chan struct{}
}

// Stop is an algorithm's word that a trial shall end.
type Stop struct {
	Sequence int
	Attempt  int   // that reported last; 0 where it has reported nothing
	Event    int64 // the last intermediate result that the algorithm knew of the trial
	Reason   trial.Reason
}

// ReasonStopped is the code of the reason of a Stop.
const ReasonStopped = "assessor"

// Open starts an algorithm's process and waits until it is ready for its first
// event. Its errors say what would be right.
func Open(spec Spec) (Process, error) {
	if spec.subject() == nil {
		return nil, errors.New("there is neither a tuner nor an assessor to run")
	}
	if spec.subject().Command != "" {
		return openLines(spec)
	}
	return openDispatcher(spec)
}
