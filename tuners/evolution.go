package tuners

import (
	"math"
	"slices"

	"github.com/perennial-ml/perennial/arguments"
	"github.com/perennial-ml/perennial/searchspace"
	"github.com/perennial-ml/perennial/trial"
)

// Evolution is NNI's naive evolution (after Real et al., "Large-Scale Evolution of
// Image Classifiers", 2017): a population of random sets first; then two that have
// results are taken by chance, the worse leaves, and the better has a child in which
// one parameter is drawn anew. For a trial that gives no result the population gets
// a new random set. No set is asked twice.
//
// While as many trials run as the population is large, it waits for one to end; NNI
// then forgets the last request that it could not answer, and one trial fewer runs
// from then on.
type Evolution struct {
	population
}

// RegularizedEvolution (Real et al., "Regularized Evolution for Image Classifier
// Architecture Search", 2019) lets the best of sample_size, taken by chance, have
// the child, and removes not the worst but the oldest. No set is asked twice. NNI's
// searches architectures only; this one takes every search space.
type RegularizedEvolution struct {
	population
	sample int
}

// population is what evolution works on.
type population struct {
	seed     uint64
	minimize bool
	size     int
	unasked  *unasked
	random   int           // how many random sets are still to be asked
	tried    []*individual // with a result, the oldest first
	running  map[int]*individual
}

// individual is one parameter set.
type individual struct {
	point searchspace.Point // nil where it lies outside the space
	loss  float64
}

// NewEvolution builds Evolution. Its arguments are optimize_mode (maximize by
// default), population_size (32) and seed.
func NewEvolution(spec Spec) (Tuner, error) {
	e := &Evolution{population{seed: spec.Seed, size: 32}}
	return e, e.prepare("Evolution", spec, map[string]arguments.Check{})
}

// NewRegularizedEvolution builds RegularizedEvolution. Its arguments are
// optimize_mode (maximize by default), population_size (100), sample_size (25) and
// seed.
func NewRegularizedEvolution(spec Spec) (Tuner, error) {
	r := &RegularizedEvolution{population: population{seed: spec.Seed, size: 100}, sample: 25}
	return r, r.prepare("RegularizedEvolution", spec, map[string]arguments.Check{"sample_size": arguments.Integer(&r.sample, 1, 9999)})
}

func (p *population) prepare(tuner string, spec Spec, checks map[string]arguments.Check) error {
	checks["optimize_mode"] = arguments.Mode(&p.minimize)
	checks["population_size"] = arguments.Integer(&p.size, 1, 99999)
	checks["seed"] = arguments.Seed(&p.seed)
	if err := arguments.Read("tuner "+tuner, spec.Arguments, checks); err != nil {
		return err
	}
	space, err := searchspace.Parse(spec.Space)
	if err != nil {
		return err
	}
	p.unasked, p.random, p.running = newUnasked(space), p.size, map[int]*individual{}
	return nil
}

// Propose answers with a random set or a child.
func (e *Evolution) Propose(n int) (Proposal, error) {
	if len(e.running) >= e.size {
		return Proposal{Answer: Wait}, nil
	}
	stream := searchspace.NewStream(e.seed, n)
	if e.random > 0 || len(e.tried) == 0 {
		return e.unasked.proposal(e.unasked.space.Draw(stream))
	}
	better, _ := e.pair(stream)
	return e.child(e.tried[better], stream)
}

// pair takes two by chance; of one alone, worse is -1.
func (p *population) pair(stream *searchspace.Stream) (better, worse int) {
	if len(p.tried) == 1 {
		return 0, -1
	}
	better = int(stream.Below(uint64(len(p.tried))))
	worse = int(stream.Below(uint64(len(p.tried) - 1)))
	if worse >= better {
		worse++
	}
	if p.tried[worse].loss < p.tried[better].loss {
		better, worse = worse, better
	}
	return better, worse
}

// Propose answers with a random set or a child.
func (r *RegularizedEvolution) Propose(n int) (Proposal, error) {
	stream := searchspace.NewStream(r.seed, n)
	switch {
	case r.random > 0:
		return r.unasked.proposal(r.unasked.space.Draw(stream))
	case len(r.tried) == 0 && len(r.running) > 0:
		return Proposal{Answer: Wait}, nil
	case len(r.tried) == 0:
		return r.unasked.proposal(r.unasked.space.Draw(stream))
	}
	best := r.tried[stream.Below(uint64(len(r.tried)))]
	for range r.sample - 1 {
		if other := r.tried[stream.Below(uint64(len(r.tried)))]; other.loss < best.loss {
			best = other
		}
	}
	return r.child(best, stream)
}

