package tuners

import (
	"math"
	"slices"

	"github.com/perennial-ml/perennial/arguments"
	"github.com/perennial-ml/perennial/searchspace"
	"github.com/perennial-ml/perennial/trial"
)

// GP is Bayesian optimisation with a Gaussian process (Snoek et al., NeurIPS 2012):
// it asks for the parameters with the best utility under a Matérn 5/2 process over
// the results, in which running trials count as if they had come out as predicted,
// and trials without a result as the worst of those with one. It begins with a
// design that fills the space. A suggestion looks at no more than keptTrials trials:
// the best, the latest, and a random part of the others.
type GP struct {
	options gpOptions
	cube    *cube
	unasked *unasked
	running running
	kept    kept
	asked   int
	model   *fitted
}

type gpOptions struct {
	seed     uint64
	minimize bool
	utility  string
	kappa    float64
	xi       float64
	alpha    float64
	cold     int
}

// fitted are the logarithms of length scales and noise that belong to what was kept
// when they fell due. They are looked for when they are first needed.
type fitted struct {
	kept  []*observed
	theta []float64 // nil until needed
}

// NewGP builds GP with NNI's arguments.
func NewGP(spec Spec) (Tuner, error) {
	o := gpOptions{seed: spec.Seed, utility: "ei", kappa: 5, alpha: 1e-6, cold: 10}
	if err := arguments.Read("tuner GP", spec.Arguments, o.checks()); err != nil {
		return nil, err
	}
	space, err := searchspace.Parse(spec.Space)
	if err != nil {
		return nil, err
	}
	g := &GP{options: o, cube: newCube(space), unasked: newUnasked(space), running: running{trials: map[int]runningTrial{}}, model: &fitted{}}
	return g, nil
}

func (o *gpOptions) checks() map[string]arguments.Check {
	return map[string]arguments.Check{
		"optimize_mode":                 arguments.Mode(&o.minimize),
		"seed":                          arguments.Seed(&o.seed),
		"utility":                       arguments.Word(&o.utility, "ei", "ucb", "poi"),
		"kappa":                         arguments.Number(&o.kappa, 0, 1e9),
		"xi":                            arguments.Number(&o.xi, 0, 1e9),
		"alpha":                         arguments.Number(&o.alpha, 1e-12, 1),
		"cold_start_num":                arguments.Integer(&o.cold, 1, 1_000_000),
		"nu":                            arguments.Number(new(float64), 0, 1e9),
		"selection_num_warm_up":         arguments.Integer(new(int), 0, 1_000_000_000),
		"selection_num_starting_points": arguments.Integer(new(int), 0, 1_000_000_000),
	}
}

// Apply takes note of asks, results and a new search space, in which those results
// stay that lie in it. After an error it is as it was before.
func (g *GP) Apply(event trial.Event) error {
	switch event.Kind {
	case trial.KindAsked:
		return g.applyAsked(event)
	case trial.KindIntermediate:
		return g.running.reported(event)
	case trial.KindEnded:
		return g.applyEnded(event)
	}
	space, err := spaceOf(event)
	if space != nil {
		g.applySpace(space)
	}
	return err
}

func (g *GP) applyAsked(event trial.Event) error {
	ask, ours, err := askOf(event)
	if err != nil || !ours {
		return err
	}
	if err := g.unasked.note(ask.Parameters); err != nil {
		return err
	}
	if g.running.asked(g.cube, event.Sequence, ask.Parameters) {
		g.asked++
	}
	return nil
}

func (g *GP) applyEnded(event trial.Event) error {
	end, ok, err := g.running.ended(event)
	if err != nil || !ok {
		return err
	}
	g.kept.add(end.observed(g.options.minimize))
	if g.kept.refitDue() {
		g.model = &fitted{kept: slices.Clone(g.kept.best)}
	}
	return nil
}

func (g *GP) applySpace(space *searchspace.Space) {
	before := g.cube
	g.cube = newCube(space)
	g.unasked.move(space)
	g.running.move(before, g.cube)
	g.kept.move(before, g.cube)
	g.asked = len(g.running.trials) + len(g.kept.best)
	g.model = &fitted{kept: slices.Clone(g.kept.best)}
}

