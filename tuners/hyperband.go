package tuners

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/perennial-ml/perennial/arguments"
	"github.com/perennial-ml/perennial/searchspace"
	"github.com/perennial-ml/perennial/trial"
)

// Hyperband runs brackets of successive halving, the one with the most and
// shortest trials first, round and round (Li et al., "Hyperband", JMLR 2018; sizes,
// budgets and ids are NNI's). Parameters carry the budget under TRIAL_BUDGET. A
// rung is over when all its trials ended; its best go on as new trials of the next
// rung, by final result or, for want of one, by the last intermediate. Trials that
// failed or were cancelled take their place in the rung but are never among its
// best. It is never exhausted.
//
// A set of parameters is asked once in the first rung of a bracket, which is
// smaller where the space has too few sets. A new search space begins a new round.
type Hyperband struct {
	seed     uint64
	minimize bool
	serial   bool
	space    *searchspace.Space
	schedule []bracket
	open     []*halving                    // brackets begun and not over, the oldest first
	begun    int                           // the number of the next bracket to begin
	next     int                           // the number of the next configuration
	running  map[int]*configuration        // by the trial's number
	draw     func(n int) searchspace.Point // a first rung's configuration for trial n; nil: at random
	noRound  bool                          // ids are without the round, as BOHB's
}

// NewHyperband builds Hyperband. Its arguments are optimize_mode (maximize by
// default), R, the largest budget (60), eta, by which rungs shrink and budgets grow
// (3), exec_mode, which is parallelism (begin the next bracket when no trial of
// those begun is left to run) or serial (when the one before is over), and seed.
func NewHyperband(spec Spec) (Tuner, error) {
	h := &Hyperband{seed: spec.Seed, running: map[int]*configuration{}}
	largest, eta, mode := 60, 3, "parallelism"
	err := arguments.Read("tuner Hyperband", spec.Arguments, map[string]arguments.Check{
		"optimize_mode": arguments.Mode(&h.minimize), "R": arguments.Integer(&largest, 1, largestBudget),
		"eta": arguments.Integer(&eta, 2, largestBudget), "exec_mode": arguments.Word(&mode, "parallelism", "serial"),
		"seed": arguments.Seed(&h.seed),
	})
	if err != nil {
		return nil, err
	}
	h.serial, h.schedule = mode == "serial", bracketsOf(1, largest, eta)
	h.space, err = spaceFor("Hyperband", spec.Space, budgetKey)
	return h, err
}

// largestBudget bounds budgets, so that their products stay integers.
const largestBudget = 1_000_000

// spaceFor reads the space of a tuner that adds keys of its own.
func spaceFor(tuner string, raw json.RawMessage, keys ...string) (*searchspace.Space, error) {
	space, err := searchspace.Parse(raw)
	if err != nil {
		return nil, err
	}
	return space, refuse(tuner, raw, keys...)
}

// halving is a bracket that is under way, in one of its rungs.
type halving struct {
	bracket
	number  int // from 0, over all rounds
	rung    int
	unasked *unasked         // first rung: what to draw
	toDraw  int              // first rung: how many configurations are still to come
	chosen  []*configuration // later rungs: those whose trials were not asked yet
	running int
	over    []*configuration // those whose trials in this rung ended
}

// configuration is one of a bracket, in the rung the bracket is in.
type configuration struct {
	bracket    *halving
	id         int
	parameters trial.Parameters // without the budget
	result     *float64         // of this rung; while it runs, its latest intermediate
}

func newHalving(b bracket, number int, space *searchspace.Space) *halving {
	return &halving{bracket: b, number: number, unasked: newUnasked(space), toDraw: b.rungs[0].size}
}

// Propose answers with the next trial of the oldest bracket that has one.
func (h *Hyperband) Propose(n int) (Proposal, error) {
	for _, b := range h.open {
		if b.toDraw > 0 || len(b.chosen) > 0 {
			return h.proposal(b, n)
		}
	}
	if h.serial && len(h.open) > 0 {
		return Proposal{Answer: Wait}, nil
	}
	return h.proposal(h.begin(h.begun), n)
}

func (h *Hyperband) begin(number int) *halving {
	return newHalving(h.schedule[number%len(h.schedule)], number, h.space)
}

func (h *Hyperband) proposal(b *halving, n int) (Proposal, error) {
	var proposal Proposal
	id := h.next
	if b.toDraw > 0 {
		var err error
		proposal, err = b.unasked.proposal(h.drawn(n))
		if err != nil {
			return proposal, err
		}
	} else {
		proposal.Parameters, id = b.chosen[0].parameters, b.chosen[0].id
	}
	proposal.Parameters = with(proposal.Parameters, extra{budgetKey, b.rungs[b.rung].budget})
	proposal.ParameterID = identifier(h.name(b, id))
	return proposal, nil
}

func (h *Hyperband) drawn(n int) searchspace.Point {
	if h.draw != nil {
		return h.draw(n)
	}
	return h.space.Draw(searchspace.NewStream(h.seed, n))
}

