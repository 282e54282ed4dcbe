package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// noiseShares are the deviations of the noise, as shares of the function's own.
var noiseShares = []float64{0.2, 0.5}

// latest is how many evaluations show where a search has come to.
const latest = 20

// noisy measures regret where contenders see values with noise. What they would
// recommend is judged by its value without: the trial that looks best of all, and
// that which looks best of the latest.
func noisy(b *Bench) (string, error) {
	few := &Bench{Options: b.Options, measured: newMeasured(b.Folder)}
	few.Functions, few.AtOnce = b.Noisy, []int{1}
	few.Beside = slices.DeleteFunc(slices.Clone(b.Beside), func(name string) bool { return name == "NNI" })
	defer few.close()
	if err := few.assemble(); err != nil {
		return "", err
	}
	var out strings.Builder
	for _, few.noise = range noiseShares {
		if err := few.measureAll(); err != nil {
			return "", err
		}
		few.writeNoisy(&out)
	}
	return out.String(), nil
}

func (b *Bench) writeNoisy(out *strings.Builder) {
	for _, b.last = range []int{0, latest} {
		fmt.Fprintf(out, "\n### Noise of %v of the function's deviation, the trial that looks best of %s\n", b.noise, b.judged())
		b.writeMedians(out, 1)
		for _, tuner := range b.Tuners {
			b.writeComparisons(out, tuner)
		}
	}
}

func (b *Bench) judged() string {
	if b.last == 0 {
		return "all"
	}
	return fmt.Sprintf("the latest %d", b.last)
}

// regret is that of the job so far; with noise, of the evaluation that looks best
// among the last ones (0: among all).
func (j Job) regret(soFar Curve, last int) float64 {
	n := len(soFar)
	if j.Noise == 0 {
		return soFar[n-1]
	}
	if last == 0 {
		last = n
	}
	first := max(n-last, 0)
	return looksBest(soFar[first:], j.noise()[first:])
}

func looksBest(regrets, noise []float64) float64 {
	best := 0
	for i := range regrets {
		if regrets[i]+noise[i] < regrets[best]+noise[best] {
			best = i
		}
	}
	return regrets[best]
}

// noise is what is added to each evaluation, the same for every contender.
func (j Job) noise() []float64 {
	noise := make([]float64, j.Trials)
	f, err := functionNamed(j.Function)
	if err != nil || j.Noise == 0 {
		return noise // running the job refuses a function that is not there
	}
	random, size := rand.New(rand.NewPCG(j.Seed, 1<<32)), j.Noise*f.deviation()
	for i := range noise {
		noise[i] = size * random.NormFloat64()
	}
	return noise
}

// deviation is the standard deviation of a function's values over its space.
func (f *Function) deviation() float64 {
	const points = 10_000
	random := rand.New(rand.NewPCG(1, 1))
	sum, squares := 0.0, 0.0
	x := make([]float64, len(f.Low))
	for range points {
		for i := range x {
			x[i] = f.Low[i] + random.Float64()*(f.High[i]-f.Low[i])
		}
		value := f.Value(x)
		sum, squares = sum+value/points, squares+square(value)/points
	}
	return math.Sqrt(squares - square(sum))
}
