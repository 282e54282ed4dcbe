package tuners

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/perennial-ml/perennial/arguments"
	"github.com/perennial-ml/perennial/searchspace"
	"github.com/perennial-ml/perennial/trial"
)

// Anneal draws near good trials, ever nearer, as hyperopt's anneal does, which is
// what NNI runs under this name. A trial is chosen by a geometric distribution over
// the ranking, on average the second best, and each parameter is drawn around its
// value there: in a range that shrinks as 1/(1 + T/10) with the number T of results
// for that parameter (for categories, that is the probability of another one). A
// parameter that the chosen trial did not have is drawn around a further choice.
// No set is asked twice.
//
// With parallel_optimize, once 20 trials were asked, running ones count with a made
// up result: the least, greatest or mean one so far (constant_liar_type).
type Anneal struct {
	seed     uint64
	minimize bool
	liar     string // empty: none
	unasked  *unasked
	asks     int
	sides    []side // by dimension
	running  map[int]searchspace.Point
	results  resultRange
}

// side is what is known of one dimension.
type side struct {
	count int           // trials that had it
	best  []observation // of these, the best first
}

// observation is a trial with a result.
type observation struct {
	trial int
	loss  float64
	point searchspace.Point
}

// ranking is how many of the best a dimension remembers: the geometric distribution
// passes over them once in 2^64.
const ranking = 64

// resultRange sums up all results so far, as reported.
type resultRange struct {
	count            int
	least, most, sum float64
}

// NewAnneal builds Anneal. Its arguments are optimize_mode (minimize by default),
// parallel_optimize (false), constant_liar_type (min, max or mean; min by default)
// and seed.
func NewAnneal(spec Spec) (Tuner, error) {
	a := &Anneal{seed: spec.Seed, minimize: true, running: map[int]searchspace.Point{}}
	parallel, liar := false, "min"
	err := arguments.Read("tuner Anneal", spec.Arguments, map[string]arguments.Check{
		"optimize_mode": arguments.Mode(&a.minimize), "parallel_optimize": arguments.Switch(&parallel),
		"constant_liar_type": arguments.Word(&liar, "min", "max", "mean"), "seed": arguments.Seed(&a.seed),
	})
	if err != nil {
		return nil, err
	}
	if parallel {
		a.liar = liar
	}
	space, err := searchspace.Parse(spec.Space)
	if err != nil {
		return nil, err
	}
	a.unasked, a.sides = newUnasked(space), make([]side, len(space.Dimensions))
	return a, nil
}

// Propose answers with a draw near a good trial, or in place of a repeat with a
// draw from the whole space or with the next set of the grid.
func (a *Anneal) Propose(n int) (Proposal, error) {
	stream := searchspace.NewStream(a.seed, n)
	space := a.unasked.space
	near := a.near(stream)
	asked, err := a.unasked.has(space.Parameters(near))
	if err != nil || !asked {
		return a.unasked.proposal(near)
	}
	return a.unasked.proposal(space.Draw(stream))
}

func (a *Anneal) near(stream *searchspace.Stream) searchspace.Point {
	space, sides := a.unasked.space, a.withLies()
	point := make(searchspace.Point, len(sides))
	var chosen []observation
	for i := range point {
		d := &space.Dimensions[i]
		switch {
		case !space.Active(i, point):
		case len(sides[i].best) == 0:
			point[i] = d.Draw(stream)
		default:
			chosen = sides[i].choose(chosen, i, space, stream)
			point[i] = drawNear(d, chosenFor(chosen, i, space).point[i], 1/(1+float64(sides[i].count)/10), stream)
		}
	}
	return point
}

// choose adds to the trials chosen so far one that has dimension i, unless one has.
func (s *side) choose(chosen []observation, i int, space *searchspace.Space, stream *searchspace.Stream) []observation {
	if slices.ContainsFunc(chosen, func(o observation) bool { return space.Active(i, o.point) }) {
		return chosen
	}
	rank := 0
	for stream.Below(2) == 1 {
		rank++
	}
	return append(chosen, s.best[min(rank, len(s.best)-1)])
}

func chosenFor(chosen []observation, i int, space *searchspace.Space) observation {
	return chosen[slices.IndexFunc(chosen, func(o observation) bool { return space.Active(i, o.point) })]
}

