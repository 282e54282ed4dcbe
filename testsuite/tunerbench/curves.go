package main

import (
	"encoding/json"
	"math"
	"slices"

	"github.com/perennial-ml/perennial/searchspace"
)

// Sizes of the simulated training.
const (
	wholeTraining = 81   // epochs
	curveNoise    = 0.02 // standard deviation of a reported loss
	bestShare     = 0.01 // the target is the end loss of the best such share of all configurations
)

// curveSpace is what is tuned.
const curveSpace = `{
	"lr": {"_type": "loguniform", "_value": [0.0001, 1]},
	"decay": {"_type": "loguniform", "_value": [0.000001, 0.01]},
	"dropout": {"_type": "uniform", "_value": [0, 0.8]},
	"width": {"_type": "randint", "_value": [16, 513]},
	"optimizer": {"_type": "choice", "_value": ["sgd", "adam", "lion"]}
}`

// problem is one simulated model and data set: where its best configuration lies,
// and the loss that counts as reached.
type problem struct {
	seed   uint64
	lr     float64 // of the best configuration: shares of the ranges
	decay  float64
	drop   float64
	width  float64
	kind   int // the optimizer that suits it
	target float64
}

// configuration is one point of curveSpace, as a trial reads it.
type configuration struct {
	LR        float64 `json:"lr"`
	Decay     float64 `json:"decay"`
	Dropout   float64 `json:"dropout"`
	Width     float64 `json:"width"`
	Optimizer string  `json:"optimizer"`

	// Of some tuners.
	Budget int    `json:"TRIAL_BUDGET"`
	Load   string `json:"load_checkpoint_dir"`
	Save   string `json:"save_checkpoint_dir"`
}

func newProblem(seed uint64) (*problem, error) {
	stream := searchspace.NewStream(seed, -1)
	within := func(low, high float64) float64 { return low + (high-low)*stream.Open() }
	p := &problem{seed: seed, lr: within(.3, .8), decay: within(.2, .8), drop: within(.1, .6), width: within(.4, .9), kind: int(stream.Below(3))}
	space, err := searchspace.Parse(json.RawMessage(curveSpace))
	if err != nil {
		return nil, err
	}
	var ends []float64
	for i := range 5000 {
		c, err := readConfiguration(space.Parameters(space.Draw(searchspace.NewStream(seed+1_000_000, i))))
		if err != nil {
			return nil, err
		}
		ends = append(ends, p.loss(c, wholeTraining))
	}
	slices.Sort(ends)
	p.target = ends[int(bestShare*float64(len(ends)))]
	return p, nil
}

func readConfiguration(parameters json.RawMessage) (c configuration, err error) {
	return c, json.Unmarshal(parameters, &c)
}

// loss is a configuration's loss after some epochs, without noise: a power law down
// to an end, both the worse the farther the configuration is from the best one. How
// fast it goes is also the configuration's own luck, so curves cross.
func (p *problem) loss(c configuration, epochs int) float64 {
	lr := math.Log10(c.LR)/4 + 1
	decay := math.Log10(c.Decay)/4 + 1.5
	off := 2*square(lr-p.lr) + 0.5*square(decay-p.decay) + 0.5*square(c.Dropout/0.8-p.drop) + 0.3*square(c.Width/512-p.width)
	if c.Optimizer != []string{"sgd", "adam", "lion"}[p.kind] {
		off += 0.03
	}
	end := 0.05 + 1.5*(1-math.Exp(-2*off))
	rate := 0.4 + 0.6*math.Exp(-4*square(lr-p.lr)) + 0.4*p.luck(c)
	return end + (2.3-end)*math.Pow(1+float64(epochs), -rate)
}

// luck is a number from 0 to 1 that a configuration has once and for all.
func (p *problem) luck(c configuration) float64 {
	return searchspace.NewStream(p.seed^math.Float64bits(c.LR), 0).Open()
}

// reported is the loss with the noise of that epoch.
func (p *problem) reported(c configuration, epochs int) float64 {
	stream := searchspace.NewStream(p.seed^math.Float64bits(c.LR), epochs)
	return p.loss(c, epochs) + curveNoise*math.Sqrt2*math.Erfinv(2*stream.Open()-1)
}

// minutes is how long an epoch takes: wide networks take longer.
func (c configuration) minutes() float64 { return 0.5 + 1.5*c.Width/512 }