// name is NNI's id of a configuration in its rung.
func (h *Hyperband) name(b *halving, id int) string {
	if h.noRound {
		return fmt.Sprintf("%d_%d_%d", b.s, b.rung, id)
	}
	return fmt.Sprintf("%d-%d_%d_%d", b.number/len(h.schedule), b.s, b.rung, id)
}

// Apply takes note of asks, results and a new search space. After an error it is as
// it was before.
func (h *Hyperband) Apply(event trial.Event) error {
	switch event.Kind {
	case trial.KindAsked:
		return h.asked(event)
	case trial.KindIntermediate:
		intermediate, err := read[trial.Intermediate](event)
		if c := h.running[event.Sequence]; err == nil && c != nil && intermediate.Value != nil {
			c.result = intermediate.Value
		}
		return err
	case trial.KindEnded:
		return h.ended(event)
	}
	space, err := spaceOf(event)
	if space != nil {
		h.space, h.open = space, nil
		clear(h.running)
		// One round further than the last that can have been proposed.
		h.begun = (h.begun/len(h.schedule) + 1) * len(h.schedule)
	}
	return err
}

func (h *Hyperband) asked(event trial.Event) error {
	ask, ok, err := askOf(event)
	if err != nil || !ok {
		return err
	}
	parameters, err := without(ask.Parameters, budgetKey)
	if err != nil {
		return err
	}
	number, rung, id, ok := h.place(ask.ParameterID)
	if !ok {
		return nil
	}
	h.next = max(h.next, id+1)
	b := h.find(number)
	if b == nil || b.rung != rung {
		return nil // of a search space that holds no more
	}
	c := &configuration{bracket: b, id: id, parameters: parameters}
	h.running[event.Sequence] = c
	return b.take(c)
}

// place reads an id of ours.
func (h *Hyperband) place(parameterID json.RawMessage) (number, rung, id int, ok bool) {
	var text string
	var round, s int
	if json.Unmarshal(parameterID, &text) != nil {
		return
	}
	if h.noRound {
		read, _ := fmt.Sscanf(text, "%d_%d_%d", &s, &rung, &id)
		number, ok = h.bracketOf(s, rung, id)
		return number, rung, id, ok && read == 3
	}
	read, _ := fmt.Sscanf(text, "%d-%d_%d_%d", &round, &s, &rung, &id)
	number = round*len(h.schedule) + len(h.schedule) - 1 - s
	return number, rung, id, read == 4 && number >= 0
}

// bracketOf is the number of the bracket that an id without the round is about: the
// oldest that has such a configuration to run, or the next of this s to begin.
func (h *Hyperband) bracketOf(s, rung, id int) (number int, ok bool) {
	for _, b := range h.open {
		chosen := func(c *configuration) bool { return c.id == id }
		if b.s == s && b.rung == rung && (b.toDraw > 0 || slices.ContainsFunc(b.chosen, chosen)) {
			return b.number, true
		}
	}
	number = h.begun
	for rung == 0 && s >= 0 && s < len(h.schedule) && h.schedule[number%len(h.schedule)].s != s {
		number++
	}
	return number, rung == 0 && s >= 0 && s < len(h.schedule)
}

// find returns a bracket, which it begins if none so late was begun; nil where it is
// no more.
func (h *Hyperband) find(number int) *halving {
	if number >= h.begun {
		h.open = append(h.open, h.begin(number))
		h.begun = number + 1
	}
	i := slices.IndexFunc(h.open, func(b *halving) bool { return b.number == number })
	if i < 0 {
		return nil
	}
	return h.open[i]
}

// take notes that a configuration's trial was asked. When every set was asked, no
// more are to come.
func (b *halving) take(c *configuration) error {
	b.running++
	if b.rung > 0 {
		b.chosen = slices.DeleteFunc(b.chosen, func(other *configuration) bool { return other.id == c.id })
		return nil
	}
	b.toDraw--
	if err := b.unasked.note(c.parameters); err != nil {
		return err
	}
	none, err := b.unasked.exhausted()
	if none {
		b.toDraw = 0
	}
	return err
}

func (h *Hyperband) ended(event trial.Event) error {
	end, err := read[trial.Ended](event)
	c := h.running[event.Sequence]
	if err != nil || c == nil {
		return err
	}
	delete(h.running, event.Sequence)
	c.result = resultOf(end, c.result)
	if c.bracket.end(c, h.minimize) {
		h.open = slices.DeleteFunc(h.open, func(b *halving) bool { return b == c.bracket })
	}
	return nil
}

// end notes that a configuration's trial ended, and goes to the next rung when it
// was the last of this one. It tells whether the bracket is over.
func (b *halving) end(c *configuration, minimize bool) bool {
	b.running--
	b.over = append(b.over, c)
	if b.running > 0 || b.toDraw > 0 || len(b.chosen) > 0 {
		return false
	}
	b.rung++
	if b.rung == len(b.rungs) {
		return true
	}
	best := slices.DeleteFunc(b.over, func(c *configuration) bool { return c.result == nil })
	slices.SortStableFunc(best, func(x, y *configuration) int {
		return cmp.Compare(loss(*x.result, minimize), loss(*y.result, minimize))
	})
	b.chosen, b.over = slices.Clone(best[:min(len(best), b.rungs[b.rung].size)]), nil
	return len(b.chosen) == 0
}
