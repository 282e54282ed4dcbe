package verbs

import (
	"sync"
	"time"

	"github.com/perennial-ml/perennial/trial"
)

// heard is what an service said last of runs that waited or ran: as long as it
// need not be asked again that is how they are.
type heard struct {
	mutex sync.Mutex
	since time.Time
	runs  map[trial.Key]*Report // nil of one that may be over
}

// submitted notes a run that the service accepted, and that has hardly begun.
func (h *heard) submitted(key trial.Key) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.runs != nil {
		h.runs[key] = &Report{Phase: Waiting, Reason: Reason(starting)}
	}
}

// recall returns what was said last of runs, while that is good for all of them.
// There are no records in it: those that came have been taken.
func (h *heard) recall(looks []*look, interval time.Duration) ([]Report, bool) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if time.Since(h.since) >= interval {
		return nil, false
	}
	var all []Report
	for _, l := range looks {
		told := h.runs[l.Key]
		if told == nil {
			return nil, false
		}
		again := *told
		again.Records, again.Next, again.More = nil, string(l.After), false
		all = append(all, again)
	}
	return all, true
}

// keep remembers what was said of runs, but not of one that may be over: its last
// words are to be had until they are on record.
func (h *heard) keep(asked []*look, told []Report) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.since, h.runs = time.Now(), map[trial.Key]*Report{}
	for i, said := range told {
		h.runs[asked[i].Key] = nil
		if said.Phase == Waiting || said.Phase == Running {
			h.runs[asked[i].Key] = &said
		}
	}
}
