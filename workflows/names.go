// Package workflows decides: which trials of an experiment start, when it pauses
// and when it is done, and what one trial's next attempt is. It does nothing
// itself; activities do. All it needs to go on is in the record, so a workflow
// that is gone can always be started anew.
package workflows

import (
	"fmt"
	"strings"

	"github.com/perennial-ml/perennial/trial"
)

// Names under which the workflows are registered.
const (
	ExperimentType = "Experiment"
	TrialType      = "Trial"
)

// Names of the messages that people and programs send.
const (
	// SignalCancel ends a trial as USER_CANCELED; on an experiment it is stop.
	SignalCancel = "cancel"
	// SignalEarlyStop ends a trial as EARLY_STOPPED; on an experiment it ends
	// every running trial so, and then the experiment is DONE.
	SignalEarlyStop = "early-stop"
	// UpdateCommand takes a trial.Command to an experiment and answers with the
	// number of its event once that is durable.
	UpdateCommand = "command"
	// UpdateEnd takes an Ending to a trial and answers once it is durable.
	UpdateEnd = "end"
)

// Ending asks that one trial shall end; also the argument of both signals on a
// trial, where it may be missing.
type Ending struct {
	Cause    trial.Cause  `json:"cause,omitempty"`
	Decision string       `json:"decision,omitempty"` // id, empty where a person asks
	Reason   trial.Reason `json:"reason,omitzero"`
	// Lost declares the running attempt lost, although nobody could find out:
	// the trial goes on with its next attempt.
	Lost bool `json:"lost,omitempty"`
}

// What people ask of one trial by hand.
var (
	Kill        = Ending{Cause: trial.CauseUser, Reason: trial.Reason{Code: "killed", Text: "killed by hand"}}
	EarlyStop   = Ending{Cause: trial.CauseEarlyStop, Reason: trial.Reason{Code: "early-stopped", Text: "early-stopped by hand"}}
	DeclareLost = Ending{Lost: true, Reason: trial.Reason{Code: "declared-lost", Text: "declared lost by hand"}}
)

// ExperimentWorkflowID is the id of an experiment's workflow.
func ExperimentWorkflowID(experiment string) string { return "experiment-" + experiment }

// TrialWorkflowID is the id of a trial's workflow.
func TrialWorkflowID(experiment string, sequence int) string {
	return fmt.Sprintf("experiment-%s/trial-%d", experiment, sequence)
}

// Queues are the task queues of one record, so that two people on one Temporal
// never run each other's activities, and in it of one share of the experiments, which has
// a worker of its own.
type Queues struct {
	Record string
	Share  string // empty for the first one
}

// Experiment is the queue of experiments, of their workflows and algorithms alike.
func (q Queues) Experiment() string {
	if q.Share != "" {
		return "perennial-experiment." + q.Share + "." + q.Record
	}
	return "perennial-experiment." + q.Record
}

const (
	platformPrefix = "platform."
	verbsPrefix    = "verbs."
)

// Platform is the queue of a platform's trials, of their workflows and of the
// attempts, which take a slot each as long as they run; host is empty unless they are
// bound to one.
func (q Queues) Platform(name, host string) string {
	if host != "" {
		name += "." + host
	}
	return platformPrefix + name + "." + q.Record
}

// Verbs is the queue, beside that of a platform's trials, of the verbs that come to an
// end by themselves: whoever ends an attempt must not wait for a slot until another
// one has ended.
func Verbs(platformQueue string) string {
	return verbsPrefix + strings.TrimPrefix(platformQueue, platformPrefix)
}
