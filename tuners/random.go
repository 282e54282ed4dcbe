package tuners

import (
	"github.com/perennial-ml/perennial/arguments"
	"github.com/perennial-ml/perennial/searchspace"
	"github.com/perennial-ml/perennial/trial"
)

// Random draws every trial anew from the search space. It does not look at
// results. Where sets can repeat, none does: in place of a repeat comes the next
// set of the grid over the same space, and when all were tried it is exhausted.
type Random struct {
	seed    uint64
	space   *searchspace.Space
	emitted emitted
	rest    *unexplored
}

// NewRandom builds Random. Its arguments are seed, and optimize_mode, which is
// accepted and ignored.
func NewRandom(spec Spec) (Tuner, error) {
	seed := spec.Seed
	err := arguments.Read("tuner Random", spec.Arguments,
		map[string]arguments.Check{"seed": arguments.Seed(&seed), "optimize_mode": arguments.Mode(new(bool))})
	if err != nil {
		return nil, err
	}
	space, err := searchspace.Parse(spec.Space)
	if err != nil {
		return nil, err
	}
	return &Random{seed: seed, space: space, emitted: emitted{}, rest: newUnexplored(space)}, nil
}

// Propose answers with trial n's own draw, or in place of a repeat with the first
// set of the grid that was never asked.
func (r *Random) Propose(n int) (Proposal, error) {
	point := r.space.Draw(searchspace.NewStream(r.seed, n))
	drawn := Proposal{Parameters: r.space.Parameters(point)}
	if r.space.NeverRepeats() {
		return drawn, nil
	}
	key, err := setOf(drawn.Parameters)
	if err != nil {
		return Proposal{}, err
	}
	if r.emitted[key] > 0 {
		return r.rest.first(r.emitted)
	}
	return drawn, nil
}

// Apply takes note of asks and of a new search space. After an error it is as it
// was before.
func (r *Random) Apply(event trial.Event) error {
	if event.Kind == trial.KindAsked {
		return r.emitted.apply(event)
	}
	raw, err := newSpace(event)
	if raw == nil || err != nil {
		return err
	}
	space, err := searchspace.Parse(raw)
	if err == nil {
		r.space, r.rest = space, newUnexplored(space)
	}
	return err
}
