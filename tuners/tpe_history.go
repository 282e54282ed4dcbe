package tuners

import (
	"cmp"
	"math"
	"slices"
)

// How many trials TPE looks at, and how many of these are the best.
const (
	historyTrials = 400
	historyBest   = 100
)

// history is the ended trials that TPE looks at: all up to historyTrials, then the
// best and the latest. A trial without a result has an infinite loss.
type history struct {
	trials []observed // in the order in which they ended
	scored int        // how many had a result, those forgotten included
}

func (h *history) add(o outcome, minimize bool) {
	added := observed{trial: o.trial, vector: o.vector, loss: math.Inf(1)}
	if o.value != nil {
		added.loss = loss(*o.value, minimize)
		h.scored++
	}
	h.trials = append(h.trials, added)
	if len(h.trials) > historyTrials {
		h.forget()
	}
}

// forget drops the oldest trial that is not one of the best.
func (h *history) forget() {
	losses := make([]float64, len(h.trials))
	for i := range h.trials {
		losses[i] = h.trials[i].loss
	}
	slices.Sort(losses)
	bar := losses[historyBest-1]
	oldest := slices.IndexFunc(h.trials, func(o observed) bool { return o.loss > bar })
	h.trials = slices.Delete(h.trials, max(oldest, 0), max(oldest, 0)+1)
}

// share is how many results there were for each that is remembered.
func (h *history) share() float64 {
	remembered := 0
	for i := range h.trials {
		if h.trials[i].hasResult() {
			remembered++
		}
	}
	return float64(h.scored) / float64(max(remembered, 1))
}

func (o *observed) hasResult() bool { return !math.IsInf(o.loss, 1) && !math.IsNaN(o.loss) }

// move takes the trials to another cube and forgets those that do not fit.
func (h *history) move(from, to *cube) {
	before := h.trials
	h.trials, h.scored = nil, 0
	for _, o := range before {
		vector, ok := to.moved(from, o.vector)
		if !ok {
			continue
		}
		o.vector = vector
		h.trials = append(h.trials, o)
		if o.hasResult() {
			h.scored++
		}
	}
}

// byLoss is the trials with a result, the best first.
func byLoss(trials []observed) []observed {
	sorted := slices.DeleteFunc(slices.Clone(trials), func(o observed) bool { return !o.hasResult() })
	slices.SortStableFunc(sorted, func(a, b observed) int { return cmp.Compare(a.loss, b.loss) })
	return sorted
}
