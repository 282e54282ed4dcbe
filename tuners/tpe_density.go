package tuners

import (
	"math"
	"slices"

	"github.com/perennial-ml/perennial/searchspace"
)

// chooser chooses one vector.
type chooser struct {
	options *tpeOptions
	cube    *cube
	stream  *searchspace.Stream
	vector  []float64 // as far as chosen
}

// evidence is what is known of the dimensions of one level: trials that had them.
type evidence struct {
	trials  []observed  // in the order in which they ended
	running [][]float64 // the oldest first
	share   float64     // trials there were for each that is remembered
}

// within is the evidence on a branch: the trials that took it.
func (e evidence) within(choice, branch int) evidence {
	took := func(vector []float64) bool { return vector[choice] == float64(branch) }
	inside := evidence{share: e.share}
	for _, o := range e.trials {
		if took(o.vector) {
			inside.trials = append(inside.trials, o)
		}
	}
	for _, vector := range e.running {
		if took(vector) {
			inside.running = append(inside.running, vector)
		}
	}
	return inside
}

// level chooses the coordinates of some dimensions together, then those of the
// branches that they take.
func (c *chooser) level(dimensions []int, e evidence) {
	axes := make([]axis, len(dimensions))
	for j, i := range dimensions {
		axes[j] = newAxis(&c.cube.edges[i])
	}
	x := c.promising(axes, dimensions, e)
	for j, i := range dimensions {
		c.vector[i] = x[j]
	}
	for _, i := range dimensions {
		branch := int(c.vector[i])
		if inside := c.cube.space.Inside(i, branch); len(inside) > 0 {
			c.level(inside, e.within(i, branch))
		}
	}
}

// promising draws candidates from the density of the good trials and returns that
// which is likeliest to be one of them.
func (c *chooser) promising(axes []axis, dimensions []int, e evidence) []float64 {
	s := c.split(dimensions, e)
	if s.results < c.options.startup {
		return c.anywhere(axes)
	}
	least := narrowest(axes, s.results, len(e.running))
	likely, unlikely := c.density(axes, dimensions, s.good, least), c.density(axes, dimensions, s.bad, least)
	var best []float64
	most := math.Inf(-1)
	for range c.options.candidates {
		x := likely.draw(c.stream)
		if score := likely.log(x) - unlikely.log(x); best == nil || score > most {
			best, most = x, score
		}
	}
	return best
}

// anywhere draws from the space's own distribution.
func (c *chooser) anywhere(axes []axis) []float64 {
	x := make([]float64, len(axes))
	for j := range axes {
		x[j] = axes[j].edge.atShare(c.stream.Open())
	}
	return x
}

// example is a trial in a density.
type example struct {
	vector []float64
	weight float64
}

// split is the evidence as examples of good and of bad parameters.
type split struct {
	good, bad []example
	results   int // those forgotten included
}

func (c *chooser) split(dimensions []int, e evidence) split {
	trials := append(slices.Clone(e.trials), c.lies(e)...)
	ranked := steadied(byLoss(trials), dimensions)
	s := split{results: int(math.Round(float64(len(ranked)) * e.share))}
	count := min(c.options.goodCount(s.results), len(ranked))
	for i, o := range ranked[:count] {
		s.good = append(s.good, example{o.vector, rankWeight(i, count)})
	}
	s.bad = c.bad(trials, ranked[:count])
	if c.options.liar == liarFaint {
		for _, vector := range e.running {
			s.bad = append(s.bad, example{vector, faintWeight})
		}
	}
	return s
}

// bad is the trials that are not good, those without a result among them.
func (c *chooser) bad(trials, good []observed) (bad []example) {
	isGood := map[int]bool{}
	for _, o := range good {
		isGood[o.trial] = true
	}
	for _, o := range trials {
		if !isGood[o.trial] {
			bad = append(bad, example{o.vector, c.options.ageWeight(len(bad), len(trials)-len(good))})
		}
	}
	return bad
}

// lies are the running trials with the result that NNI's constant liar gives them.
func (c *chooser) lies(e evidence) (lies []observed) {
	ranked := byLoss(e.trials)
	if len(ranked) == 0 || c.options.liar == liarFaint || c.options.liar == liarNone {
		return nil
	}
	lie := map[string]float64{liarBest: ranked[0].loss, liarWorst: ranked[len(ranked)-1].loss, liarMean: meanLoss(ranked)}[c.options.liar]
	for i, vector := range e.running {
		lies = append(lies, observed{trial: -1 - i, vector: vector, loss: lie})
	}
	return lies
}

