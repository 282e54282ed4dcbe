package main

import (
	"fmt"
	"math/rand/v2"
)

// Job is one search to be measured.
type Job struct {
	Function string
	Seed     uint64
	AtOnce   int // suggestions outstanding at a time
	Trials   int // evaluations
	// Noise is the deviation of the normal noise that is added to what contenders
	// see, as a share of the function's own deviation over its space.
	Noise float64 `json:",omitempty"`
}

// Curve is the least regret after each evaluation; with noise, which hides it, the
// regret of each evaluation itself.
type Curve []float64

// run lets a contender search. Where several suggestions are outstanding, they
// finish in an order that is random, and the same for every contender.
func (j Job) run(c Contender) (Curve, error) {
	f, err := functionNamed(j.Function)
	if err != nil {
		return nil, err
	}
	search, err := c.Begin(f.Space(), j.Seed)
	if err != nil {
		return nil, err
	}
	h := &hunt{job: j, function: f, search: search, order: rand.New(rand.NewPCG(j.Seed, uint64(j.AtOnce))), noise: j.noise()}
	for len(h.curve) < j.Trials {
		if err := h.step(); err != nil {
			return nil, fmt.Errorf("%s on %s with seed %d: %w", c.Name(), j.Function, j.Seed, err)
		}
	}
	return h.curve, nil
}

func functionNamed(name string) (*Function, error) {
	for _, f := range Functions() {
		if f.Name == name {
			return &f, nil
		}
	}
	return nil, fmt.Errorf("there is no function %q", name)
}

// hunt is a search under way.
type hunt struct {
	job         Job
	function    *Function
	search      Search
	order       *rand.Rand
	asked       int
	outstanding []result
	noise       []float64 // of each evaluation
	curve       Curve
}

// result is what an outstanding suggestion will be found to be worth.
type result struct {
	trial  int
	regret float64
}

// step asks for a trial where there is room, else ends one.
func (h *hunt) step() error {
	if len(h.outstanding) == h.job.AtOnce || h.asked == h.job.Trials {
		return h.finish()
	}
	parameters, err := h.search.Suggest(h.asked)
	if err != nil {
		return err
	}
	regret, err := h.function.Regret(parameters)
	h.outstanding = append(h.outstanding, result{h.asked, regret})
	h.asked++
	return err
}

func (h *hunt) finish() error {
	i := h.order.IntN(len(h.outstanding))
	r := h.outstanding[i]
	h.outstanding = append(h.outstanding[:i], h.outstanding[i+1:]...)
	n, kept := len(h.curve), r.regret
	if n > 0 && h.job.Noise == 0 {
		kept = min(kept, h.curve[n-1])
	}
	h.curve = append(h.curve, kept)
	return h.search.Observe(r.trial, r.regret+h.function.Minimum+h.noise[n])
}
