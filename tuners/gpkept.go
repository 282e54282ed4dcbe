package tuners

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"slices"
)

// How many trials a Gaussian process looks at, and which of them are always there.
const (
	keptTrials = 120
	keptBest   = 60
	keptLatest = 30
)

// observed is a trial that ended; its loss is NaN where it gave no value.
type observed struct {
	trial  int
	vector []float64
	loss   float64
}

// observed is the outcome as models see it.
func (o outcome) observed(minimize bool) observed {
	seen := observed{trial: o.trial, vector: o.vector, loss: math.NaN()}
	if o.value != nil {
		seen.loss = loss(*o.value, minimize)
	}
	return seen
}

// kept is the trials that a model looks at: all up to keptTrials, then the best, the
// latest to end, and a random part of the others, the same after every rebuild.
type kept struct {
	latest []*observed // in the order in which they ended
	best   []*observed // the best first, those without a value last
	count  int         // how many trials ended, those forgotten included
}

func (k *kept) add(o observed) {
	k.count++
	k.insert(&o)
	if len(k.latest) > keptTrials {
		k.forget()
	}
}

func (k *kept) insert(o *observed) {
	k.latest = append(k.latest, o)
	place, _ := slices.BinarySearchFunc(k.best, o, func(a, b *observed) int {
		if rank(a) <= rank(b) {
			return -1
		}
		return 1
	})
	k.best = slices.Insert(k.best, place, o)
}

// rank sorts what has no value behind everything else.
func rank(o *observed) float64 {
	if math.IsNaN(o.loss) {
		return math.Inf(1)
	}
	return o.loss
}

// scored is how many trials have a value.
func (k *kept) scored() int {
	i := slices.IndexFunc(k.best, func(o *observed) bool { return math.IsNaN(o.loss) })
	if i < 0 {
		return len(k.best)
	}
	return i
}

// forget drops the trial of least priority that is neither of the best nor of the latest.
func (k *kept) forget() {
	var out *observed
	for _, o := range k.best[keptBest:] {
		recent := slices.Contains(k.latest[len(k.latest)-keptLatest:], o)
		if !recent && (out == nil || o.priority() < out.priority()) {
			out = o
		}
	}
	is := func(o *observed) bool { return o == out }
	k.latest = slices.DeleteFunc(k.latest, is)
	k.best = slices.DeleteFunc(k.best, is)
}

// priority is as good as random, and unrelated to how a trial went.
func (o *observed) priority() uint64 {
	hash := fnv.New64a()
	hash.Write(binary.BigEndian.AppendUint64(nil, uint64(o.trial)))
	return hash.Sum64() * 0x9e3779b97f4a7c15
}

// refitDue tells whether length scales shall be looked for again.
func (k *kept) refitDue() bool {
	return k.count <= 60 || k.count%10 == 0
}

// move takes the trials to another cube and forgets those that do not fit.
func (k *kept) move(from, to *cube) {
	before := k.latest
	k.latest, k.best = nil, nil
	for _, o := range before {
		if vector, ok := to.moved(from, o.vector); ok {
			k.insert(&observed{o.trial, vector, o.loss})
		}
	}
}

// thinned returns at most count trials: the best half of them, and an even choice of
// the others.
func thinned(trials []*observed, count int) []*observed {
	if len(trials) <= count {
		return trials
	}
	chosen := slices.Clone(trials[:count/2])
	others := trials[count/2:]
	for i := range count - count/2 {
		chosen = append(chosen, others[i*len(others)/(count-count/2)])
	}
	return chosen
}

// trainingData is the vectors of trials, the best first, and their warped losses; a
// trial without a value counts as the worst.
func trainingData(trials []*observed) ([][]float64, []float64) {
	var vectors [][]float64
	var losses []float64
	for _, o := range trials {
		vectors = append(vectors, o.vector)
		if !math.IsNaN(o.loss) {
			losses = append(losses, o.loss)
		}
	}
	if len(losses) == 0 {
		return vectors, make([]float64, len(vectors))
	}
	values := warped(losses)
	worst := values[len(values)-1]
	for len(values) < len(vectors) {
		values = append(values, worst)
	}
	return vectors, values
}
