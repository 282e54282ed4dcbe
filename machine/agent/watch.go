package agent

import (
	"context"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/machine"
	"github.com/perennial-ml/perennial/trial"
)

// lookInterval is how often the claims of runs are looked at that an earlier agent
// started; those of its own an agent hears of.
const lookInterval = 100 * time.Millisecond

// watch tells of runs that may have just ended, each once.
type watch struct {
	machine *machine.Machine
	tell    func(trial.Key)
	mutex   sync.Mutex
	open    map[trial.Key]machine.Ref
	told    map[trial.Key]bool
}

func newWatch(runs *machine.Machine, tell func(trial.Key)) *watch {
	return &watch{machine: runs, tell: tell, open: map[trial.Key]machine.Ref{}, told: map[trial.Key]bool{}}
}

// saw notes what the client was told about a run: it need not be told of an end
// that it knows.
func (w *watch) saw(ref machine.Ref, phase machine.Phase) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	switch {
	case phase.Definite():
		delete(w.open, ref.Key)
		w.told[ref.Key] = true
	case !w.told[ref.Key]:
		w.open[ref.Key] = ref
	}
}

// ended is called when a run has ended.
func (w *watch) ended(key trial.Key) {
	w.mutex.Lock()
	news := !w.told[key]
	w.told[key] = true
	delete(w.open, key)
	w.mutex.Unlock()
	if news {
		w.tell(key)
	}
}

func (w *watch) run(ctx context.Context) {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.look()
		}
	}
}

func (w *watch) look() {
	w.mutex.Lock()
	var open []machine.Ref
	for _, ref := range w.open {
		open = append(open, ref)
	}
	w.mutex.Unlock()
	for _, ref := range open {
		if live, err := w.machine.Live(ref); err == nil && !live {
			w.ended(ref.Key)
		}
	}
}
