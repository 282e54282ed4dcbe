package activities

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
	"github.com/perennial-ml/perennial/tuners/bridge"
)

const (
	// batch is how many events an algorithm is fed between looks at the context.
	batch = 1000
	// thinking is how long a round waits for a tuner before it looks after
	// everything else again. The tuner goes on meanwhile.
	thinking = 2 * time.Second
)

// idle is how long an algorithm is kept that no activity uses.
var idle = time.Minute

// role is what an algorithm is to its experiment.
type role string

const (
	roleTuner    role = "tuner"
	roleAssessor role = "assessor"
)

// place names an algorithm of an experiment.
type place struct {
	experiment string
	role       role
}

// algorithm is an experiment's tuner, or its assessor and
// how far in the log it has read. It is only ever fed from the log, live or after a
// restart alike, and built anew after a failure.
type algorithm struct {
	turn     chan struct{} // holds a value while somebody works with the tuner
	tuner    tuners.Tuner  // nil until it is built
	applied  int64
	built    time.Time // zero: it is no process
	answered bool      // it has proposed since

	failed   *setback     // the last attempt, nil where it succeeded
	failures int          // in a row
	anew     atomic.Bool  // whatever has failed is to be tried at once
	heard    atomic.Int64 // the last command for which that was so

	bell   bell // rings when there may be something new of it
	logger *slog.Logger
	// deserted says that somebody who gave up waiting wants to hear of the end.
	deserted atomic.Bool

	mu     sync.Mutex
	closer io.Closer // of a tuner that is a process
	users  int
	timer  *time.Timer
	over   bool
}

// use returns the algorithm of a place, and what to call when it is no longer
// needed. One that nobody uses for a while is ended, and rebuilt at its next use.
func (a *Activities) use(at place) (*algorithm, func()) {
	for {
		value, _ := a.algorithms.LoadOrStore(at, &algorithm{turn: make(chan struct{}, 1), logger: a.Logger.With("experiment", at.experiment, "role", at.role)})
		if used := value.(*algorithm); used.enter() {
			return used, func() { used.leave(func() { a.end(at, used) }) }
		}
		a.algorithms.CompareAndDelete(at, value)
	}
}

func (l *algorithm) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	l.users++
	if l.timer != nil {
		l.timer.Stop()
	}
	return true
}

func (l *algorithm) leave(end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users--
	if l.users == 0 && !l.over {
		l.timer = time.AfterFunc(idle, func() {
			l.mu.Lock()
			unused := l.users == 0
			l.mu.Unlock()
			if unused {
				end()
			}
		})
	}
}

// end ends an algorithm for good, in whatever it is doing.
func (a *Activities) end(at place, l *algorithm) {
	a.algorithms.CompareAndDelete(at, l)
	l.mu.Lock()
	closer := l.closer
	l.closer, l.over = nil, true
	l.mu.Unlock()
	if closer != nil {
		_ = closer.Close() // a process that is ended is past errors
	}
	l.bell.ring()
}

// EndAlgorithms ends the processes of an experiment's algorithms, or of all
// experiments' where id is empty.
func EndAlgorithms(a *Activities, id string) {
	a.algorithms.Range(func(key, value any) bool {
		if at := key.(place); id == "" || at.experiment == id {
			a.end(at, value.(*algorithm))
		}
		return true
	})
}

// errThinking says that an algorithm is still at work.
var errThinking = errors.New("the algorithm is still at work")

// do has work done with the algorithm, one at a time. Where that takes longer than
// the caller waits, it goes on without the caller, and the bell rings at its end.
func (l *algorithm) do(ctx context.Context, within <-chan time.Time, work func() error) error {
	select {
	case l.turn <- struct{}{}:
	case <-within:
		l.deserted.Store(true)
		return errThinking
	case <-ctx.Done():
		return ctx.Err()
	}
	done := make(chan error, 1)
	go func() {
		err := l.try(work)
		done <- err
		<-l.turn
		if l.deserted.Swap(false) {
			l.bell.ring()
		}
	}()
	select {
	case err := <-done:
		return err
	case <-within:
		l.deserted.Store(true)
		return errThinking
	case <-ctx.Done():
		return ctx.Err()
	}
}

