// Package record holds what happened: experiments, their event logs, attempts and
// metrics. It is the truth that outlives workflow history: an activity returns
// only after its rows are durable, and everything needed to go on is here.
package record

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/perennial-ml/perennial/trial"
)

// Errors that callers tell apart.
var (
	ErrNotFound = errors.New("not in the record")
	ErrNewer    = errors.New("the record was written by a newer version of starter")
	// ErrOlder goes away once a host of this version has the record.
	ErrOlder   = errors.New("the record was written by an older version of starter")
	ErrDamaged = errors.New("the record is damaged")
	// ErrReadOnly is a record whose directory cannot be written: also whoever only reads
	// needs a file of SQLite's beside it.
	ErrReadOnly = errors.New("the record cannot be read where its directory cannot be written")
	// ErrFull goes away by itself once there is room again.
	ErrFull = errors.New("no space is left on the disk that holds the record: free some, and it goes on by itself")
	// ErrUnreachable goes away by itself, too. What was to be changed may have been.
	ErrUnreachable = errors.New("the record cannot be reached")
	// ErrFenced is said to a host whose place another has taken: it writes nothing more.
	ErrFenced = errors.New("another host has taken over the record")
	// ErrSettled, ErrStopping, ErrDecided and ErrTimeOver say why nothing more may be launched.
	ErrSettled  = errors.New("the trial has ended")
	ErrStopping = errors.New("the experiment is stopping or has ended")
	ErrDecided  = errors.New("the trial is to be ended")
	// ErrTimeOver keeps trials that have not begun from beginning.
	ErrTimeOver = errors.New("the experiment's time is over")
	// ErrSuperseded is a word on a trial that a newer attempt has overtaken.
	ErrSuperseded = errors.New("the trial has a newer attempt")
	// ErrBehind is a word from somebody who has read events that the log does not
	// have: the record came from a backup.
	ErrBehind = errors.New("the record is older than what was read in it: it came from a backup")
)

// RejectedError is a command or an ask that makes no sense; nothing of it is on
// record.
type RejectedError struct{ Text string }

func (e *RejectedError) Error() string { return e.Text }

// CommandEvent is a command as Append takes it.
func CommandEvent(command trial.Command) trial.Event {
	data, err := json.Marshal(command)
	if err != nil {
		data = nil // a value that is no JSON: Append rejects it
	}
	return trial.Event{Kind: trial.KindCommand, Sequence: trial.NoTrial, Data: data}
}

// Status is an experiment's state, by NNI's names.
type Status string

// The states of an experiment. Stopping and Running are active: the sweeper sees
// to it that somebody drives them.
const (
	Running  Status = "RUNNING"
	Stopping Status = "STOPPING"
	Stopped  Status = "STOPPED"
	Done     Status = "DONE"
	// Removing is an experiment that is over and of which nothing shall stay: it takes no
	// command but another Remove, and is gone once all it left could be removed.
	Removing Status = "REMOVING"
)

// Active tells whether an experiment in this state needs an open workflow.
func (s Status) Active() bool { return s == Running || s == Stopping }

// Experiment is an experiment's row: what its log amounts to so far.
type Experiment struct {
	ID          string              `json:"id"`
	Name        string              `json:"name"`
	Status      Status              `json:"status"`
	Reason      trial.Reason        `json:"reason"` // why it is so, or why nothing starts at present
	Paused      bool                `json:"paused"`
	Ending      bool                `json:"ending"`      // early-stop was asked for: DONE once what runs has ended
	Config      json.RawMessage     `json:"config"`      // canonical, as accepted
	SearchSpace json.RawMessage     `json:"searchSpace"` // the one in force
	Minimize    bool                `json:"minimize"`    // a smaller default metric is better
	Concurrency int                 `json:"concurrency"`
	MaxTrials   int                 `json:"maxTrials"`      // 0: unlimited
	MaxDuration time.Duration       `json:"maxDuration"`    // 0: unlimited
	Driven      time.Duration       `json:"driven"`         // on the clock of MaxDuration
	Created     time.Time           `json:"created"`        //
	Ended       time.Time           `json:"ended,omitzero"` // of the last DONE or STOPPED
	Asked       int                 `json:"asked"`          // the next sequence number
	Vacant      []int               `json:"vacant"`         // numbers below Asked that no trial has: they are asked first
	LastEvent   int64               `json:"lastEvent"`      // number of the newest event
	Cursor      int64               `json:"cursor"`         // how far its workflow has read
	Exhausted   bool                `json:"exhausted"`      // the tuner said never again
	Counts      map[trial.State]int `json:"counts"`         // trials by state
	Best        *Best               `json:"best,omitempty"`
	Tags        trial.Tags          `json:"tags"`
	// Workspaces are the prepared platforms.Workspace as JSON, in the order of
	// the configuration's platforms; nil or missing where there is none yet.
	Workspaces []json.RawMessage `json:"workspaces,omitempty"`
}

