// Package agent speaks for the runs of a machine over a connection: at one end the
// runner's binary, started by "perennial-runner agent" and told all on its standard
// input, at the other a Client.
//
// An agent keeps nothing. It ends when its input ends, the runs go on, and the
// next one finds them by package machine. So it needs no port, no installation and
// no watching.
//
// Both ends write JSON, one value to a line. The agent's first line is Greeting,
// since login shells like to print before it; then the client's Hello is answered
// by a Welcome. What follows depends on Hello.Purpose: for Serve any number of
// requests, each with a number of its own, and answers in any order; for Unpack
// the archive and then one fault, empty if all is well; for Logs the stream.
package agent

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/machine"
	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/trial"
)

// Format numbers the protocol. Client and agent come from the same build, since
// the client brings the binary; the number finds a mistake.
const Format = 2

// Greeting is the first line of an agent's own.
const Greeting = "perennial agent 1"

// Command is the sub-command of the runner's binary that becomes an agent.
const Command = "agent"

// Purpose is what an agent is started for.
type Purpose string

// The purposes of agents.
const (
	Serve  Purpose = "serve"
	Unpack Purpose = "unpack" // put code into the store, as packed by codedir
	Logs   Purpose = "logs"   // bring what a run printed
)

// Hello is what the client says first.
type Hello struct {
	Format  int     `json:"format"`
	Purpose Purpose `json:"purpose"`
	// Directory is ours on the machine, absolute: nothing is written outside it
	// but locks, and those only where it lies on a network file system.
	Directory   string       `json:"directory"`
	NNIPlatform string       `json:"nniPlatform,omitempty"`
	Experiment  string       `json:"experiment,omitempty"` // Unpack: on whose behalf
	Code        string       `json:"code,omitempty"`       // Unpack: the content's hash
	Ref         *machine.Ref `json:"ref,omitempty"`        // Logs
	Stream      string       `json:"stream,omitempty"`     // Logs: stdout, stderr or trial.log
	Offset      int64        `json:"offset,omitempty"`     // Logs: from which byte on
}

// Welcome is the agent's answer to Hello.
type Welcome struct {
	Format int    `json:"format"`
	SHA256 string `json:"sha256"` // of the agent's own binary, in hex
	Site   string `json:"site"`   // names our directory there for ever
	Boot   string `json:"boot"`   // names the time since the machine, or container, was started
	// HasCode says that there is nothing to unpack.
	HasCode bool   `json:"hasCode,omitempty"`
	Fault   *fault `json:"fault,omitempty"`
}

// Verbs of requests.
const (
	verbSubmit    = "submit"
	verbPoll      = "poll"
	verbCollect   = "collect"
	verbList      = "list"
	verbCancel    = "cancel"
	verbSupersede = "supersede"
	verbFacts     = "facts"
	verbCleanUp   = "clean-up"
	verbRemove    = "remove"
	verbOffer     = "offer"
	verbReserve   = "reserve"
	verbGPUs      = "gpus"
	verbAbandon   = "abandon" // the request of the same number is not waited for any more
)

type request struct {
	ID   uint64          `json:"id"`
	Verb string          `json:"verb"`
	Body json.RawMessage `json:"body,omitempty"`
}

type answer struct {
	ID    uint64          `json:"id,omitempty"`
	Body  json.RawMessage `json:"body,omitempty"`
	Fault *fault          `json:"fault,omitempty"`
	Ended *trial.Key      `json:"ended,omitempty"` // told without being asked
}

// Submission asks for a run.
type Submission struct {
	// Job is what to run. An empty Workspace.Directory means the code of
	// Workspace.Hash in the agent's store.
	Job   machine.Job   `json:"job"`
	Terms machine.Terms `json:"terms"`
}

// Question asks how a run is.
type Question struct {
	Ref   machine.Ref     `json:"ref"`
	After *machine.Cursor `json:"after,omitempty"` // and what it reported after this; nil: never mind
}

// Finding answers a Question.
type Finding struct {
	Report  machine.Report   `json:"report"`
	Records []metrics.Record `json:"records,omitempty"`
	Next    machine.Cursor   `json:"next,omitempty"` // after the records
	// Asked tells that the journal was read, and found to hold no more than
	// Records where Whole is set.
	Asked bool `json:"asked,omitempty"`
	Whole bool `json:"whole,omitempty"`
}

// Findings answer all the questions of one round.
type Findings struct {
	Findings []Finding `json:"findings"`
	Facts    Facts     `json:"facts"`
}

type collected struct {
	Records []metrics.Record `json:"records,omitempty"`
	Next    machine.Cursor   `json:"next"`
}

type collecting struct {
	Ref   machine.Ref    `json:"ref"`
	After machine.Cursor `json:"after"`
}

type cancelling struct {
	Ref    machine.Ref  `json:"ref"`
	Intent trial.Intent `json:"intent"`
}

type reserving struct {
	Key     trial.Key   `json:"key"`
	Request gpu.Request `json:"request"`
}

// ErrNoCode is returned by Submit where the machine does not hold the job's code:
// it is to be brought by Unpack first.
var ErrNoCode = errors.New("the machine does not hold this code yet")

// fault is an error as it travels.
type fault struct {
	Code   machine.Code  `json:"code"`
	Verb   string        `json:"verb"`
	Text   string        `json:"text"`
	NoCode bool          `json:"noCode,omitempty"`
	After  time.Duration `json:"after,omitempty"` // machine.Error.After
}

func faultOf(verb string, err error) *fault {
	if err == nil {
		return nil
	}
	f := &fault{Code: machine.CodeOf(err), Verb: verb, Text: err.Error(), NoCode: errors.Is(err, ErrNoCode)}
	var classified *machine.Error
	if errors.As(err, &classified) {
		f.Verb, f.Text, f.After = classified.Verb, classified.Err.Error(), classified.After
	}
	return f
}

func (f *fault) err() error {
	switch {
	case f == nil:
		return nil
	case f.NoCode:
		return ErrNoCode
	}
	return &machine.Error{Code: f.Code, Verb: f.Verb, After: f.After, Err: errors.New(f.Text)}
}
