package tuners

import (
	"github.com/perennial-ml/perennial/arguments"
	"github.com/perennial-ml/perennial/searchspace"
	"github.com/perennial-ml/perennial/trial"
)

// TPE is the tree-structured Parzen estimator: the trials so far are split into a
// small share of good ones and the others, the density of either is estimated, and
// of some vectors drawn from the density of the good ones that is asked where it is
// highest in proportion to the other's (Bergstra et al., "Algorithms for
// Hyper-Parameter Optimization", NeurIPS 2011). Densities are joint over all
// parameters that are there together (Falkner et al., "BOHB", ICML 2018); those in
// a branch of a nested choice have densities of their own, from the trials that
// took the branch.
//
// What goes beyond the textbook is in tpe_density.go: good trials count by rank,
// and kernels become narrower with the number of results by a schedule; and in
// tpe_noise.go: where results have noise, a trial's neighbours decide on its rank too.
//
// Running trials are counted in as if they had ended (constant liar); what they
// count as is constant_liar_type. Trials that ended without a result are counted as
// bad ones, but those a person cancelled. At most historyTrials trials are looked
// at: the best and the latest. No set is asked twice.
type TPE struct {
	options tpeOptions
	cube    *cube
	unasked *unasked
	running running
	history history
}

// NewTPE builds TPE. Its arguments are NNI's: optimize_mode (minimize by default),
// seed, and tpe_args, an object with constant_liar_type, n_startup_jobs,
// n_ei_candidates, linear_forgetting, prior_weight and gamma. Those not given are
// not as in NNI but as tpeDefaults has them.
func NewTPE(spec Spec) (Tuner, error) {
	o := tpeDefaults(spec.Seed)
	return newTPE(spec, "TPE", &o, map[string]arguments.Check{
		"optimize_mode": arguments.Mode(&o.minimize), "seed": arguments.Seed(&o.seed), "tpe_args": o.tpeArgs(),
	})
}

// NewTPELegacy builds TPE from the arguments of NNI's TPE_legacy, which was
// hyperopt's: optimize_mode, parallel_optimize (false by default) and, with it,
// constant_liar_type, where min and max mean the best and the worst result when
// minimizing, and the other way round when maximizing.
func NewTPELegacy(spec Spec) (Tuner, error) {
	o := tpeDefaults(spec.Seed)
	parallel, liar := false, "min"
	tuner, err := newTPE(spec, "TPE_legacy", &o, map[string]arguments.Check{
		"optimize_mode": arguments.Mode(&o.minimize), "seed": arguments.Seed(&o.seed),
		"parallel_optimize": arguments.Switch(&parallel), "constant_liar_type": arguments.Word(&liar, "min", "max", "mean"),
	})
	if err == nil && parallel {
		tuner.options.liar = legacyLiar(liar, o.minimize)
	}
	return tuner, err
}

func legacyLiar(liar string, minimize bool) string {
	switch {
	case liar == "mean":
		return liarMean
	case (liar == "min") == minimize:
		return liarBest
	}
	return liarWorst
}

func newTPE(spec Spec, name string, o *tpeOptions, checks map[string]arguments.Check) (*TPE, error) {
	if err := arguments.Read("tuner "+name, spec.Arguments, checks); err != nil {
		return nil, err
	}
	space, err := searchspace.Parse(spec.Space)
	if err != nil {
		return nil, err
	}
	return &TPE{options: *o, cube: newCube(space), unasked: newUnasked(space), running: running{trials: map[int]runningTrial{}}}, nil
}

// Apply takes note of asks, results and a new search space, in which those results
// stay that lie in it. After an error it is as it was before.
func (t *TPE) Apply(event trial.Event) error {
	switch event.Kind {
	case trial.KindAsked:
		return t.applyAsked(event)
	case trial.KindIntermediate:
		return t.running.reported(event)
	case trial.KindEnded:
		return t.applyEnded(event)
	}
	space, err := spaceOf(event)
	if space != nil {
		before := t.cube
		t.cube = newCube(space)
		t.unasked.move(space)
		t.running.move(before, t.cube)
		t.history.move(before, t.cube)
	}
	return err
}

func (t *TPE) applyAsked(event trial.Event) error {
	ask, ours, err := askOf(event)
	if err != nil || !ours {
		return err
	}
	if err := t.unasked.note(ask.Parameters); err != nil {
		return err
	}
	t.running.asked(t.cube, event.Sequence, ask.Parameters)
	return nil
}

func (t *TPE) applyEnded(event trial.Event) error {
	end, err := read[trial.Ended](event)
	if err != nil {
		return err
	}
	o, ok, err := t.running.ended(event)
	if err != nil || !ok {
		return err
	}
	// What a person cancelled says nothing about its parameters.
	if o.value != nil || end.State != trial.UserCanceled {
		t.history.add(o, t.options.minimize)
	}
	return nil
}

// redraws is how often a vector is chosen anew in place of a repeat, before the
// grid's next set takes its place.
const redraws = 4

// Propose answers with the most promising of some vectors, or where all of several
// choices are repeats with the first set of the grid that was never asked.
func (t *TPE) Propose(n int) (Proposal, error) {
	stream := searchspace.NewStream(t.options.seed, n)
	for range redraws {
		parameters := t.cube.parameters(t.choose(stream))
		if asked, err := t.unasked.has(parameters); err != nil || !asked {
			return Proposal{Parameters: parameters}, err
		}
	}
	return t.unasked.rest.first(t.unasked.asked)
}

// choose chooses a vector, level by level.
func (t *TPE) choose(stream *searchspace.Stream) []float64 {
	c := &chooser{options: &t.options, cube: t.cube, stream: stream, vector: make([]float64, len(t.cube.edges))}
	running := t.running.vectors()
	c.level(t.cube.space.TopLevel(), evidence{
		trials: t.history.trials, running: running[max(len(running)-mostLies, 0):], share: t.history.share(),
	})
	return c.vector
}
