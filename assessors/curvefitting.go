package assessors

import (
	"errors"
	"fmt"
	"math"

	"github.com/perennial-ml/perennial/arguments"
	"github.com/perennial-ml/perennial/trial"
)

// Curvefitting stops a trial that is not expected to come near the best result so
// far: from start_step on and then every gap steps, learning curves are fitted to
// what it reported (see forecast), and it is stopped if their forecast for step
// epoch_num is worse than the best by more than 1 - threshold of it. The best is
// that of the trials that succeeded, by their last reports; until there is one,
// nothing is stopped. Where the curves do not fit or do not agree, the trial goes on;
// so it does while its present value is good enough already. When minimising, the
// curve is turned over between its least and greatest value so far.
//
// One report is one step; steps are counted from 1 in the order of the log. A value
// that is no finite number takes up its step and counts for nothing else. NNI's
// only maximises.
type Curvefitting struct {
	minimize  bool
	epochs    int
	startStep int
	gap       int
	threshold float64
	running   map[int]*reports
	best      *float64 // of the trials that succeeded
}

// reports is what one running trial reported.
type reports struct {
	count  int       // steps, whether or not they had a value
	judged int       // the step at which it was judged last; 0: never
	steps  []float64 // those with a value, as far as epoch_num
	values []float64
	last   *float64
}

// NewCurvefitting builds Curvefitting. Its arguments are epoch_num, how many reports
// a whole trial makes, which must be given; optimize_mode (maximize by default),
// start_step (6), threshold (0.95) and gap (1).
func NewCurvefitting(spec Spec) (Assessor, error) {
	c := &Curvefitting{startStep: 6, gap: 1, threshold: 0.95, running: map[int]*reports{}}
	err := arguments.Read("assessor Curvefitting", spec.Arguments, map[string]arguments.Check{
		"optimize_mode": arguments.Mode(&c.minimize), "epoch_num": arguments.Count(&c.epochs, 1),
		"start_step": arguments.Count(&c.startStep, 0), "gap": arguments.Count(&c.gap, 1), "threshold": arguments.Positive(&c.threshold),
	})
	if err == nil && c.epochs == 0 {
		err = errors.New("assessor Curvefitting has no argument epoch_num: want how many reports a whole trial makes")
	}
	return c, err
}

// Apply judges a trial after each of its intermediates, and learns from trials that
// end SUCCEEDED. After an error it is as it was before.
func (c *Curvefitting) Apply(event trial.Event) (Verdict, error) {
	switch event.Kind {
	case trial.KindIntermediate:
		intermediate, err := read[trial.Intermediate](event)
		if err != nil {
			return Verdict{}, err
		}
		return c.judge(c.report(event.Sequence, intermediate.Value)), nil
	case trial.KindEnded:
		ended, err := read[trial.Ended](event)
		if err == nil {
			c.end(event.Sequence, ended.State)
		}
		return Verdict{}, err
	}
	return Verdict{}, nil
}

func (c *Curvefitting) report(sequence int, value *float64) *reports {
	r := c.running[sequence]
	if r == nil {
		r = &reports{}
		c.running[sequence] = r
	}
	r.count++
	if value == nil || math.IsNaN(*value) || math.IsInf(*value, 0) {
		return r
	}
	r.last = value
	if r.count <= c.epochs {
		r.steps, r.values = append(r.steps, float64(r.count)), append(r.values, *value)
	}
	return r
}

func (c *Curvefitting) judge(r *reports) Verdict {
	early := r.count < c.startStep || r.judged > 0 && r.count-r.judged < c.gap
	if c.best == nil || early || r.count >= c.epochs {
		return Verdict{}
	}
	r.judged = r.count
	if r.last == nil || !c.tooBad(*r.last) {
		return Verdict{}
	}
	predicted, ok := c.forecast(r)
	if !ok || !c.tooBad(predicted) {
		return Verdict{}
	}
	side := "below"
	if c.minimize {
		side = "above"
	}
	text := fmt.Sprintf("%.6g, its forecast for step %d, is %s %.6g, which allows for threshold %v of the best result %.6g",
		predicted, c.epochs, side, c.bar(), c.threshold, *c.best)
	return Verdict{Stop: true, Reason: trial.Reason{Code: "curvefitting", Text: text}}
}

// bar is the worst result for which a trial goes on.
func (c *Curvefitting) bar() float64 {
	allowance := (1 - c.threshold) * math.Abs(*c.best)
	if c.minimize {
		return *c.best + allowance
	}
	return *c.best - allowance
}

func (c *Curvefitting) tooBad(value float64) bool {
	if c.minimize {
		return value >= c.bar()
	}
	return value <= c.bar()
}

func (c *Curvefitting) forecast(r *reports) (float64, bool) {
	if !c.minimize {
		return forecast(r.steps, r.values, float64(c.epochs))
	}
	least, most := r.values[0], r.values[0]
	for _, value := range r.values {
		least, most = min(least, value), max(most, value)
	}
	turned := make([]float64, len(r.values))
	for i, value := range r.values {
		turned[i] = least + most - value
	}
	value, ok := forecast(r.steps, turned, float64(c.epochs))
	return least + most - value, ok
}

func (c *Curvefitting) end(sequence int, state trial.State) {
	r := c.running[sequence]
	delete(c.running, sequence)
	if r == nil || r.last == nil || state != trial.Succeeded {
		return
	}
	if c.best == nil || c.minimize == (*r.last < *c.best) {
		c.best = r.last
	}
}
