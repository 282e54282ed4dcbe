package assessors

import (
	"fmt"
	"math"

	"github.com/perennial-ml/perennial/arguments"
	"github.com/perennial-ml/perennial/trial"
)

// Medianstop stops a trial whose best value so far is strictly worse than the
// median, over the trials that succeeded, of the averages of what each had
// reported up to the same step (Golovin et al., "Google Vizier", 2017; NNI's
// choice among two middle values is the lower when maximising, the upper when
// minimising). Steps are counted from 1 in the order of the log. A value that is
// no finite number takes up its step and counts for nothing else.
type Medianstop struct {
	minimize  bool
	startStep int
	running   map[int]*history // by the trial's sequence number
	averages  []*median        // by step, of the trials that succeeded
}

// history is what one running trial reported.
type history struct {
	best     float64
	sum      float64
	count    int       // finite values
	averages []float64 // by step; NaN before the first finite value
}

// NewMedianstop builds Medianstop. Its arguments are optimize_mode (maximize by
// default) and start_step, the first step at which trials are judged.
func NewMedianstop(spec Spec) (Assessor, error) {
	m := &Medianstop{running: map[int]*history{}}
	return m, arguments.Read("assessor Medianstop", spec.Arguments, map[string]arguments.Check{
		"optimize_mode": arguments.Mode(&m.minimize), "start_step": arguments.Count(&m.startStep, 0),
	})
}

// Apply judges a trial after each of its intermediates, and learns from trials
// that end SUCCEEDED. After an error it is as it was before.
func (m *Medianstop) Apply(event trial.Event) (Verdict, error) {
	switch event.Kind {
	case trial.KindIntermediate:
		intermediate, err := read[trial.Intermediate](event)
		if err != nil {
			return Verdict{}, err
		}
		return m.judge(event.Sequence, intermediate.Value), nil
	case trial.KindEnded:
		ended, err := read[trial.Ended](event)
		if err != nil {
			return Verdict{}, err
		}
		m.end(event.Sequence, ended.State)
	}
	return Verdict{}, nil
}

func (m *Medianstop) judge(sequence int, value *float64) Verdict {
	h := m.running[sequence]
	if h == nil {
		h = &history{best: m.worst()}
		m.running[sequence] = h
	}
	h.add(value, m.better)
	step := len(h.averages)
	if value == nil || step < m.startStep || step > len(m.averages) {
		return Verdict{}
	}
	finished := m.averages[step-1]
	if finished.size() == 0 || !m.better(finished.value(), h.best) {
		return Verdict{}
	}
	return m.stop(h.best, step, finished)
}

func (m *Medianstop) stop(best float64, step int, finished *median) Verdict {
	side, trials := "below", "trials"
	if m.minimize {
		side = "above"
	}
	if finished.size() == 1 {
		trials = "trial"
	}
	text := fmt.Sprintf("best %.6g after step %d is %s the median %.6g of %d finished %s",
		best, step, side, finished.value(), finished.size(), trials)
	return Verdict{Stop: true, Reason: trial.Reason{Code: "medianstop", Text: text}}
}

func (m *Medianstop) end(sequence int, state trial.State) {
	h := m.running[sequence]
	delete(m.running, sequence)
	if h == nil || state != trial.Succeeded {
		return
	}
	for step, average := range h.averages {
		if step == len(m.averages) {
			m.averages = append(m.averages, &median{upperMiddle: m.minimize})
		}
		if !math.IsNaN(average) {
			m.averages[step].add(average)
		}
	}
}

func (m *Medianstop) better(a, b float64) bool {
	if m.minimize {
		return a < b
	}
	return a > b
}

func (m *Medianstop) worst() float64 {
	if m.minimize {
		return math.Inf(1)
	}
	return math.Inf(-1)
}

func (h *history) add(value *float64, better func(a, b float64) bool) {
	if value != nil && !math.IsNaN(*value) && !math.IsInf(*value, 0) {
		h.sum += *value
		h.count++
		if better(*value, h.best) {
			h.best = *value
		}
	}
	// With no value yet this is NaN, as promised.
	h.averages = append(h.averages, h.sum/float64(h.count))
}
