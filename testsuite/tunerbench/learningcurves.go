package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/perennial-ml/perennial/assessors"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
)

// curveWorkers is how many trials train at a time.
const curveWorkers = 16

// mostMinutes is when a simulation gives up.
const mostMinutes = 1e6

// stopping is one way of not training every configuration to its end.
type stopping struct {
	name      string
	tuner     string
	arguments string
	assessor  string
	judging   string // the assessor's arguments
}

// stoppings are what is measured; the first is what the others are compared with.
func stoppings() []stopping {
	const asha = `{"min_budget": 1, "max_budget": 81, "eta": 3`
	return []stopping{
		{name: "Random, every trial to its end", tuner: "Random"},
		{name: "ASHA, trials go on from checkpoints", tuner: "ASHA", arguments: asha + `, "checkpoints": true}`},
		{name: "ASHA, trials begin anew", tuner: "ASHA", arguments: asha + `}`},
		{name: "Random with assessor ASHA", tuner: "Random", assessor: "ASHA", judging: asha + `}`},
		{name: "Random with assessor Medianstop", tuner: "Random", assessor: "Medianstop", judging: `{"start_step": 3}`},
		{name: "Random with assessor Curvefitting", tuner: "Random", assessor: "Curvefitting", judging: `{"epoch_num": 81, "gap": 9}`},
		{name: "Hyperband, trials begin anew", tuner: "Hyperband", arguments: `{"R": 81}`},
	}
}

// learningCurves writes the table of times to the target.
func learningCurves(b *Bench) (string, error) {
	var out strings.Builder
	fmt.Fprintf(&out, "| | minutes to the target, median of %d | of the time of the first row |\n|--|--|--|\n", b.Seeds)
	var first []float64
	for _, s := range stoppings() {
		minutes, err := minutesToTarget(s, b.FirstSeed, b.Seeds)
		if err != nil {
			return "", err
		}
		if first == nil {
			first = minutes
		}
		fmt.Fprintf(&out, "| %s | %.0f | %.2f |\n", s.name, median(minutes), timeRatio(minutes, first))
	}
	return out.String(), nil
}

// timeRatio is the geometric mean of the ratios, problem by problem.
func timeRatio(minutes, others []float64) float64 {
	ratios := make([]float64, len(minutes))
	for i := range ratios {
		ratios[i] = minutes[i] / others[i]
	}
	return geometricMean(ratios)
}

// minutesToTarget is how long each of some problems took, by the simulated clock.
func minutesToTarget(s stopping, firstSeed, seeds int) ([]float64, error) {
	var all []float64
	for seed := firstSeed; seed < firstSeed+seeds; seed++ {
		p, err := newProblem(uint64(seed))
		if err != nil {
			return nil, err
		}
		minutes, err := p.simulate(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		all = append(all, minutes)
	}
	return all, nil
}

// simulation is an experiment with a clock of its own.
type simulation struct {
	*problem
	search   *nativeSearch
	assessor assessors.Assessor // nil: none
	clock    float64            // minutes
	next     int
	training []*training    // one for each busy worker
	saved    map[string]int // epochs in each checkpoint
}

// training is a trial that runs.
type training struct {
	configuration
	n     int
	done  int     // epochs
	until int     // the epoch with which it ends
	at    float64 // when the present epoch ends
}

// simulate returns when a trial's loss, without noise, was first at the target.
func (p *problem) simulate(s stopping) (float64, error) {
	sim := &simulation{problem: p, saved: map[string]int{}}
	spec := tuners.Spec{Name: s.tuner, Arguments: minimised(json.RawMessage(s.arguments)), Space: json.RawMessage(curveSpace), Seed: p.seed, Checkpoints: "/c"}
	tuner, err := tuners.New(spec)
	if err != nil {
		return 0, err
	}
	sim.search = &nativeSearch{tuner: tuner}
	if s.assessor != "" {
		sim.assessor, err = assessors.New(assessors.Spec{Name: s.assessor, Arguments: minimised(json.RawMessage(s.judging))})
		if err != nil {
			return 0, err
		}
	}
	for sim.clock < mostMinutes {
		if err := sim.fill(); err != nil {
			return 0, err
		}
		reached, err := sim.step()
		if err != nil || reached {
			return sim.clock, err
		}
	}
	return 0, fmt.Errorf("problem %d: the target was not reached in %.0f minutes", p.seed, mostMinutes)
}

// fill gives every worker a trial.
func (s *simulation) fill() error {
	for len(s.training) < curveWorkers {
		proposal, err := s.search.tuner.Propose(s.next)
		if err != nil || proposal.Answer != tuners.Try {
			return err
		}
		if err := s.begin(proposal); err != nil {
			return err
		}
	}
	return nil
}

func (s *simulation) begin(proposal tuners.Proposal) error {
	c, err := readConfiguration(proposal.Parameters)
	if err != nil {
		return err
	}
	ask := trial.Asked{Parameters: proposal.Parameters, Source: trial.SourceAlgorithm, ParameterID: proposal.ParameterID}
	if err := s.search.apply(trial.KindAsked, s.next, ask); err != nil {
		return err
	}
	begun := &training{configuration: c, n: s.next, until: cmp.Or(c.Budget, wholeTraining), at: s.clock + c.minutes()}
	if c.Load != c.Save {
		begun.done = s.saved[c.Load]
	}
	s.training = append(s.training, begun)
	s.next++
	return nil
}

// step goes to the end of the epoch that ends next. It tells whether the target was
// reached with it.
func (s *simulation) step() (bool, error) {
	if len(s.training) == 0 {
		return false, fmt.Errorf("nothing is left to train after %.0f minutes", s.clock)
	}
	t := slices.MinFunc(s.training, func(a, b *training) int { return cmp.Or(cmp.Compare(a.at, b.at), a.n-b.n) })
	s.clock, t.done, t.at = t.at, t.done+1, t.at+t.minutes()
	if s.loss(t.configuration, t.done) <= s.target {
		return true, nil
	}
	value := s.reported(t.configuration, t.done)
	stop, err := s.report(t, value)
	switch {
	case err != nil:
		return false, err
	case t.done >= t.until:
		return false, s.end(t, trial.Ended{State: trial.Succeeded, Value: &value, Source: trial.SourceAlgorithm})
	case stop:
		return false, s.end(t, trial.Ended{State: trial.EarlyStopped, Source: trial.SourceAlgorithm})
	}
	return false, nil
}

func (s *simulation) report(t *training, value float64) (stop bool, err error) {
	report := trial.Intermediate{Step: int64(t.done - 1), Value: &value}
	if err := s.search.apply(trial.KindIntermediate, t.n, report); err != nil || s.assessor == nil {
		return false, err
	}
	verdict, err := s.judge(trial.KindIntermediate, t.n, report)
	return verdict.Stop, err
}

func (s *simulation) judge(kind trial.Kind, n int, data any) (assessors.Verdict, error) {
	raw, err := json.Marshal(data)
	if err != nil {
		return assessors.Verdict{}, err
	}
	return s.assessor.Apply(trial.Event{Number: s.search.log, Kind: kind, Sequence: n, Attempt: 1, Data: raw})
}

func (s *simulation) end(t *training, ended trial.Ended) error {
	s.saved[t.Save] = t.done
	s.training = slices.DeleteFunc(s.training, func(other *training) bool { return other == t })
	if err := s.search.apply(trial.KindEnded, t.n, ended); err != nil || s.assessor == nil {
		return err
	}
	_, err := s.judge(trial.KindEnded, t.n, ended)
	return err
}
