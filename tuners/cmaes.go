package tuners

import (
	"cmp"
	"math"
	"slices"

	"github.com/perennial-ml/perennial/arguments"
	"github.com/perennial-ml/perennial/searchspace"
	"github.com/perennial-ml/perennial/trial"
)

// CMAES is the covariance matrix adaptation evolution strategy (Hansen, "The CMA
// Evolution Strategy: A Tutorial", 2016) over the cube, with learned shares for the
// elements of unordered choices. It never waits for a generation: trials are drawn
// from the distribution as it is, and it learns whenever as many trials have ended
// as make a generation, whichever they are. Trials without a result count as the
// worst. When a search has come to rest the next begins elsewhere with twice the
// generation (IPOP, Auger and Hansen, CEC 2005).
type CMAES struct {
	options    cmaesOptions
	cube       *cube
	unasked    *unasked
	running    running
	spread     *distribution
	generation []observed // trials that ended since the distribution last learned
	best       observed
	restarts   int
	rest       rest
}

type cmaesOptions struct {
	seed       uint64
	minimize   bool
	population int // 0: by the number of dimensions
	sigma      float64
	restart    bool
}

// NewCMAES builds CMAES. Its arguments are optimize_mode (maximize by default),
// seed, population_size (4 + 3 log d by default), sigma0, the first standard
// deviation as a share of the range (0.3), and restart (true).
func NewCMAES(spec Spec) (Tuner, error) {
	o := cmaesOptions{seed: spec.Seed, sigma: 0.3, restart: true}
	err := arguments.Read("tuner CMAES", spec.Arguments, map[string]arguments.Check{
		"optimize_mode": arguments.Mode(&o.minimize), "seed": arguments.Seed(&o.seed),
		"population_size": arguments.Integer(&o.population, leastPopulation, mostPopulation),
		"sigma0":          arguments.Number(&o.sigma, 0.001, 1), "restart": arguments.Switch(&o.restart),
	})
	if err != nil {
		return nil, err
	}
	space, err := searchspace.Parse(spec.Space)
	if err != nil {
		return nil, err
	}
	c := &CMAES{options: o, cube: newCube(space), unasked: newUnasked(space), best: observed{loss: math.NaN()},
		running: running{trials: map[int]runningTrial{}}}
	c.begin(nil)
	return c, nil
}

// How large a generation may be.
const (
	leastPopulation = 4
	mostPopulation  = 1000
)

// begin begins a search around a vector, or around the middle.
func (c *CMAES) begin(around []float64) {
	size := c.options.population
	if size == 0 {
		size = 4 + int(3*math.Log(float64(len(c.cube.edges))))
	}
	for range c.restarts {
		size = min(2*size, mostPopulation)
	}
	c.spread = newDistribution(c.cube, size, c.options.sigma, around)
	c.generation, c.rest = nil, rest{}
}

// Propose draws from the distribution; in place of a repeat it draws again a few
// times and then takes the first set of the grid that was never asked.
func (c *CMAES) Propose(n int) (Proposal, error) {
	const attempts = 8
	stream := searchspace.NewStream(c.options.seed, n)
	for range attempts {
		parameters := c.cube.parameters(c.spread.draw(stream))
		if repeat, err := c.unasked.has(parameters); err != nil || !repeat {
			return Proposal{Parameters: parameters}, err
		}
	}
	return c.unasked.rest.first(c.unasked.asked)
}

// Apply takes note of asks, results and a new search space, in which the search
// begins anew at the best result that lies in it. After an error it is as it was
// before.
func (c *CMAES) Apply(event trial.Event) error {
	switch event.Kind {
	case trial.KindAsked:
		return c.applyAsked(event)
	case trial.KindIntermediate:
		return c.running.reported(event)
	case trial.KindEnded:
		end, ok, err := c.running.ended(event)
		if ok && err == nil {
			c.observe(end)
		}
		return err
	}
	space, err := spaceOf(event)
	if space != nil {
		c.applySpace(space)
	}
	return err
}

func (c *CMAES) applyAsked(event trial.Event) error {
	ask, ours, err := askOf(event)
	if err != nil || !ours {
		return err
	}
	if err := c.unasked.note(ask.Parameters); err != nil {
		return err
	}
	c.running.asked(c.cube, event.Sequence, ask.Parameters)
	return nil
}

func (c *CMAES) observe(end outcome) {
	o := end.observed(c.options.minimize)
	if !(o.loss >= c.best.loss) && end.value != nil {
		c.best = o
	}
	c.generation = append(c.generation, o)
	if len(c.generation) >= c.spread.size {
		c.learn()
	}
}

func (c *CMAES) learn() {
	slices.SortStableFunc(c.generation, func(a, b observed) int { return cmp.Compare(rank(&a), rank(&b)) })
	c.spread.learn(c.generation, c.options.seed)
	c.rest.note(c.generation, c.spread)
	c.generation = nil
	if c.options.restart && c.rest.reached(c.spread) {
		c.restarts++
		// The numbers below zero are no trial's.
		c.begin(c.cube.draw(searchspace.NewStream(c.options.seed, -c.restarts)))
	}
}

func (c *CMAES) applySpace(space *searchspace.Space) {
	before := c.cube
	c.cube = newCube(space)
	c.unasked.move(space)
	c.running.move(before, c.cube)
	vector, ok := []float64(nil), false
	if !math.IsNaN(c.best.loss) {
		vector, ok = c.cube.moved(before, c.best.vector)
	}
	if !ok {
		c.best.loss = math.NaN()
	}
	c.best.vector, c.restarts = vector, 0
	c.begin(vector)
}

// rest tells when a search has come to rest.
type rest struct {
	best []float64 // of the latest generations
}

// Signs of rest.
const (
	leastSpread    = 1e-9 // of the distribution, as a share of the range
	leastGain      = 1e-12
	worstElongated = 1e14 // the covariance matrix's condition number
)

func (r *rest) note(ranked []observed, d *distribution) {
	r.best = append(r.best, rank(&ranked[0]))
	r.best = r.best[max(0, len(r.best)-r.window(d)):]
}

// window is how many generations without a gain are rest.
func (r *rest) window(d *distribution) int {
	return 10 + 30*len(d.mean)/d.size
}

func (r *rest) reached(d *distribution) bool {
	// Where nothing but failures was seen neither end is finite, and no gain is seen.
	best := slices.Min(r.best)
	if len(r.best) == r.window(d) && !(slices.Max(r.best)-best > leastGain*(1+math.Abs(best))) {
		return true
	}
	if len(d.smooth) == 0 {
		return false
	}
	longest, shortest := slices.Max(d.lengths), slices.Min(d.lengths)
	return d.sigma*longest < leastSpread || longest*longest > worstElongated*shortest*shortest
}