// drawNear draws a coordinate around another, in a share of the range.
func drawNear(d *searchspace.Dimension, middle, share float64, stream *searchspace.Stream) float64 {
	switch {
	case d.Size > 0:
		if stream.Open() < share {
			return d.Draw(stream)
		}
		return middle
	case d.Deviation > 0:
		return middle + float64((d.Draw(stream)-d.Mean)*share)
	}
	half := (d.High - d.Low) * share / 2
	middle = min(max(middle, d.Low+half), d.High-half)
	return min(max(middle+float64((2*stream.Open()-1)*half), d.Low), d.High)
}

// liesFrom is how many trials are asked before running ones count.
const liesFrom = 20

// withLies is what is known, and what is made up of the running trials.
func (a *Anneal) withLies() []side {
	if a.liar == "" || a.asks <= liesFrom || a.results.count == 0 {
		return a.sides
	}
	sides := make([]side, len(a.sides))
	for i, s := range a.sides {
		sides[i] = side{s.count, slices.Clone(s.best)}
	}
	lie := loss(a.results.lie(a.liar), a.minimize)
	for _, sequence := range slices.Sorted(maps.Keys(a.running)) {
		a.learn(sides, observation{sequence, lie, a.running[sequence]})
	}
	return sides
}

func (r *resultRange) lie(kind string) float64 {
	switch kind {
	case "min":
		return r.least
	case "max":
		return r.most
	}
	return r.sum / float64(r.count)
}

func (r *resultRange) add(value float64) {
	if r.count == 0 {
		r.least, r.most = value, value
	}
	r.count++
	r.least, r.most, r.sum = min(r.least, value), max(r.most, value), r.sum+value
}

// learn adds an observation to the dimensions that it has.
func (a *Anneal) learn(sides []side, o observation) {
	for i := range sides {
		if a.unasked.space.Active(i, o.point) {
			sides[i].add(o)
		}
	}
}

func (s *side) add(o observation) {
	s.count++
	at, _ := slices.BinarySearchFunc(s.best, o, observation.compare)
	if at < ranking {
		s.best = slices.Insert(s.best, at, o)
		s.best = s.best[:min(len(s.best), ranking)]
	}
}

// Apply takes note of asks, results and a new search space, to which those of the
// best trials that lie in it are taken along. After an error it is as it was before.
func (a *Anneal) Apply(event trial.Event) error {
	switch event.Kind {
	case trial.KindAsked:
		return a.asked(event)
	case trial.KindEnded:
		return a.ended(event)
	}
	space, err := spaceOf(event)
	if space != nil {
		a.move(space)
	}
	return err
}

func (a *Anneal) asked(event trial.Event) error {
	ask, ok, err := askOf(event)
	if err != nil || !ok {
		return err
	}
	if err := a.unasked.note(ask.Parameters); err != nil {
		return err
	}
	a.asks++
	if point, ok := a.unasked.space.Locate(ask.Parameters); ok {
		a.running[event.Sequence] = point
	}
	return nil
}

func (a *Anneal) ended(event trial.Event) error {
	end, err := read[trial.Ended](event)
	point, ok := a.running[event.Sequence]
	if err != nil || !ok {
		return err
	}
	delete(a.running, event.Sequence)
	if end.Value == nil || math.IsNaN(*end.Value) {
		return nil
	}
	a.results.add(*end.Value)
	a.learn(a.sides, observation{event.Sequence, loss(*end.Value, a.minimize), point})
	return nil
}

func (o observation) compare(other observation) int {
	return cmp.Or(cmp.Compare(o.loss, other.loss), cmp.Compare(o.trial, other.trial))
}

// move goes to another space.
func (a *Anneal) move(space *searchspace.Space) {
	from, kept := a.unasked.space, map[int]observation{}
	for _, s := range a.sides {
		for _, o := range s.best {
			kept[o.trial] = o
		}
	}
	a.unasked.move(space)
	a.sides = make([]side, len(space.Dimensions))
	for _, sequence := range slices.Sorted(maps.Keys(kept)) {
		o := kept[sequence]
		if point, ok := space.Locate(from.Parameters(o.point)); ok {
			a.learn(a.sides, observation{o.trial, o.loss, point})
		}
	}
	running := map[int]searchspace.Point{}
	for sequence, point := range a.running {
		if point, ok := space.Locate(from.Parameters(point)); ok {
			running[sequence] = point
		}
	}
	a.running = running
}