// TimeOver tells whether the experiment has had all the time it may have: no trial
// begins any more, and those that run go on to their end.
func (e Experiment) TimeOver() bool { return e.MaxDuration > 0 && e.Driven >= e.MaxDuration }

// Trials is how many trials were asked so far.
func (e Experiment) Trials() int { return e.Asked - len(e.Vacant) }

// Next returns the sequence number of the i-th trial to be asked next, from 0.
func (e Experiment) Next(i int) int {
	if i < len(e.Vacant) {
		return e.Vacant[i]
	}
	return e.Asked + i - len(e.Vacant)
}

// Best is the best result so far.
type Best struct {
	Sequence int     `json:"sequence"`
	TrialID  string  `json:"trialId"`
	Value    float64 `json:"value"`
}

// Trial is a trial's row.
type Trial struct {
	Experiment string           `json:"experiment"`
	Sequence   int              `json:"sequence"`
	ID         string           `json:"id"`
	State      trial.State      `json:"state"`
	Reason     trial.Reason     `json:"reason"`
	Parameters trial.Parameters `json:"parameters"`
	// ParameterID is parameter.cfg's parameter_id, as JSON.
	ParameterID json.RawMessage `json:"parameterId"`
	Source      string          `json:"source"`
	Attempts    int             `json:"attempts"`         // begun so far
	Asked       time.Time       `json:"asked"`            //
	Started     time.Time       `json:"started,omitzero"` // of the newest attempt's command
	Ended       time.Time       `json:"ended,omitzero"`
	Value       *float64        `json:"value"` // its default metric
	// Final is the deciding FINAL as the trial reported it, empty if none.
	Final string `json:"final"`
}

// Settled tells whether the trial has ended for good.
func (t Trial) Settled() bool { return t.State.Terminal() && t.Reason.Code != ReasonStopped }

// ReasonStopped is the reason code of a trial that was interrupted with its
// experiment: it reads USER_CANCELED, stays unsettled, and runs again on resume.
const ReasonStopped = "stopped"

// ReasonTimeOver is the reason code of a trial that waits although its experiment's
// time is over: it begins if that is raised.
const ReasonTimeOver = "max-experiment-duration"

// TimeOver is the reason for which such a trial waits.
func TimeOver() trial.Reason {
	return trial.Reason{Code: ReasonTimeOver, Text: "the experiment's time (maxExperimentDuration) was over before it began; " +
		"starter update max-duration gives it more"}
}

// Outcome is how an attempt turned out; empty while it is open.
type Outcome string

// The outcomes of attempts.
const (
	OutcomeEnded       Outcome = "ended"       // it settled its trial
	OutcomeInterrupted Outcome = "interrupted" // its experiment stopped
	OutcomeFault       Outcome = "fault"       // the platform failed it; another attempt follows or the trial FAILED
)

// Attempt is an attempt's row.
type Attempt struct {
	Key       trial.Key       `json:"key"`
	Platform  string          `json:"platform"`
	Handle    json.RawMessage `json:"handle,omitempty"` // platforms.Handle as JSON; nil before Submit's answer
	Phase     string          `json:"phase"`            // platforms.Phase as last observed, empty before
	Reason    trial.Reason    `json:"reason"`
	Exit      *trial.Exit     `json:"exit,omitempty"`
	Intent    *trial.Intent   `json:"intent,omitempty"` // as the platform reports it
	Output    string          `json:"output,omitempty"` // directory a person can look into
	Cursor    string          `json:"cursor"`           // platforms.Cursor: all before it is on record
	Drained   bool            `json:"drained"`          // over, and every metric is on record
	Metrics   int             `json:"metrics"`          // on record
	LastStep  int64           `json:"lastStep"`         // highest PERIODICAL step, -1 before any
	Outcome   Outcome         `json:"outcome"`
	Submitted time.Time       `json:"submitted"`
	Started   time.Time       `json:"started,omitzero"`
	Ended     time.Time       `json:"ended,omitzero"`
}

// Observation is what a poll says about an attempt.
type Observation struct {
	Phase   string
	Reason  trial.Reason
	Exit    *trial.Exit
	Intent  *trial.Intent
	Output  string
	Started time.Time
	Ended   time.Time
	Drained bool
}

// Decision is a decision's row.
type Decision struct {
	Key      trial.Key
	Decision trial.Decision
	Outcome  string // "", "carried-out", "too-late"
}

// The outcomes of decisions. A decision without one is open.
const (
	CarriedOut = "carried-out"
	TooLate    = "too-late" // the attempt had ended by itself, or another took over
)

// Metric is a metric's row.
type Metric struct {
	Key    trial.Key `json:"key"`
	Number int64     `json:"number"` // in the attempt's journal
	Kind   string    `json:"kind"`   // metrics.Kind
	Step   int64     `json:"step"`
	Value  string    `json:"value"` // JSON text as reported
	Time   time.Time `json:"time"`
}