// mutations is how many children are looked at for one that was never asked, before
// the grid is.
const mutations = 16

// child is a parent with one parameter drawn anew.
func (p *population) child(parent *individual, stream *searchspace.Stream) (Proposal, error) {
	var child searchspace.Point
	for range mutations {
		child = p.mutated(parent.point, stream)
		asked, err := p.unasked.has(p.unasked.space.Parameters(child))
		if err != nil || !asked {
			break
		}
	}
	return p.unasked.proposal(child)
}

// mutated draws one active parameter anew, and those of branches newly taken.
func (p *population) mutated(parent searchspace.Point, stream *searchspace.Stream) searchspace.Point {
	space := p.unasked.space
	var active []int
	for i := range parent {
		if space.Active(i, parent) {
			active = append(active, i)
		}
	}
	chosen := active[stream.Below(uint64(len(active)))]
	child := slices.Clone(parent)
	for i := range child {
		if space.Active(i, child) && (i == chosen || !space.Active(i, parent)) {
			child[i] = space.Dimensions[i].Draw(stream)
		}
	}
	return child
}

// Apply takes note of asks, results and a new search space, to which those that lie
// in it are taken along. After an error it is as it was before.
func (e *Evolution) Apply(event trial.Event) error {
	if event.Kind != trial.KindAsked {
		return e.apply(event)
	}
	random := e.random > 0
	ours, err := e.asked(event)
	if err != nil || !ours || random || len(e.tried) == 0 {
		return err
	}
	if _, worse := e.pair(searchspace.NewStream(e.seed, event.Sequence)); worse >= 0 {
		e.tried = slices.Delete(e.tried, worse, worse+1)
	}
	return nil
}

// Apply takes note of asks, results and a new search space, to which those that lie
// in it are taken along. After an error it is as it was before.
func (r *RegularizedEvolution) Apply(event trial.Event) error {
	if event.Kind == trial.KindAsked {
		_, err := r.asked(event)
		return err
	}
	err := r.apply(event)
	r.tried = r.tried[max(0, len(r.tried)-r.size):]
	return err
}

func (p *population) asked(event trial.Event) (ours bool, err error) {
	ask, ours, err := askOf(event)
	if err != nil || !ours {
		return false, err
	}
	if err := p.unasked.note(ask.Parameters); err != nil {
		return false, err
	}
	born := &individual{}
	if point, ok := p.unasked.space.Locate(ask.Parameters); ok {
		born.point = point
	}
	p.running[event.Sequence] = born
	p.random = max(p.random-1, 0)
	return true, nil
}

func (p *population) apply(event trial.Event) error {
	if event.Kind == trial.KindEnded {
		end, err := read[trial.Ended](event)
		if err == nil {
			p.ended(event.Sequence, end.Value)
		}
		return err
	}
	space, err := spaceOf(event)
	if space != nil {
		p.move(space)
	}
	return err
}

func (p *population) ended(sequence int, value *float64) {
	ended, ok := p.running[sequence]
	if !ok {
		return
	}
	delete(p.running, sequence)
	if value == nil || math.IsNaN(*value) || ended.point == nil {
		p.random++
		return
	}
	ended.loss = loss(*value, p.minimize)
	p.tried = append(p.tried, ended)
}

// move goes to another space. For those that do not lie in it there will be random
// ones.
func (p *population) move(space *searchspace.Space) {
	from := p.unasked.space
	for _, i := range p.running {
		i.move(from, space)
	}
	before := len(p.tried)
	p.tried = slices.DeleteFunc(p.tried, func(i *individual) bool { return !i.move(from, space) })
	p.random += before - len(p.tried)
	p.unasked.move(space)
}

// move tells whether the individual lies in another space too.
func (i *individual) move(from, to *searchspace.Space) bool {
	if i.point == nil {
		return false
	}
	point, ok := to.Locate(from.Parameters(i.point))
	i.point = nil
	if ok {
		i.point = point
	}
	return ok
}