// try does the work, unless the last failure was too short a time ago. After a
// failure the algorithm is in doubt: the next attempt builds it from the log.
func (l *algorithm) try(work func() error) error {
	if l.anew.Swap(false) {
		l.failed, l.failures = nil, 0
	}
	if l.failed != nil && time.Now().Before(l.failed.until) {
		return l.failed
	}
	err := survived(l.logger, work)
	if err == nil || errors.Is(err, record.ErrStopping) {
		if l.proved() {
			l.failed, l.failures = nil, 0
		}
		return err
	}
	l.drop()
	l.failed = l.failed.after(err, l.failures)
	l.failures++
	l.logger.Warn("an algorithm fails and will be rebuilt", "error", err, "failures", l.failures, "again", l.failed.until)
	return l.failed
}

// survived does work of an algorithm's and makes an error of its panic. Where it is
// done, in a goroutine of its own, a panic would end the host, and all experiments'
// work with it.
func survived(logger *slog.Logger, work func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			logger.Error("an algorithm panicked", "cause", cause, "stack", string(debug.Stack()))
			err = fmt.Errorf("the algorithm panicked: %v", cause)
		}
	}()
	return work()
}

func (l *algorithm) drop() {
	l.mu.Lock()
	closer := l.closer
	l.closer = nil
	l.mu.Unlock()
	l.tuner, l.applied = nil, 0
	if closer != nil {
		_ = closer.Close()
	}
}

// adopt takes a tuner that has just been built.
func (l *algorithm) adopt(tuner tuners.Tuner) error {
	l.tuner, l.applied = tuner, 0
	l.built, l.answered = time.Time{}, false
	process, ok := tuner.(bridge.Process)
	if !ok {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return errors.Join(errors.New("its experiment has ended"), process.Close())
	}
	l.built = time.Now()
	closed := make(chan struct{})
	l.closer = closing{process, closed}
	go l.bell.forward(process.Changed(), closed)
	return nil
}

// closing is a process whose end is told to who listens to it.
type closing struct {
	bridge.Process
	closed chan struct{}
}

// Close implements io.Closer.
func (c closing) Close() error {
	close(c.closed)
	return c.Process.Close()
}

// bell wakes everybody who waits for it. The zero bell is ready for use.
type bell struct {
	mu   sync.Mutex
	rung chan struct{}
}

// next is closed when the bell rings next.
func (b *bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung == nil {
		b.rung = make(chan struct{})
	}
	return b.rung
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung != nil {
		close(b.rung)
		b.rung = nil
	}
}

func (b *bell) forward(changed <-chan struct{}, closed <-chan struct{}) {
	for {
		select {
		case <-changed:
			b.ring()
		case <-closed:
			return
		}
	}
}

// propose has the tuner fill up to room slots and commits its asks. It reports
// whether the tuner is exhausted.
func (r *round) propose(ctx context.Context, row record.Experiment, room int) (exhausted bool, err error) {
	exhausted, err = r.ask(ctx, row, room)
	var failed *setback
	switch {
	case errors.Is(err, record.ErrStopping), errors.Is(err, record.ErrTimeOver):
		// A stop or the end of its time overtook the asks; the next look sees it.
		return false, nil
	case errors.Is(err, errThinking):
		text := fmt.Sprintf("the tuner has been at work on its next proposal since %s", r.since().Format(time.TimeOnly))
		return false, r.explain(ctx, trial.Reason{Code: reasonTuner, Text: text})
	case errors.As(err, &failed):
		r.failed = failed
		return false, r.explain(ctx, failed.reason(place{row.ID, roleTuner}))
	case err != nil && ctx.Err() == nil:
		return false, errors.Join(err, r.explain(ctx, trial.Reason{Code: reasonTuner, Text: err.Error()}))
	case row.Reason.Code == reasonTuner, row.Reason.Code == ReasonTunerFailed:
		err = r.explain(ctx, trial.Reason{})
	}
	r.began = time.Time{}
	return exhausted, err
}

