package service

import (
	"fmt"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/platforms"
)

// Limit is a number of calls that a service takes in any span of time, counted here.
// It is safe for concurrent use. What another process, or this one before it was
// started again, has used up is told by Refused.
type Limit struct {
	Calls  int
	Span   time.Duration
	Of     string           // "OpenPAI takes 60 submissions an hour"
	Now    func() time.Time // nil: time.Now
	mutex  sync.Mutex
	taken  []time.Time // the last Calls calls, oldest first
	closed time.Time   // nothing is taken before this
}

func (l *Limit) now() time.Time {
	if l.Now != nil {
		return l.Now()
	}
	return time.Now()
}

// Take counts a call that is about to be made. Where the service would refuse it, it
// returns an Exhausted error that says so and when there is room again; nothing is
// counted then.
func (l *Limit) Take(verb string) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	now := l.now()
	if wait := l.wait(now); wait > 0 {
		return &platforms.Error{Code: platforms.Exhausted, Verb: verb, After: wait,
			Err: fmt.Errorf("%s; the next one at %s", l.Of, now.Add(wait).Format(time.TimeOnly))}
	}
	l.taken = append(l.taken, now)
	return nil
}

// Wait is how long there is no room from now on; 0: there is.
func (l *Limit) Wait() time.Duration {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.wait(l.now())
}

func (l *Limit) wait(now time.Time) time.Duration {
	for len(l.taken) > 0 && now.Sub(l.taken[0]) >= l.Span {
		l.taken = l.taken[1:]
	}
	wait := l.closed.Sub(now)
	if len(l.taken) >= l.Calls {
		wait = max(wait, l.taken[0].Add(l.Span).Sub(now))
	}
	return max(0, wait)
}

// Refused notes that the service refused a call although there was room here, and when
// it wants the next one.
func (l *Limit) Refused(after time.Duration) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if until := l.now().Add(after); until.After(l.closed) {
		l.closed = until
	}
}
