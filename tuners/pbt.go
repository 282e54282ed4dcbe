package tuners

import (
	"cmp"
	"encoding/json"
	"math"
	"path"
	"slices"
	"strconv"

	"github.com/perennial-ml/perennial/arguments"
	"github.com/perennial-ml/perennial/searchspace"
	"github.com/perennial-ml/perennial/trial"
)

// PBT is population based training (Jaderberg et al., 2017) in steps, as NNI does
// it: each trial trains one member of the population for one step, from the
// checkpoint in load_checkpoint_dir to one in save_checkpoint_dir, which is
// <directory>/<member>/<step>; in a member's first step both are the same place and
// nothing is there. When all members have done a step, the worst of them take over
// parameters and checkpoint of one of the best, and each parameter is then drawn
// anew or moved a little. A trial that failed, or gave no number, is among the
// worst, so nobody goes on from a checkpoint that was not written; where all
// failed, all do the step again with new draws. It is never exhausted.
//
// A new search space begins with a new population, whose steps are counted on.
type PBT struct {
	seed        uint64
	minimize    bool
	factor      float64
	resample    float64
	fraction    float64
	checkpoints string
	space       *searchspace.Space
	step        int
	members     []member
	best        []model // of the step before
	running     map[int]int
}

// model is what a trial leaves: the parameters it was trained with and its
// checkpoint.
type model struct {
	parameters trial.Parameters // as the space has them; nil before the first
	checkpoint string
}

// member is one of the population, in the present step.
type member struct {
	model        // of the last step that went well
	replaced     bool
	asked, ended bool
	training     model
	result       *float64
}

// NewPBT builds PBT. Its arguments are optimize_mode (maximize by default),
// all_checkpoint_dir (by default a directory of the experiment), population_size
// (10), factor, by which parameters are moved, as a share of their range (0.2),
// resample_probability (0.25), fraction, the share of the members that are replaced
// (0.2), and seed.
func NewPBT(spec Spec) (Tuner, error) {
	p := &PBT{seed: spec.Seed, factor: 0.2, resample: 0.25, fraction: 0.2, running: map[int]int{}}
	size, directory := 10, ""
	err := arguments.Read("tuner PBT", spec.Arguments, map[string]arguments.Check{
		"optimize_mode": arguments.Mode(&p.minimize), "all_checkpoint_dir": arguments.Path(&directory),
		"population_size": arguments.Integer(&size, 1, 99999), "factor": arguments.Number(&p.factor, 0, 1),
		"resample_probability": arguments.Number(&p.resample, 0, 1), "fraction": arguments.Number(&p.fraction, 0, 1),
		"seed": arguments.Seed(&p.seed),
	})
	if err != nil {
		return nil, err
	}
	p.members = make([]member, size)
	if p.space, err = spaceFor("PBT", spec.Space, loadKey, saveKey); err != nil {
		return nil, err
	}
	p.checkpoints, err = checkpointDirectory("PBT", directory, spec)
	return p, err
}

// Propose answers with the next member of this step, or waits for the step to end.
func (p *PBT) Propose(n int) (Proposal, error) {
	i := slices.IndexFunc(p.members, func(m member) bool { return !m.asked })
	if i < 0 {
		return Proposal{Answer: Wait}, nil
	}
	save := path.Join(p.checkpoints, strconv.Itoa(i), strconv.Itoa(p.step))
	next := p.next(p.members[i], searchspace.NewStream(p.seed, n))
	load := cmp.Or(next.checkpoint, save)
	return Proposal{Parameters: with(next.parameters, extra{loadKey, load}, extra{saveKey, save})}, nil
}

// next is what a member trains in this step, and from which checkpoint.
func (p *PBT) next(m member, stream *searchspace.Stream) model {
	switch {
	case m.replaced && len(p.best) > 0:
		chosen := p.best[stream.Below(uint64(len(p.best)))]
		return model{p.explored(chosen.parameters, stream), chosen.checkpoint}
	case m.replaced || m.parameters == nil:
		return model{p.space.Parameters(p.space.Draw(stream)), m.checkpoint}
	}
	return m.model
}

