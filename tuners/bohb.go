package tuners

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/perennial-ml/perennial/arguments"
	"github.com/perennial-ml/perennial/searchspace"
	"github.com/perennial-ml/perennial/trial"
)

// BOHB is Hyperband of which the configurations are chosen by a model (Falkner et
// al., "BOHB: Robust and Efficient Hyperparameter Optimization at Scale", ICML
// 2018). For each budget it estimates the density of the good configurations and of
// the others, and asks for that which is likeliest to be good at the largest budget
// that it knows enough about; a share of the configurations stays random. Ids and
// the key TRIAL_BUDGET are NNI's; unlike NNI's it begins the next bracket rather than
// let a worker wait. Trials without a result count as the worst.
type BOHB struct {
	Hyperband
	options bohbOptions
	cube    *cube
	results map[int]*kept // by budget
}

type bohbOptions struct {
	leastPoints    int // 0: one more than there are parameters
	topPercent     int
	candidates     int
	randomShare    float64
	widening       float64
	leastBandwidth float64
}

// NewBOHB builds BOHB with NNI's arguments.
func NewBOHB(spec Spec) (Tuner, error) {
	b := &BOHB{results: map[int]*kept{}, options: bohbOptions{topPercent: 15, candidates: 64,
		randomShare: 1.0 / 3, widening: 3, leastBandwidth: 1e-3}}
	b.Hyperband = Hyperband{seed: spec.Seed, running: map[int]*configuration{}, draw: b.choose, noRound: true}
	least, most, eta := 1, 3, 3
	checks := b.options.checks()
	checks["optimize_mode"], checks["seed"] = arguments.Mode(&b.minimize), arguments.Seed(&b.seed)
	checks["min_budget"], checks["max_budget"] = arguments.Integer(&least, 1, largestBudget), arguments.Integer(&most, 1, largestBudget)
	checks["eta"] = arguments.Integer(&eta, 2, largestBudget)
	if err := arguments.Read("tuner BOHB", spec.Arguments, checks); err != nil {
		return nil, err
	}
	if least > most {
		return nil, fmt.Errorf("argument min_budget of tuner BOHB is %d: want at most max_budget, which is %d", least, most)
	}
	space, err := spaceFor("BOHB", spec.Space, budgetKey)
	if err != nil {
		return nil, err
	}
	b.schedule, b.space, b.cube = bracketsOf(least, most, eta), space, newCube(space)
	return b, nil
}

func (o *bohbOptions) checks() map[string]arguments.Check {
	return map[string]arguments.Check{
		"min_points_in_model": arguments.OrNull(arguments.Integer(&o.leastPoints, 1, keptTrials)),
		"top_n_percent":       arguments.Integer(&o.topPercent, 1, 99),
		"num_samples":         arguments.Integer(&o.candidates, 1, 10_000),
		"random_fraction":     arguments.Number(&o.randomShare, 0, 1),
		"bandwidth_factor":    arguments.Number(&o.widening, 0.001, 1000),
		"min_bandwidth":       arguments.Number(&o.leastBandwidth, 1e-9, 1),
		"config_space": arguments.OrNull(func(json.RawMessage) error {
			return errors.New("want null: files of ConfigSpace are not read, write the parameters into searchSpace")
		}),
	}
}

// Apply takes note of asks, results and a new search space, in which those results
// stay that lie in it. After an error it is as it was before.
func (b *BOHB) Apply(event trial.Event) error {
	result, err := b.resultIn(event)
	if err != nil {
		return err
	}
	if err := b.Hyperband.Apply(event); err != nil {
		return err
	}
	if result != nil {
		result.kept.add(result.observed)
	}
	if b.cube.space != b.space {
		b.moveTo(newCube(b.space))
	}
	return nil
}

// budgetResult is a result and where it belongs.
type budgetResult struct {
	kept     *kept
	observed observed
}

// resultIn reads the result of a trial of ours, nil for other events.
func (b *BOHB) resultIn(event trial.Event) (*budgetResult, error) {
	c := b.running[event.Sequence]
	if event.Kind != trial.KindEnded || c == nil {
		return nil, nil
	}
	end, err := read[trial.Ended](event)
	if err != nil {
		return nil, err
	}
	point, ok := b.space.Locate(c.parameters)
	if !ok {
		return nil, nil
	}
	o := observed{trial: event.Sequence, vector: b.cube.vector(point), loss: math.NaN()}
	if result := resultOf(end, c.result); result != nil {
		o.loss = loss(*result, b.minimize)
	}
	return &budgetResult{b.keptAt(c.bracket.rungs[c.bracket.rung].budget), o}, nil
}

func (b *BOHB) keptAt(budget int) *kept {
	if b.results[budget] == nil {
		b.results[budget] = &kept{}
	}
	return b.results[budget]
}

func (b *BOHB) moveTo(c *cube) {
	for _, results := range b.results {
		results.move(b.cube, c)
	}
	b.cube = c
}

// choose chooses the configuration of trial n.
func (b *BOHB) choose(n int) searchspace.Point {
	stream := searchspace.NewStream(b.seed, n)
	model := b.model()
	if stream.Open() < b.options.randomShare || model == nil {
		return b.space.Draw(stream)
	}
	return b.cube.point(model.likeliest(stream, b.options.candidates))
}

// model is that of the largest budget which has enough results, nil if none has.
func (b *BOHB) model() *densities {
	largest := 0
	for budget, results := range b.results {
		if budget > largest && b.goodCount(results) > 0 {
			largest = budget
		}
	}
	if largest == 0 {
		return nil
	}
	results := b.results[largest]
	good := b.goodCount(results)
	return newDensities(b.cube, vectorsOf(results.best[:good]), vectorsOf(results.best[good:]), &b.options)
}

// goodCount is how many results count as good, 0 where there are too few for a model.
func (b *BOHB) goodCount(results *kept) int {
	least := min(max(b.options.leastPoints, len(b.cube.edges)+1), keptTrials/3)
	good := max(least, b.options.topPercent*len(results.best)/100)
	if results.scored() < good || len(results.best)-good < min(len(b.cube.edges)+1, least) {
		return 0
	}
	return good
}

func vectorsOf(trials []*observed) [][]float64 {
	var vectors [][]float64
	for _, o := range trials {
		vectors = append(vectors, o.vector)
	}
	return vectors
}
