package poller

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// batches bounds how often in a row the journal of a running attempt is read, so
// that one that reports without end does not keep a slot.
const batches = 64

// treat puts one report on record, with the metrics that came meanwhile.
func (p *Poller) treat(ctx context.Context, s sighting) {
	if err := p.load(ctx, s.watched); err != nil {
		p.complain(ctx, s.watched, "read the record", err)
		return
	}
	p.learn(ctx, &s)
	switch {
	case s.report.Phase == platforms.Unreachable:
		p.explain(ctx, s.watched, unreachableReason(p.traits.Name, s.report.Reason))
	case s.report.Phase == platforms.Exited:
		p.conclude(ctx, s)
	case s.report.Phase == platforms.Lost, s.report.Phase == platforms.Absent:
		if s.gone++; s.gone >= p.traits.Losable {
			p.conclude(ctx, s)
		}
	default:
		s.gone = 0
		p.observe(ctx, s.watched, observation(s.report))
		_, err := p.collect(ctx, s)
		p.complain(ctx, s.watched, "collect metrics", err)
	}
}

// load reads what the record knows of the attempt, once.
func (p *Poller) load(ctx context.Context, w *watched) error {
	if w.loaded {
		return nil
	}
	attempt, err := p.store.Attempt(ctx, w.key)
	if err != nil {
		return err
	}
	w.stored, w.loaded = attempt.Observed(), true
	return nil
}

// learn keeps what the platform has learned of a run since its Submit.
func (p *Poller) learn(ctx context.Context, s *sighting) {
	if s.report.Handle == nil || reflect.DeepEqual(*s.report.Handle, s.handle) {
		return
	}
	text, err := json.Marshal(s.report.Handle)
	if err == nil {
		err = p.store.SetHandle(ctx, s.key, text)
	}
	p.complain(ctx, s.watched, "keep what was learned of a run", err)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.watched.handle, s.handle = s.report.Handle, *s.report.Handle
}

// conclude collects what is left of an attempt that is over, and ends the watch
// once nothing is. Until then the record says that it is over, and not drained.
func (p *Poller) conclude(ctx context.Context, s sighting) {
	empty, err := p.collect(ctx, s)
	p.complain(ctx, s.watched, "collect the last metrics", err)
	o := observation(s.report)
	if platforms.CodeOf(err) == platforms.NotFound && err != nil {
		// It is gone for good, so nobody waits for it. Of a run that was lost with it,
		// why it was says more.
		o.Reason = orElse(o.Reason, trial.Reason{Code: "journal-lost", Text: "metrics that were not collected before are lost, since its journal cannot be read: " + err.Error()})
		empty, err = true, nil
	}
	if err != nil && ctx.Err() == nil {
		o.Reason = trial.Reason{Code: "unread-metrics", Text: "it has ended, and its last metrics cannot be read yet: " + err.Error()}
	}
	o.Drained = empty && err == nil && !s.report.Pending
	if p.observe(ctx, s.watched, o) && o.Drained {
		p.finish(s.watched)
		p.forget(ctx, s)
	}
}

func orElse(reason, other trial.Reason) trial.Reason {
	if reason.Zero() {
		return other
	}
	return reason
}

// forgetPause follows the first try to have a run forgotten, and doubles with each.
const forgetPause = 250 * time.Millisecond

// forget has the platform forget a run of which everything is on record. Nobody
// waits for it: what is not forgotten in time goes when the experiment is cleaned up.
func (p *Poller) forget(ctx context.Context, s sighting) {
	forgetting, can := Optional[platforms.WithForget](p.platform)
	if !can {
		return
	}
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	try := func() error {
		return Survive(p.log.logger, "forget", func() error { return forgetting.Forget(limited, s.handle) })
	}
	err := try()
	for pause := forgetPause; err != nil && platforms.CodeOf(err) == platforms.Transient && passes(limited, pause); pause *= 2 {
		err = try()
	}
	if err != nil && ctx.Err() == nil {
		p.log.logger.Warn("a run is not forgotten now, but with its experiment", "attempt", s.key, "error", err)
	}
}