// since is when the tuner was first found at work.
func (r *round) since() time.Time {
	if r.began.IsZero() {
		r.began = time.Now().Add(-thinking)
	}
	return r.began
}

// ask has the tuner propose and puts that on record, one trial after the other. What
// a slow one has proposed is handed out before it is asked for the rest.
func (r *round) ask(ctx context.Context, row record.Experiment, room int) (exhausted bool, err error) {
	began := time.Now()
	for asked := 0; asked < room; asked++ {
		answer, err := r.answer(ctx, row, row.Next(asked))
		switch {
		case err != nil:
			return false, err
		case answer.Answer == tuners.Wait:
			return false, nil
		case answer.Answer == tuners.Exhausted:
			return true, r.Record.SetExhausted(ctx, row.ID, answer.applied)
		case r.late(): // it took its time
			return false, r.count(ctx)
		}
		if err := r.commit(ctx, row.ID, row.Next(asked), answer.Proposal); err != nil {
			return false, err
		}
		if answer.process && time.Since(began) > thinking {
			return false, nil
		}
	}
	return false, nil
}

// answer is a proposal and who made it.
type answer struct {
	tuners.Proposal
	applied int64 // how much of the log the tuner knew
	process bool  // the tuner is one
}

// answer asks the tuner for a trial.
func (r *round) answer(ctx context.Context, row record.Experiment, n int) (answer, error) {
	within := time.NewTimer(thinking)
	defer within.Stop()
	var made answer
	lasting := context.WithoutCancel(ctx)
	err := r.tuner.do(ctx, within.C, func() (err error) {
		if err = r.feed(lasting, r.tuner, row.ID, r.build(row)); err != nil {
			return err
		}
		_, made.process = r.tuner.tuner.(bridge.Process)
		made.applied = r.tuner.applied
		made.Proposal, err = r.tuner.tuner.Propose(n)
		r.tuner.answered = err == nil
		return err
	})
	if err != nil {
		return answer{}, err // what comes later is not for this caller
	}
	return made, nil
}

// commit puts a proposal on record. Where somebody else asked under that number
// first, theirs is the trial, and the log will tell the tuner so.
func (r *round) commit(ctx context.Context, id string, sequence int, proposal tuners.Proposal) error {
	parameterID := proposal.ParameterID
	if parameterID == nil {
		parameterID = fmt.Append(nil, sequence)
	}
	r.asked = true // whatever comes of it
	_, err := r.Record.Ask(ctx, id, []record.Ask{{Sequence: sequence, Asked: trial.Asked{
		Parameters: proposal.Parameters, Source: trial.SourceAlgorithm, ParameterID: parameterID,
	}}})
	return err
}

// feed applies to an algorithm what the log holds beyond what it has seen, building
// it first if this process has none.
func (a *Activities) feed(ctx context.Context, l *algorithm, id string, build func() (tuners.Tuner, error)) error {
	if l.tuner == nil {
		tuner, err := build()
		if err == nil {
			err = l.adopt(tuner)
		}
		if err != nil {
			return err
		}
	}
	return a.follow(ctx, id, &l.applied, l.tuner.Apply)
}

// follow hands every event after the cursor to apply, and moves the cursor.
func (a *Activities) follow(ctx context.Context, id string, cursor *int64, apply func(trial.Event) error) error {
	for {
		events, err := a.Record.Events(ctx, id, *cursor, batch)
		if err != nil {
			return err
		}
		for _, event := range events {
			if err := apply(event); err != nil {
				return fmt.Errorf("event %d: %w", event.Number, err)
			}
			*cursor = event.Number
		}
		if len(events) < batch {
			return nil
		}
	}
}
