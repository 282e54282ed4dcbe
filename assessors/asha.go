package assessors

import (
	"fmt"
	"math"
	"slices"

	"github.com/perennial-ml/perennial/arguments"
	"github.com/perennial-ml/perennial/trial"
)

// ASHA stops trials by asynchronous successive halving (Li et al., "A System for
// Massively Parallel Hyperparameter Tuning", MLSys 2020, in the form that stops
// trials instead of pausing them). A rung is a step: min_budget *
// eta^(early_stopping_rate + k), below max_budget. A trial that comes to a rung goes
// on if its value there is among the best 1/eta of those that came there so far, its
// own among them, and in any case if none was better; equals share a place. One
// report is one step; steps are counted from 1 in the order of the log. A value that
// is no finite number is worse than all others. Trials never wait for each other.
type ASHA struct {
	minimize bool
	eta      int
	first    int // the step of the lowest rung
	most     int // no rung is at this step or later; 0: there are rungs for ever
	steps    map[int]int
	rungs    []rung
}

// rung is one step at which trials are judged.
type rung struct {
	step   int
	losses []float64 // of the trials that came here, the best first
}

// NewASHA builds ASHA. Its arguments are optimize_mode (maximize by default),
// min_budget (1) and max_budget (none by default: how many reports a whole trial
// makes, so that nothing is stopped at its very end), both in reports, eta (3), and
// early_stopping_rate (0).
func NewASHA(spec Spec) (Assessor, error) {
	a := &ASHA{eta: 3, first: 1, steps: map[int]int{}}
	rate := 0
	err := arguments.Read("assessor ASHA", spec.Arguments, map[string]arguments.Check{
		"optimize_mode": arguments.Mode(&a.minimize), "min_budget": arguments.Count(&a.first, 1),
		"max_budget": arguments.Count(&a.most, 1), "eta": arguments.Count(&a.eta, 2), "early_stopping_rate": arguments.Count(&rate, 0),
	})
	if err != nil {
		return nil, err
	}
	for range rate {
		a.first = a.after(a.first)
	}
	if a.most > 0 && a.first >= a.most {
		return nil, fmt.Errorf("assessor ASHA has its first rung at step %d, at or after max_budget, %d: want a smaller min_budget or early_stopping_rate", a.first, a.most)
	}
	a.rungs = []rung{{step: a.first}}
	return a, nil
}

// after is the step of the rung after a step.
func (a *ASHA) after(step int) int {
	if step > math.MaxInt32/a.eta {
		return math.MaxInt32 // no trial comes so far
	}
	return step * a.eta
}

// Apply judges trials that come to a rung.
func (a *ASHA) Apply(event trial.Event) (Verdict, error) {
	switch event.Kind {
	case trial.KindIntermediate:
		intermediate, err := read[trial.Intermediate](event)
		if err != nil {
			return Verdict{}, err
		}
		a.steps[event.Sequence]++
		return a.judge(a.steps[event.Sequence], a.loss(intermediate.Value)), nil
	case trial.KindEnded:
		_, err := read[trial.Ended](event)
		if err == nil {
			delete(a.steps, event.Sequence)
		}
		return Verdict{}, err
	}
	return Verdict{}, nil
}

// loss is a value such that less is better.
func (a *ASHA) loss(value *float64) float64 {
	switch {
	case value == nil || math.IsNaN(*value) || math.IsInf(*value, 0):
		return math.Inf(1)
	case a.minimize:
		return *value
	}
	return -*value
}

func (a *ASHA) judge(step int, loss float64) Verdict {
	i := slices.IndexFunc(a.rungs, func(r rung) bool { return r.step == step })
	if i < 0 || a.most > 0 && step >= a.most {
		return Verdict{}
	}
	if i == len(a.rungs)-1 {
		a.rungs = append(a.rungs, rung{step: a.after(step)})
	}
	better := a.rungs[i].add(loss)
	came := len(a.rungs[i].losses)
	best := max(came/a.eta, 1)
	if better < best {
		return Verdict{}
	}
	text := fmt.Sprintf("its value at step %d is number %d of the %d trials that came so far, and the best %d go on", step, better+1, came, best)
	return Verdict{Stop: true, Reason: trial.Reason{Code: "asha", Text: text}}
}

// add takes in a loss and returns how many were better.
func (r *rung) add(loss float64) int {
	i, _ := slices.BinarySearch(r.losses, loss)
	r.losses = slices.Insert(r.losses, i, loss)
	return i
}
