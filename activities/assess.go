package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perennial-ml/perennial/assessors"
	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
	"github.com/perennial-ml/perennial/tuners/bridge"
)

// Assess reads intermediate results in the log's order and has the assessor
// judge them, as long as the experiment is driven; a tuner that is a process may
// judge as well. A verdict is a decision on record before the trial hears of it.
// Two calls that overlap are harmless.
func (a *Activities) Assess(ctx context.Context, id string) error {
	row, err := a.Record.Experiment(ctx, id)
	if err != nil {
		return forgotten(err)
	}
	config, err := a.config(row)
	if err != nil || config.Assessor == nil && !bridged(config.Tuner) {
		return err
	}
	return alive(ctx, func(ctx context.Context) error {
		err := a.all(ctx, a.judges(row, config))
		if err == nil || ctx.Err() != nil || config.Assessor == nil { // what a tuner lacks, its rounds tell
			return err
		}
		return errors.Join(err, a.Record.SetReason(ctx, id, trial.Reason{Code: reasonAssessor, Text: err.Error()}))
	})
}

// judging takes that reason back.
func (a *Activities) judging(ctx context.Context, id string) error {
	row, err := a.Record.Experiment(ctx, id)
	if code := row.Reason.Code; err != nil || code != reasonAssessor && code != reasonAssessorFailed {
		return err
	}
	return a.Record.SetReason(ctx, id, trial.Reason{})
}

// judges is the work of everybody who judges intermediate results.
func (a *Activities) judges(row record.Experiment, config experiment.Experiment) (work []func(context.Context) error) {
	if bridged(config.Tuner) {
		work = append(work, func(ctx context.Context) error { return a.overhear(ctx, place{row.ID, roleTuner}, a.build(row)) })
	}
	if config.Assessor == nil || together(config) {
		return work
	}
	return append(work, func(ctx context.Context) error {
		return a.overhear(ctx, place{row.ID, roleAssessor}, a.buildAssessor(row))
	})
}

// all has everybody work at the same time until all are through or one fails, and
// returns the first failure.
func (a *Activities) all(ctx context.Context, work []func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan error, len(work))
	for _, do := range work {
		go func() { results <- survived(a.Logger, func() error { return do(ctx) }) }()
	}
	for range work {
		if err := <-results; err != nil {
			return err
		}
	}
	return nil
}

