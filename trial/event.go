package trial

import (
	"encoding/json"
	"slices"
	"time"
)

// Kind is what an event of an experiment's log says happened.
type Kind string

// The kinds of events. Data of each is the struct of the same name, as JSON.
const (
	KindCommand      Kind = "command"      // Command: somebody asked for something
	KindAsked        Kind = "asked"        // Asked: a trial that will run
	KindIntermediate Kind = "intermediate" // Intermediate: a metric algorithms may see
	KindEnded        Kind = "ended"        // Ended: a trial is settled
	KindInterrupted  Kind = "interrupted"  // Interrupted: an attempt was stopped with its experiment
	KindUndriven     Kind = "undriven"     // no data: a trial that should have an open workflow has none
	KindDecision     Kind = "decision"     // Decision: somebody decided that a trial shall end
	KindRecovered    Kind = "recovered"    // Recovered: the record is a backup, and learned what it did not know
)

// NoTrial is Event.Sequence where an event concerns no trial.
const NoTrial = -1

// Event is one entry of an experiment's log. Numbers start at 1, rise without
// gaps in commit order, and are never reused.
type Event struct {
	Number   int64           `json:"number"`
	Kind     Kind            `json:"kind"`
	Sequence int             `json:"sequence"` // the trial, or NoTrial
	Attempt  int             `json:"attempt,omitempty"`
	Time     time.Time       `json:"time"`
	Data     json.RawMessage `json:"data,omitempty"`
}

// Names of commands.
const (
	Accept           = "accept"          // Value: the experiment's canonical configuration
	SetConcurrency   = "set-concurrency" // Value: integer > 0
	SetMaxTrials     = "set-max-trials"  // Value: integer > 0
	SetMaxDuration   = "set-max-duration"
	SetSearchSpace   = "set-search-space" // Value: the search space, an object
	Pause            = "pause"
	Resume           = "resume"
	Stop             = "stop"
	EarlyStopCommand = "early-stop" // every running trial ends EARLY_STOPPED, then the experiment is DONE
	AddTrial         = "add-trial"  // Value: the parameters, an object
	SetTags          = "set-tags"   // Value: an object of strings, null for what goes
	Remove           = "remove"     // all of an experiment that is over goes, for ever; Value: a Removal, or nothing
	SourceAlgorithm  = "algorithm"
	SourceCustomized = "customized"
)

// Command is what a person, or a program of theirs, asked of an experiment.
// SetMaxDuration's Value is a whole number of seconds, 0 for unlimited.
type Command struct {
	ID    string          `json:"id"` // unique; a repeated command is the same command
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Removal says how an experiment is to be removed.
type Removal struct {
	// LeaveRemote leaves what cannot be removed because it cannot be reached.
	LeaveRemote bool `json:"leaveRemote,omitempty"`
}

// Asked is a trial that will run, with the parameters it runs with for ever.
type Asked struct {
	Parameters Parameters `json:"parameters"`
	Source     string     `json:"source"` // SourceAlgorithm or SourceCustomized
	// ParameterID is what parameter.cfg carries as parameter_id, as JSON: a
	// number, a string for some advisors, null for customised trials.
	ParameterID json.RawMessage `json:"parameterId"`
}

// Intermediate is a PERIODICAL metric as algorithms see it.
type Intermediate struct {
	Step  int64    `json:"step"`  // NNI's sequence
	Value *float64 `json:"value"` // nil where it is no finite number
	// Metric is the value as it was reported, where that is more than a number.
	Metric json.RawMessage `json:"metric,omitempty"`
}

// Ended is a settled trial.
type Ended struct {
	State  State    `json:"state"`
	Value  *float64 `json:"value"` // its default metric, nil where there is none
	Reason Reason   `json:"reason"`
	Source string   `json:"source"` // the ask's source: a customised trial is not fed to tuners
	// Metric is the result as it was reported, where that is more than a number.
	Metric json.RawMessage `json:"metric,omitempty"`
}

// Interrupted is an attempt that ended because its experiment stopped.
type Interrupted struct {
	Reason Reason `json:"reason"`
}

// Decision says that an attempt of a trial shall end. There is at most one for
// each attempt: the first wins.
type Decision struct {
	ID     string `json:"id"`
	Cause  Cause  `json:"cause"`
	Reason Reason `json:"reason"`
}

// Recovered is what a record that came from a backup learned from what had happened
// since it was made.
type Recovered struct {
	// TakenIn counts trials that the record did not know and whose runs told what
	// they were asked with: they go on, with what they reported.
	TakenIn int `json:"takenIn,omitempty"`
	// Ended names runs that do not tell enough: they were ended.
	Ended []string `json:"ended,omitempty"`
	// Unread names runs on machines that cannot be reached: they are taken in later.
	Unread []string `json:"unread,omitempty"`
	// Freed counts trials that turned out not to have begun, although their numbers
	// were kept for runs that could not be asked: they are asked anew.
	Freed int `json:"freed,omitempty"`
	// Missing counts trials that a workflow had known and that left no run: if they
	// had results, those are lost.
	Missing int `json:"missing,omitempty"`
	// Behind says that a workflow had read events that the log does not have.
	Behind bool `json:"behind,omitempty"`
}

// Commands lists the names of commands that people can give.
func Commands() []string {
	return []string{SetConcurrency, SetMaxTrials, SetMaxDuration, SetSearchSpace, Pause, Resume, Stop, EarlyStopCommand, AddTrial, SetTags, Remove}
}

// IsCommand tells whether name is a command, Accept among them.
func IsCommand(name string) bool { return name == Accept || slices.Contains(Commands(), name) }
