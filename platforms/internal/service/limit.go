package service

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/rundir"
)

// Limit is a number of calls that a service takes in any span of time, counted here.
// It is safe for concurrent use. What others have used up is told by Refused.
type Limit struct {
	Calls int
	Span  time.Duration
	Of    string           // "OpenPAI takes 60 submissions an hour"
	Now   func() time.Time // nil: time.Now
	// File is the absolute path of what a process that is started again counts on from;
	// empty: there is none, which is good for spans that are over by then.
	File string

	mutex sync.Mutex
	known bool // what is in File
	used
}

// used is what of a limit is used up.
type used struct {
	Taken  []time.Time `json:"taken"`  // the last calls, oldest first
	Closed time.Time   `json:"closed"` // nothing is taken before this
}

func (l *Limit) now() time.Time {
	if l.Now != nil {
		return l.Now()
	}
	return time.Now()
}

// recall reads what was used up before this process began. What it cannot read it does
// not count: the service still does. The mutex is held.
func (l *Limit) recall() {
	if l.known || l.File == "" {
		return
	}
	l.known = true
	content, err := os.ReadFile(l.File)
	var before used
	if err != nil || json.Unmarshal(content, &before) != nil {
		return
	}
	now := l.now() // which may be another clock's
	l.Taken = slices.DeleteFunc(before.Taken, now.Before)
	if before.Closed.Sub(now) <= longest {
		l.Closed = before.Closed
	}
}

func (l *Limit) keep() error {
	if l.File == "" {
		return nil
	}
	content, err := json.Marshal(l.used)
	if err == nil {
		err = rundir.MakeDirectory(filepath.Dir(l.File))
	}
	if err == nil {
		err = rundir.ReplaceFile(l.File, content, 0o600)
	}
	return err
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
	l.Taken = append(l.Taken, now)
	if err := l.keep(); err != nil {
		l.Taken = l.Taken[:len(l.Taken)-1]
		return platforms.Errorf(platforms.Transient, verb, "count the call before it is made: %w", err)
	}
	return nil
}

// Wait is how long there is no room from now on; 0: there is.
func (l *Limit) Wait() time.Duration {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.wait(l.now())
}

func (l *Limit) wait(now time.Time) time.Duration {
	l.recall()
	for len(l.Taken) > 0 && now.Sub(l.Taken[0]) >= l.Span {
		l.Taken = l.Taken[1:]
	}
	wait := l.Closed.Sub(now)
	if len(l.Taken) >= l.Calls {
		wait = max(wait, l.Taken[0].Add(l.Span).Sub(now))
	}
	return max(0, wait)
}

// Refused notes that the service refused a call although there was room here, and when
// it wants the next one.
func (l *Limit) Refused(after time.Duration) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.recall()
	if until := l.now().Add(after); until.After(l.Closed) {
		l.Closed = until
		_ = l.keep() // the service will say it again
	}
}
