package platforms

import (
	"sync"

	"github.com/perennial-ml/perennial/trial"
)

// endsKept is how many ends wait to be heard of; whoever does not listen gets no
// more, and finds them by Poll.
const endsKept = 1024

// Ends takes word of runs that have ended to the sections that have them. The zero
// Ends is ready to be used.
type Ends struct {
	mu     sync.Mutex
	hearer map[chan trial.Key]string // the experiment of each section
}

// Listen returns what WithEnds.Ends returns, for a section of an experiment, and
// what ends that.
func (e *Ends) Listen(experiment string) (ends <-chan trial.Key, stop func()) {
	made := make(chan trial.Key, endsKept)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.hearer == nil {
		e.hearer = map[chan trial.Key]string{}
	}
	e.hearer[made] = experiment
	return made, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.hearer, made)
	}
}

// Tell tells of a run. It never blocks.
func (e *Ends) Tell(key trial.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for hearer, experiment := range e.hearer {
		if experiment != key.Experiment {
			continue
		}
		select {
		case hearer <- key:
		default:
		}
	}
}