// explored moves each parameter; those of branches newly taken are drawn.
func (p *PBT) explored(parameters trial.Parameters, stream *searchspace.Stream) trial.Parameters {
	from, ok := p.space.Locate(parameters)
	if !ok {
		return p.space.Parameters(p.space.Draw(stream))
	}
	to := slices.Clone(from)
	for i := range p.space.Dimensions {
		switch d := &p.space.Dimensions[i]; {
		case !p.space.Active(i, to):
		case !p.space.Active(i, from) || stream.Open() < p.resample:
			to[i] = d.Draw(stream)
		default:
			to[i] = p.moved(d, from[i], 2*float64(stream.Below(2))-1)
		}
	}
	return p.space.Parameters(to)
}

// moved goes one step up or down: to the next category or multiple of q, or by a
// share of the range or, where there is none, of the standard deviation.
func (p *PBT) moved(d *searchspace.Dimension, coordinate, direction float64) float64 {
	switch {
	case d.Size > 0:
		return min(max(coordinate+direction, 0), float64(d.Size-1))
	case d.Quantum > 0:
		return stepped(d, coordinate, direction)
	case d.Deviation > 0:
		return coordinate + float64(direction*p.factor*d.Deviation)
	}
	return min(max(coordinate+float64(direction*p.factor*(d.High-d.Low)), d.Low), d.High)
}

// stepped goes to the next multiple of q that the dimension has, if there is one.
func stepped(d *searchspace.Dimension, coordinate, direction float64) float64 {
	value := d.Value(coordinate) + float64(direction*d.Quantum)
	if d.Deviation == 0 {
		value = min(max(value, d.Value(d.Low)), d.Value(d.High))
	}
	if to, ok := d.Locate(json.RawMessage(searchspace.FormatFloat(value))); ok {
		return to
	}
	return coordinate
}

// Apply takes note of asks, results and a new search space. After an error it is as
// it was before.
func (p *PBT) Apply(event trial.Event) error {
	switch event.Kind {
	case trial.KindAsked:
		return p.asked(event)
	case trial.KindEnded:
		return p.ended(event)
	}
	space, err := spaceOf(event)
	if space != nil {
		p.space, p.members, p.best = space, make([]member, len(p.members)), nil
		p.step++
		clear(p.running)
	}
	return err
}

func (p *PBT) asked(event trial.Event) error {
	ask, ok, err := askOf(event)
	if err != nil || !ok {
		return err
	}
	var given struct {
		Save string `json:"save_checkpoint_dir"`
	}
	parameters, err := without(ask.Parameters, loadKey, saveKey)
	if err != nil || json.Unmarshal(ask.Parameters, &given) != nil {
		return err
	}
	step, _ := strconv.Atoi(path.Base(given.Save))
	i, err := strconv.Atoi(path.Base(path.Dir(given.Save)))
	if err != nil || step != p.step || i < 0 || i >= len(p.members) || p.members[i].asked {
		return nil // of a population that is no more
	}
	p.members[i].asked, p.members[i].training = true, model{parameters, given.Save}
	p.running[event.Sequence] = i
	return nil
}

func (p *PBT) ended(event trial.Event) error {
	end, err := read[trial.Ended](event)
	i, ok := p.running[event.Sequence]
	if err != nil || !ok {
		return err
	}
	delete(p.running, event.Sequence)
	m := &p.members[i]
	m.ended = true
	if end.State == trial.Succeeded && end.Value != nil {
		m.model, m.result = m.training, end.Value
	}
	if !slices.ContainsFunc(p.members, func(m member) bool { return !m.ended }) {
		p.advance()
	}
	return nil
}

// advance begins the next step.
func (p *PBT) advance() {
	order := make([]int, len(p.members)) // the best first, those without a result last
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.loss(a), p.loss(b)) })
	cutoff := int(math.Ceil(p.fraction * float64(len(order))))
	p.best = nil
	for rank, i := range order {
		m := &p.members[i]
		if m.result != nil && rank < max(cutoff, 1) {
			p.best = append(p.best, m.model)
		}
		m.replaced = m.result == nil || rank >= len(order)-cutoff
	}
	for i := range p.members {
		m := &p.members[i]
		m.asked, m.ended, m.result = false, false, nil
	}
	p.step++
}

func (p *PBT) loss(i int) float64 {
	if p.members[i].result == nil {
		return math.Inf(1)
	}
	return loss(*p.members[i].result, p.minimize)
}