// Propose answers with the vector of the first design, or that of best utility, and
// in place of a repeat with the next best.
func (g *GP) Propose(n int) (Proposal, error) {
	for _, vector := range g.wanted(n) {
		parameters := g.cube.parameters(vector)
		repeat, err := g.unasked.has(parameters)
		if g.cube.space.NeverRepeats() {
			repeat = g.knows(vector)
		}
		if err != nil || !repeat {
			return Proposal{Parameters: parameters}, err
		}
	}
	return g.unasked.rest.first(g.unasked.asked)
}

// knows tells whether a trial that runs or is kept has the same vector, as may be at
// a corner of the cube.
func (g *GP) knows(vector []float64) bool {
	same := func(other []float64) bool { return nearlyEqual(vector, other) }
	return slices.ContainsFunc(g.running.vectors(), same) ||
		slices.ContainsFunc(g.kept.best, func(o *observed) bool { return same(o.vector) })
}

func nearlyEqual(a, b []float64) bool {
	const rounding = 1e-9
	for i := range a {
		if math.Abs(a[i]-b[i]) > rounding {
			return false
		}
	}
	return true
}

// wanted is what could be asked now, the best first.
func (g *GP) wanted(n int) [][]float64 {
	if g.asked < g.options.cold || g.kept.scored() < max(2, g.options.cold/3) {
		return [][]float64{g.cube.spread(g.options.seed, n)}
	}
	search := g.search(n)
	var vectors [][]float64
	for _, c := range search.ranked(g.incumbents()) {
		vectors = append(vectors, c.vector)
	}
	return vectors
}

const incumbentCount = 4

func (g *GP) incumbents() [][]float64 {
	var vectors [][]float64
	for _, o := range g.kept.best[:min(incumbentCount, g.kept.scored())] {
		vectors = append(vectors, o.vector)
	}
	return vectors
}

// search conditions a process on the results and says what is looked for.
func (g *GP) search(n int) *acquisition {
	kernel, noise := g.likelihood(nil).split(g.model.parameters(g))
	vectors, values := trainingData(g.kept.best)
	process := condition(kernel, noise, vectors, values)
	if pending := g.running.vectors(); len(pending) > 0 {
		vectors, values = believed(process, vectors, values, pending[max(0, len(pending)-mostPending):])
		process = condition(kernel, noise, vectors, values)
	}
	best := slices.Min(process.atVectors(values))
	return &acquisition{cube: g.cube, process: process, utility: g.options.utilityOver(best),
		stream: searchspace.NewStream(g.options.seed, n)}
}

// believed adds running trials with what the process predicts for them (the kriging
// believer of Ginsbourger et al. 2010), so that the next one goes elsewhere.
func believed(process *gaussianProcess, vectors [][]float64, values []float64, pending [][]float64) ([][]float64, []float64) {
	for _, vector := range pending {
		mean, _ := process.predict(vector)
		vectors, values = append(vectors, vector), append(values, mean)
	}
	return vectors, values
}

// mostPending is how many running trials are looked at, the latest.
const mostPending = 64

func (o *gpOptions) utilityOver(best float64) utility {
	switch o.utility {
	case "ucb":
		return lowerBound(o.kappa)
	case "poi":
		return probabilityOfImprovement(best, o.xi)
	}
	return expectedImprovement(best, o.xi)
}

func (g *GP) likelihood(kept []*observed) *likelihood {
	l := &likelihood{floor: g.options.alpha}
	for i := range g.cube.edges {
		l.unordered = append(l.unordered, g.cube.edges[i].unordered)
	}
	if kept != nil {
		l.vectors, l.values = trainingData(kept)
	}
	return l
}

// parameters are the logarithms, looked for if need be.
func (f *fitted) parameters(g *GP) []float64 {
	if f.theta == nil {
		f.theta = g.likelihood(thinned(f.kept, fitTrials)).fit()
	}
	return f.theta
}

// fitTrials is how many trials length scales are fitted to.
const fitTrials = 64
