// Package tuners proposes parameters. Each algorithm is one file and a pure state
// machine over an experiment's event log: Apply is the only change, Propose
// changes nothing, and all randomness is keyed by (seed, trial number), so the
// same log gives the same proposals after any number of restarts, anywhere.
package tuners

import (
	"encoding/json"

	"github.com/perennial-ml/perennial/trial"
)

// Tuner is a search algorithm. It is used by one goroutine at a time.
type Tuner interface {
	// Propose answers for the trial with sequence number n. It changes nothing:
	// asked again, it answers the same, until an event is applied.
	Propose(n int) (Proposal, error)

	// Apply takes the next event of the log: asked (recorded asks are applied,
	// never derived again), ended, intermediate, and the set-search-space
	// command. Events of kinds it has no use for are ignored.
	Apply(event trial.Event) error
}

// Answer is what a tuner says when asked for a trial.
type Answer int

// The three answers.
const (
	Try       Answer = iota // Proposal.Parameters shall run
	Wait                    // none now: ask again after the next event
	Exhausted               // never again
)

// Proposal is a tuner's answer.
type Proposal struct {
	Answer     Answer
	Parameters trial.Parameters // with Try: a JSON object
	// ParameterID is parameter.cfg's parameter_id; nil means the trial's number.
	ParameterID json.RawMessage
}

// Spec says which tuner to build, and for what.
type Spec struct {
	Name      string          // as NNI spells it; case does not matter
	Arguments json.RawMessage // classArgs, an object or nil
	Space     json.RawMessage // the search space as in the user's file
	Seed      uint64          // used where the arguments give none
	// Checkpoints is a directory of the experiment's own that every trial can read
	// and write, for tuners whose trials go on from checkpoints; empty if there is none.
	Checkpoints string
}

// Constructor builds a tuner, or says what is wrong with its arguments or space.
type Constructor func(Spec) (Tuner, error)
