package tuners

import (
	"github.com/perennial-ml/perennial/arguments"
	"github.com/perennial-ml/perennial/searchspace"
	"github.com/perennial-ml/perennial/trial"
)

// GridSearch tries every combination, of continuous parameters ever finer ones, in
// NNI's order. It does not look at results. A new search space begins a new grid,
// without the sets already tried.
type GridSearch struct {
	emitted emitted
	rest    *unexplored
}

// NewGridSearch builds GridSearch; optimize_mode is accepted and ignored.
func NewGridSearch(spec Spec) (Tuner, error) {
	if err := arguments.Read("tuner GridSearch", spec.Arguments, map[string]arguments.Check{"optimize_mode": arguments.Mode(new(bool))}); err != nil {
		return nil, err
	}
	space, err := searchspace.Parse(spec.Space)
	if err != nil {
		return nil, err
	}
	return &GridSearch{emitted: emitted{}, rest: newUnexplored(space)}, nil
}

// Propose answers with the first set of the grid that was never asked.
func (g *GridSearch) Propose(int) (Proposal, error) {
	return g.rest.first(g.emitted)
}

// Apply takes note of asks and of a new search space. After an error it is as it
// was before.
func (g *GridSearch) Apply(event trial.Event) error {
	if event.Kind == trial.KindAsked {
		return g.emitted.apply(event)
	}
	raw, err := newSpace(event)
	if raw == nil || err != nil {
		return err
	}
	space, err := searchspace.Parse(raw)
	if err == nil {
		g.rest = newUnexplored(space)
	}
	return err
}

// unexplored is the part of a grid that may hold sets never asked. Sets are only
// ever added to those asked, so what it has passed need never be looked at again.
type unexplored struct {
	space     *searchspace.Space
	grid      *searchspace.Grid
	candidate trial.Parameters // nil before the first and after the last
	key       set
	over      bool
}

func newUnexplored(space *searchspace.Space) *unexplored {
	return &unexplored{space: space, grid: searchspace.NewGrid(space)}
}

// first returns the first set that was never asked.
func (u *unexplored) first(asked emitted) (Proposal, error) {
	for !u.over && (u.candidate == nil || asked[u.key] > 0) {
		if err := u.advance(); err != nil {
			return Proposal{}, err
		}
	}
	if u.over {
		return Proposal{Answer: Exhausted}, nil
	}
	return Proposal{Parameters: u.candidate}, nil
}

func (u *unexplored) advance() error {
	point, ok := u.grid.Next()
	if !ok {
		u.over, u.candidate = true, nil
		return nil
	}
	var err error
	u.candidate = u.space.Parameters(point)
	u.key, err = setOf(u.candidate)
	return err
}