// passes waits, and tells whether there is time left then.
func passes(ctx context.Context, pause time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

// collect stores what the attempt's journal holds beyond the cursor, and tells
// whether it came to the journal's end. What came with the report is not asked for
// again.
func (p *Poller) collect(ctx context.Context, s sighting) (empty bool, err error) {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if came := s.report.Journal; came != nil {
		if err := p.keep(limited, s, came.Records, came.Next); err != nil || !came.More {
			return err == nil, err
		}
	}
	for range batches {
		records, cursor, err := p.platform.Collect(limited, s.handle, s.cursor)
		if err != nil {
			return false, err
		}
		if len(records) == 0 {
			return true, nil
		}
		if err := p.keep(limited, s, records, cursor); err != nil {
			return false, err
		}
	}
	return false, nil
}

// keep puts records on record together with the cursor after them.
func (p *Poller) keep(ctx context.Context, s sighting, records []metrics.Record, next platforms.Cursor) error {
	if len(records) == 0 {
		return nil
	}
	if err := p.store.Collect(ctx, s.key, records, string(next)); err != nil {
		return err
	}
	p.changed.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.watched.cursor = next
	return nil
}

// observe stores an observation that differs from the last, and tells whether
// the record has it.
func (p *Poller) observe(ctx context.Context, w *watched, o record.Observation) bool {
	if reflect.DeepEqual(o, w.stored) {
		return true
	}
	if err := p.store.Observe(ctx, w.key, o); err != nil {
		p.complain(ctx, w, "write the record", err)
		return false
	}
	p.changed.Store(true)
	w.stored = o
	return true
}

// explain stores a reason and leaves all else that is known as it is.
func (p *Poller) explain(ctx context.Context, w *watched, reason trial.Reason) {
	o := w.stored
	o.Reason = reason
	p.observe(ctx, w, o)
}

func (p *Poller) complain(ctx context.Context, w *watched, what string, err error) {
	if ctx.Err() == nil {
		p.log.problem(w.key.String(), what, err)
	}
}

func observation(report platforms.Report) record.Observation {
	if report.Phase == platforms.Absent && report.Reason.Zero() {
		report.Reason = trial.Reason{Code: "vanished", Text: "its platform knows of no such run"}
	}
	return record.Observation{
		Phase:   string(report.Phase),
		Reason:  report.Reason,
		Exit:    report.Exit,
		Intent:  report.Intent,
		Output:  report.Output,
		Started: report.Started.UTC(),
		Ended:   report.Ended.UTC(),
	}
}

// unanswered says of everybody that the platform does not say how he is, and leaves
// it alone for as long as it asks for.
func (p *Poller) unanswered(ctx context.Context, all []*watched, cause error) {
	var fault *platforms.Error
	if errors.As(cause, &fault) {
		p.notice = time.Now().Add(max(fault.After, pauseAfter(fault.Code)))
	}
	reason := silenceReason(p.traits.Name, cause)
	for _, w := range all {
		p.begin(w, func() {
			if p.load(ctx, w) == nil {
				p.explain(ctx, w, reason)
			}
			w.loaded = false // a Submit may have its own word meanwhile
		})
	}
}

func pauseAfter(code platforms.Code) time.Duration {
	if code == platforms.Denied {
		return deniedPause
	}
	return 0
}

// silenceReason says why nothing is known at present, and what would change that.
func silenceReason(platform string, cause error) trial.Reason {
	switch platforms.CodeOf(cause) {
	case platforms.Denied:
		return trial.Reason{Code: "denied", Text: platform + " refuses our credentials, renew them: " + cause.Error()}
	case platforms.Exhausted:
		return trial.Reason{Code: "throttled", Text: platform + " wants to be asked less often: " + cause.Error()}
	}
	return unreachableReason(platform, trial.Reason{Text: cause.Error()})
}

// unreachableReason is the platform's own word for why it cannot tell of a run, if it
// has a code for that.
func unreachableReason(platform string, cause trial.Reason) trial.Reason {
	if cause.Code != "" && cause.Code != "cannot-reach" {
		return cause
	}
	text := "cannot reach " + platform
	if cause.Text != "" {
		text += ": " + cause.Text
	}
	return trial.Reason{Code: "cannot-reach", Text: text}
}

// find looks for the handles of attempts whose Submit's answer was lost, in one call,
// and not all the time: hundreds may wait for their first Submit.
func (p *Poller) find(ctx context.Context, all []*watched) {
	all = slices.DeleteFunc(all, func(w *watched) bool {
		return p.remember(ctx, w) || time.Since(w.missed) <= listAgain
	})
	if len(all) > 0 {
		p.list(ctx, all)
	}
}

// remember takes a handle that the record got meanwhile.
func (p *Poller) remember(ctx context.Context, w *watched) bool {
	attempt, err := p.store.Attempt(ctx, w.key)
	if err != nil || attempt.Handle == nil {
		p.complain(ctx, w, "read the record", err)
		return false
	}
	p.adopt(attempt)
	return true
}

func (p *Poller) list(ctx context.Context, missing []*watched) {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	handles, err := p.platform.List(limited, keysOf(missing)...)
	if ctx.Err() != nil {
		return
	}
	p.log.problem("", "list runs", err)
	if err != nil {
		p.unanswered(ctx, missing, err)
		return
	}
	byKey, err := p.begun(limited, handles)
	if err != nil {
		p.unanswered(ctx, missing, err)
		return
	}
	for _, w := range missing {
		if handle, found := byKey[w.key]; found {
			p.found(ctx, w, handle)
		} else {
			p.missed(ctx, w)
		}
	}
}

func keysOf(all []*watched) (keys []trial.Key) {
	for _, w := range all {
		keys = append(keys, w.key)
	}
	return keys
}

// begun are the runs that run or did. One that is half made, or still being
// started, or cannot be asked, may yet turn out to be none: Submit is repeated and
// finishes it, which it would not do for one with a handle.
func (p *Poller) begun(ctx context.Context, handles []platforms.Handle) (map[trial.Key]platforms.Handle, error) {
	reports, err := p.platform.Poll(ctx, platforms.Ask(handles...))
	if err != nil || len(reports) != len(handles) {
		return nil, errors.Join(err, ctx.Err())
	}
	byKey := map[trial.Key]platforms.Handle{}
	for i, handle := range handles {
		if phase := reports[i].Phase; phase == platforms.Running || phase.Definite() {
			byKey[handle.Key] = handle
		}
	}
	return byKey, nil
}

func (p *Poller) found(ctx context.Context, w *watched, handle platforms.Handle) {
	text, err := json.Marshal(handle)
	if err == nil {
		err = p.store.SetHandle(ctx, w.key, text)
	}
	p.complain(ctx, w, "keep a handle that was found", err)
	p.discovered(w.key)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.give(w, &handle)
}

// missed ends the watch on an attempt that the platform does not know and that
// nobody will submit any more. One without an outcome may yet be submitted.
func (p *Poller) missed(ctx context.Context, w *watched) {
	attempt, err := p.store.Attempt(ctx, w.key)
	p.complain(ctx, w, "read the record", err)
	if err != nil {
		return
	}
	if attempt.Outcome == "" {
		w.missed = time.Now()
		return
	}
	if w.gone++; w.gone < p.traits.Losable {
		return
	}
	o := attempt.Observed()
	o.Phase, o.Drained = string(platforms.Absent), true
	if p.observe(ctx, w, o) {
		p.finish(w)
	}
}
