package record

import "sync"

// wake says who must hear of a commit.
type wake int

const (
	wakeLog  wake = 1 << iota // any event
	wakeNews                  // an event that concerns the experiment, asks apart
	wakeRows                  // its row, or one of a trial
)

// AnyExperiment is what whoever watches all of them names.
const AnyExperiment = ""

// watchers are the channels to be woken, by experiment.
type watchers struct {
	mu           sync.Mutex
	byExperiment map[string]map[chan struct{}]wake
}

// Watch returns a channel that holds a value whenever, since it was last read,
// an event of the experiment that News returns, asks apart, was committed: by this
// process, or by whoever writes to the same PostgreSQL. There it may hold one without a cause, too.
// stop ends the watch.
func (s *Store) Watch(experiment string) (changed <-chan struct{}, stop func()) {
	return s.watchers.add(experiment, wakeNews)
}

// WatchLog is Watch for every event, intermediates too.
func (s *Store) WatchLog(experiment string) (changed <-chan struct{}, stop func()) {
	return s.watchers.add(experiment, wakeLog)
}

// WatchAll is Watch for whatever changes of an experiment and its trials; of all of them
// where it is AnyExperiment.
func (s *Store) WatchAll(experiment string) (changed <-chan struct{}, stop func()) {
	return s.watchers.add(experiment, wakeLog|wakeNews|wakeRows)
}

func (w *watchers) add(experiment string, kind wake) (<-chan struct{}, func()) {
	changed := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byExperiment == nil {
		w.byExperiment = map[string]map[chan struct{}]wake{}
	}
	if w.byExperiment[experiment] == nil {
		w.byExperiment[experiment] = map[chan struct{}]wake{}
	}
	w.byExperiment[experiment][changed] = kind
	return changed, func() { w.remove(experiment, changed) }
}

func (w *watchers) remove(experiment string, changed chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byExperiment[experiment], changed)
	if len(w.byExperiment[experiment]) == 0 {
		delete(w.byExperiment, experiment)
	}
}

func (w *watchers) any() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.byExperiment) > 0
}

// wakeAll wakes all there are, whatever they watch.
func (w *watchers) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for experiment := range w.byExperiment {
		w.wakeWatchers(experiment, wakeLog|wakeNews|wakeRows)
	}
}

func (w *watchers) wake(experiments map[string]wake) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for experiment, kinds := range experiments {
		w.wakeWatchers(experiment, kinds)
		w.wakeWatchers(AnyExperiment, kinds)
	}
}

func (w *watchers) wakeWatchers(experiment string, kinds wake) {
	for changed, wanted := range w.byExperiment[experiment] {
		if wanted&kinds != 0 {
			notify(changed)
		}
	}
}

func notify(changed chan struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}