func meanLoss(trials []observed) float64 {
	mean := 0.0
	for _, o := range trials {
		mean += o.loss / float64(len(trials))
	}
	return mean
}

// How many trials are good: a tenth, as in Optuna, or by NNI's rule where gamma is
// given. Few of many thousand tell where to look.
const (
	goodShare = 0.1
	mostGood  = 25
)

func (o *tpeOptions) goodCount(results int) int {
	if o.gamma > 0 {
		return max(min(int(math.Ceil(o.gamma*math.Sqrt(float64(results)))), o.forgetting), 1)
	}
	return max(min(int(math.Ceil(goodShare*float64(results))), mostGood), 1)
}

// rankWeight is what a good trial counts, the best most: logarithmically by rank, as
// parents do in CMA-ES (Hansen, "The CMA Evolution Strategy: A Tutorial", 2016). The
// weights of many trials add up to about their number.
func rankWeight(rank, count int) float64 {
	return math.Log(float64(count+1) / float64(rank+1))
}

// ageWeight is what bad trial i of count, in the order of time, counts: the latest in
// full, older ones the less the older (Bergstra et al., "Making a Science of Model
// Search", ICML 2013).
func (o *tpeOptions) ageWeight(i, count int) float64 {
	old := count - o.forgetting
	if i >= old {
		return 1
	}
	least := 1 / float64(count)
	return least + float64((1-least)*float64(i)/float64(max(old-1, 1)))
}

// A running trial counts as a bad one, so that not all go to the same place, but
// little: many of them around the best trials must not drive the search away from
// there. Of very many the latest are looked at.
const (
	faintWeight = 0.1
	mostLies    = 64
)

// density puts a kernel, no narrower than least, on each example and one over the
// whole level.
func (c *chooser) density(axes []axis, dimensions []int, examples []example, least float64) *parzen {
	kernels := make([]kernel, len(examples), len(examples)+1)
	for n, e := range examples {
		kernels[n] = kernel{centre: make([]float64, len(axes)), width: make([]float64, len(axes)), weight: e.weight}
		for j, i := range dimensions {
			kernels[n].centre[j] = e.vector[i]
		}
	}
	for j := range axes {
		c.setWidths(kernels, &axes[j], j, least)
	}
	return newParzen(axes, append(kernels, priorKernel(axes, c.options.prior)))
}

// finest is the narrowest kernel there is, as a share of the range: parameters are
// not told apart more finely.
const finest = 1e-3

// narrowest is how wide kernels are at least after so many results. Bergstra et al.
// keep them above 1/(number of kernels + 1), which for the good trials hardly
// shrinks: at 200 results they would still be a twentieth of the range wide, and the
// search could not close in. Here the width falls with the number of results, the
// faster the fewer dimensions have to be closed in on (the schedule is a choice of
// ours by measurement).
func narrowest(axes []axis, results, running int) float64 {
	ordered := 0
	for i := range axes {
		if axes[i].categories == 0 {
			ordered++
		}
	}
	learned := float64(max(results, 1)) / slowdown(ordered, running)
	return min(max(math.Pow(learned, -0.75-1/float64(max(ordered, 1))), finest), 1)
}

// slowdown is how many results count as one where trials run side by side: each of
// them then leads to fewer others. It makes a difference in many dimensions, where
// a minimum is closed in on in many steps, and none up to two.
func slowdown(ordered, running int) float64 {
	const perRunning, none, full = 0.15, 2, 6
	part := min(max(float64(ordered-none)/(full-none), 0), 1)
	return math.Pow(1+perRunning*float64(running), part)
}

// setWidths sets the widths of all kernels on one axis.
func (c *chooser) setWidths(kernels []kernel, a *axis, j int, least float64) {
	if a.categories > 0 {
		c.setShares(kernels, a, j)
		return
	}
	centres := make([]float64, len(kernels))
	for n := range kernels {
		centres[n] = kernels[n].centre[j]
	}
	for n, width := range neighbourWidths(centres, least) {
		kernels[n].width[j] = max(width, a.leastWidth(centres[n]))
	}
}

// setShares gives each category what it would have of a prior spread over all
// kernels.
func (c *chooser) setShares(kernels []kernel, a *axis, j int) {
	spread := c.options.prior * float64(a.categories) / float64(len(kernels)+1)
	for n := range kernels {
		kernels[n].width[j] = spread / (1 + spread)
	}
}

// leastWidth keeps a kernel on a discrete axis from emitting only the value that it
// stands on.
func (a *axis) leastWidth(x float64) float64 {
	if !a.discrete() {
		return 0
	}
	const ofCell = 0.3 // one draw in ten is outside
	low, high := a.cell(x)
	return ofCell * (high - low)
}
