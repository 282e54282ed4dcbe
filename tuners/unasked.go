package tuners

import (
	"encoding/json"

	"github.com/perennial-ml/perennial/searchspace"
	"github.com/perennial-ml/perennial/trial"
)

// unasked keeps a tuner from asking for the same set twice. In place of a repeat
// comes the next set of the grid over the same space, and when all were asked it is
// exhausted. Like NNI it does not look for repeats where draws never repeat.
type unasked struct {
	space *searchspace.Space
	asked emitted
	rest  *unexplored
}

func newUnasked(space *searchspace.Space) *unasked {
	return &unasked{space: space, asked: emitted{}, rest: newUnexplored(space)}
}

// proposal is a point unless its set was asked before.
func (u *unasked) proposal(point searchspace.Point) (Proposal, error) {
	parameters := u.space.Parameters(point)
	if asked, err := u.has(parameters); err != nil || !asked {
		return Proposal{Parameters: parameters}, err
	}
	return u.rest.first(u.asked)
}

// has tells whether a set was asked; of spaces where draws never repeat, never.
func (u *unasked) has(parameters trial.Parameters) (bool, error) {
	if u.space.NeverRepeats() {
		return false, nil
	}
	key, err := setOf(parameters)
	return u.asked[key] > 0, err
}

// exhausted tells whether every set was asked.
func (u *unasked) exhausted() (bool, error) {
	if u.space.NeverRepeats() {
		return false, nil
	}
	proposal, err := u.rest.first(u.asked)
	return proposal.Answer == Exhausted, err
}

// note takes note of a set that was asked.
func (u *unasked) note(parameters trial.Parameters) error {
	key, err := setOf(parameters)
	if err == nil {
		u.asked[key]++
	}
	return err
}

// move goes to another space; what was asked stays asked.
func (u *unasked) move(space *searchspace.Space) {
	u.space, u.rest = space, newUnexplored(space)
}

// askOf reads an ask; it is false where a person chose the parameters.
func askOf(event trial.Event) (trial.Asked, bool, error) {
	ask, err := read[trial.Asked](event)
	return ask, err == nil && ask.Source != trial.SourceCustomized, err
}

// resultOf is what a trial of a given budget achieved: its final result, or for want
// of one its latest intermediate; nil if it failed or was cancelled.
func resultOf(end trial.Ended, latest *float64) *float64 {
	switch {
	case end.State != trial.Succeeded && end.State != trial.EarlyStopped:
		return nil
	case end.Value != nil:
		return end.Value
	}
	return latest
}

// loss is a result such that less is better.
func loss(value float64, minimize bool) float64 {
	if minimize {
		return value
	}
	return -value
}

// spaceOf reads the search space that an event sets, nil for other events.
func spaceOf(event trial.Event) (*searchspace.Space, error) {
	raw, err := newSpace(event)
	if raw == nil || err != nil {
		return nil, err
	}
	return searchspace.Parse(raw)
}

// identifier is a string as a parameter_id.
func identifier(id string) json.RawMessage {
	text, _ := json.Marshal(id) // a string never fails
	return text
}
