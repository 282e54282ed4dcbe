package poller

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"time"

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
	switch {
	case s.report.Phase == platforms.Unreachable:
		p.explain(ctx, s.watched, unreachableReason(p.traits.Name, s.report.Reason.Text))
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
	w.stored, w.cursor, w.loaded = attempt.Observed(), platforms.Cursor(attempt.Cursor), true
	return nil
}

// conclude collects what is left of an attempt that is over, and ends the watch
// once nothing is. Until then the record says that it is over, and not drained.
func (p *Poller) conclude(ctx context.Context, s sighting) {
	empty, err := p.collect(ctx, s)
	if platforms.CodeOf(err) == platforms.NotFound && err != nil {
		empty, err = true, nil // its journal is gone for good
	}
	p.complain(ctx, s.watched, "collect the last metrics", err)
	o := observation(s.report)
	o.Drained = empty && err == nil && !s.report.Pending
	if p.observe(ctx, s.watched, o) && o.Drained {
		p.finish(s.watched)
	}
}

// collect stores what the attempt's journal holds beyond the cursor, and tells
// whether it came to the journal's end.
func (p *Poller) collect(ctx context.Context, s sighting) (empty bool, err error) {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for range batches {
		records, cursor, err := p.platform.Collect(limited, s.handle, s.cursor)
		if err != nil {
			return false, err
		}
		if len(records) == 0 {
			return true, nil
		}
		if err := p.store.Collect(limited, s.key, records, string(cursor)); err != nil {
			return false, err
		}
		p.changed.Store(true)
		s.cursor = cursor
	}
	return false, nil
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

// unreachable says of everybody that the platform cannot be asked.
func (p *Poller) unreachable(ctx context.Context, all []*watched, cause error) {
	reason := unreachableReason(p.traits.Name, cause.Error())
	for _, w := range all {
		p.begin(w, func() {
			if p.load(ctx, w) == nil {
				p.explain(ctx, w, reason)
			}
			w.loaded = false // a Submit may have its own word meanwhile
		})
	}
}

func unreachableReason(platform, cause string) trial.Reason {
	text := "cannot reach " + platform
	if cause != "" {
		text += ": " + cause
	}
	return trial.Reason{Code: "cannot-reach", Text: text}
}

// find looks for the handles of attempts whose Submit's answer was lost, one list
// for each experiment, and not all the time: it grows with the runs there were.
func (p *Poller) find(ctx context.Context, all []*watched) {
	byExperiment := map[string][]*watched{}
	for _, w := range all {
		if !p.remember(ctx, w) && time.Since(w.missed) > listAgain {
			byExperiment[w.key.Experiment] = append(byExperiment[w.key.Experiment], w)
		}
	}
	for experiment, missing := range byExperiment {
		p.list(ctx, experiment, missing)
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

func (p *Poller) list(ctx context.Context, experiment string, missing []*watched) {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	handles, err := p.platform.List(limited, experiment)
	if ctx.Err() != nil {
		return
	}
	p.log.problem(experiment, "list runs", err)
	if err != nil {
		p.unreachable(ctx, missing, err)
		return
	}
	handles = slices.DeleteFunc(handles, func(handle platforms.Handle) bool {
		return !slices.ContainsFunc(missing, func(w *watched) bool { return w.key == handle.Key })
	})
	byKey, err := p.begun(limited, handles)
	if err != nil {
		p.unreachable(ctx, missing, err)
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

// begun are the runs that run or did. One that is half made, or still being
// started, or cannot be asked, may yet turn out to be none: Submit is repeated and
// finishes it, which it would not do for one with a handle.
func (p *Poller) begun(ctx context.Context, handles []platforms.Handle) (map[trial.Key]platforms.Handle, error) {
	reports, err := p.platform.Poll(ctx, handles)
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
	p.add(w.key, &handle)
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