// overhear feeds an algorithm that judges with what comes, and carries out what it
// says about running trials, until its experiment has ended. One that never judges is
// left to the rounds. It is kept for the next call, which goes on where this one was.
func (a *Activities) overhear(ctx context.Context, at place, build func() (tuners.Tuner, error)) error {
	changed, stop := a.Record.WatchLog(at.experiment)
	defer stop()
	_, leave := a.use(at) // it is at work also while nothing comes
	defer leave()
	for {
		rung, again, judges, err := a.hear(ctx, at, build)
		var failed *setback
		if errors.As(err, &failed) {
			again, judges = time.After(time.Until(failed.until)), true
			err = a.deplore(ctx, at, failed)
		}
		if err != nil || !judges {
			return a.unlessOver(ctx, at.experiment, err)
		}
		select {
		case <-changed:
		case <-rung:
		case <-again:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// deplore tells of an assessor that fails. What a tuner lacks, its rounds tell.
func (a *Activities) deplore(ctx context.Context, at place, failed *setback) error {
	row, err := a.Record.Experiment(ctx, at.experiment)
	if err != nil || at.role != roleAssessor || !row.Status.Active() {
		return err
	}
	return a.Record.SetReason(ctx, at.experiment, failed.reason(at))
}

// unlessOver is nothing where the experiment has ended meanwhile: its process was
// ended with it, and whoever was reading from that has nothing left to judge.
func (a *Activities) unlessOver(ctx context.Context, experiment string, err error) error {
	if err == nil {
		return nil
	}
	if row, lookErr := a.Record.Experiment(ctx, experiment); lookErr == nil && !row.Status.Active() {
		return nil
	}
	return err
}

// hear is one turn of overhear. It tells whether there will be another, and by what
// it should be woken.
func (a *Activities) hear(ctx context.Context, at place, build func() (tuners.Tuner, error)) (rung <-chan struct{}, again <-chan time.Time, judges bool, err error) {
	l, leave := a.use(at) // before the look: an experiment that ends meanwhile ends this one
	defer leave()
	row, err := a.Record.Experiment(ctx, at.experiment)
	if err != nil || !row.Status.Active() {
		return nil, nil, false, err
	}
	works := false
	rung = l.bell.next()
	var made []record.Decision
	lasting := context.WithoutCancel(ctx)
	err = l.do(ctx, nil, func() (err error) {
		if err = a.feed(lasting, l, at.experiment, build); err != nil {
			return err
		}
		judge := l.tuner.(judge)
		judges = judge.Judges()
		// It says a stop once: if that cannot be put on record, one that is rebuilt
		// says it again.
		made, err = a.decideAll(lasting, at.experiment, judge.Stops())
		works = l.proved()
		return cmp.Or(err, judge.Failure()) // nothing that came may have met it
	})
	if err != nil {
		return rung, nil, false, err // what comes later is not for this call
	}
	var faults []error
	switch {
	case !works:
		again = time.After(proof)
	case at.role == roleAssessor:
		faults = append(faults, a.judging(ctx, at.experiment))
	}
	for _, decision := range made {
		faults = append(faults, a.Workflows.EarlyStop(ctx, decision.Key, decision.Decision))
	}
	return rung, again, judges, errors.Join(faults...)
}

// judge is an algorithm that can want trials to be stopped: a bridge.Process, or native.
type judge interface {
	Judges() bool
	Stops() []bridge.Stop
	Failure() error
}

// native is an assessor of ours as a judge.
type native struct {
	assessors.Assessor
	stops []bridge.Stop
}

// Apply implements tuners.Tuner.
func (n *native) Apply(event trial.Event) error {
	verdict, err := n.Assessor.Apply(event)
	if err == nil && verdict.Stop {
		n.stops = append(n.stops, bridge.Stop{
			Sequence: event.Sequence, Attempt: event.Attempt, Event: event.Number, Reason: verdict.Reason,
		})
	}
	return err
}

// Propose implements tuners.Tuner: an assessor never does.
func (n *native) Propose(int) (tuners.Proposal, error) {
	return tuners.Proposal{}, errors.New("an assessor proposes nothing")
}

// Judges implements judge.
func (n *native) Judges() bool { return true }

// Failure implements judge: what fails says so when it fails.
func (n *native) Failure() error { return nil }

// Stops implements judge.
func (n *native) Stops() []bridge.Stop {
	stops := n.stops
	n.stops = nil
	return stops
}

// decideAll records what an algorithm wanted stopped, and returns what is to be told.
func (a *Activities) decideAll(ctx context.Context, id string, stops []bridge.Stop) (made []record.Decision, err error) {
	for _, stop := range stops {
		key := trial.Key{Experiment: id, Sequence: stop.Sequence, Attempt: stop.Attempt}
		if key.Attempt == 0 {
			row, err := a.Record.Trial(ctx, id, stop.Sequence)
			if err != nil {
				return nil, err
			}
			key.Attempt = row.Attempts
		}
		decision, wanted, err := a.decide(ctx, key, stop.Event, stop.Reason)
		if err != nil {
			return nil, err
		}
		if wanted {
			made = append(made, decision)
		}
	}
	return made, nil
}

// decide records the decision to stop a trial, and returns whether it is this one
// that its workflow is to be told of. A trial without an attempt cannot be stopped.
func (a *Activities) decide(ctx context.Context, key trial.Key, event int64, reason trial.Reason) (won record.Decision, wanted bool, err error) {
	if key.Attempt == 0 {
		return won, false, nil
	}
	decision := trial.Decision{ID: fmt.Sprintf("assessor-%d", event), Cause: trial.CauseEarlyStop, Reason: reason}
	attempt, err := a.Record.Attempt(ctx, key)
	if err != nil || attempt.Outcome != "" {
		return won, false, err
	}
	won, err = a.Record.Decide(ctx, record.Decision{Key: key, Decision: decision})
	return won, err == nil && won.Outcome == "" && won.Decision.ID == decision.ID, err
}
