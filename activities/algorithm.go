package activities

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"

	"github.com/perennial-ml/perennial/assessors"
	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
)

// batch is how many events an algorithm is fed between looks at the context.
const batch = 1000

// algorithm is an experiment's tuner and how far in the log it has read. It is
// only ever fed from the log, live or after a restart alike.
type algorithm struct {
	mu      sync.Mutex
	tuner   tuners.Tuner
	applied int64
}

// propose has the tuner fill up to room slots and commits its asks. It reports
// whether the tuner is exhausted.
func (r *round) propose(ctx context.Context, row record.Experiment, room int) (exhausted bool, err error) {
	value, _ := r.algorithms.LoadOrStore(row.ID, &algorithm{})
	algorithm := value.(*algorithm)
	algorithm.mu.Lock()
	defer algorithm.mu.Unlock()
	exhausted, err = r.proposeLocked(ctx, algorithm, row, room)
	switch {
	case errors.Is(err, record.ErrStopping):
		// A stop overtook the asks; the next look sees it.
		return false, nil
	case err != nil && ctx.Err() == nil:
		// A tuner in doubt is rebuilt from the log by the next try.
		r.algorithms.Delete(row.ID)
		return false, errors.Join(err, r.Record.SetReason(ctx, row.ID, trial.Reason{Code: reasonTuner, Text: err.Error()}))
	case row.Reason.Code == reasonTuner:
		err = r.Record.SetReason(ctx, row.ID, trial.Reason{})
	}
	return exhausted, err
}

// reasonTuner is the code of the reason for which nothing starts while a tuner
// fails.
const reasonTuner = "tuner"

func (r *round) proposeLocked(ctx context.Context, algorithm *algorithm, row record.Experiment, room int) (bool, error) {
	for asked := 0; asked < room; asked++ {
		if err := r.feed(ctx, algorithm, row); err != nil {
			return false, err
		}
		proposal, err := algorithm.tuner.Propose(row.Asked + asked)
		switch {
		case err != nil:
			return false, err
		case proposal.Answer == tuners.Wait:
			return false, nil
		case proposal.Answer == tuners.Exhausted:
			return true, r.Record.SetExhausted(ctx, row.ID, algorithm.applied)
		}
		if err := r.ask(ctx, row.ID, row.Asked+asked, proposal); err != nil {
			return false, err
		}
	}
	return false, nil
}

// ask puts a proposal on record. Where somebody else asked under that number
// first, theirs is the trial, and the log will tell the tuner so.
func (r *round) ask(ctx context.Context, id string, sequence int, proposal tuners.Proposal) error {
	parameterID := proposal.ParameterID
	if parameterID == nil {
		parameterID = fmt.Append(nil, sequence)
	}
	_, err := r.Record.Ask(ctx, id, []record.Ask{{Sequence: sequence, Asked: trial.Asked{
		Parameters: proposal.Parameters, Source: trial.SourceAlgorithm, ParameterID: parameterID,
	}}})
	return err
}

// feed applies to the tuner what the log holds beyond what it has seen, building
// it first if this process has none.
func (r *round) feed(ctx context.Context, algorithm *algorithm, row record.Experiment) error {
	if algorithm.tuner == nil {
		tuner, err := r.build(row)
		if err != nil {
			return err
		}
		algorithm.tuner, algorithm.applied = tuner, 0
	}
	return r.follow(ctx, row.ID, &algorithm.applied, algorithm.tuner.Apply)
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

// build makes the tuner an experiment was accepted with. A later search space
// reaches it as an event, like everything else.
func (a *Activities) build(row record.Experiment) (tuners.Tuner, error) {
	config, err := a.config(row)
	if err != nil {
		return nil, err
	}
	return a.Tuners(tuners.Spec{
		Name: config.Tuner.Name, Arguments: config.Tuner.Arguments,
		Space: config.SearchSpace, Seed: seed(row.ID),
	})
}

// seed is the default seed of an experiment's random numbers.
func seed(id string) uint64 {
	hash := fnv.New64a()
	hash.Write([]byte(id))
	return hash.Sum64()
}

// Assess reads intermediate results in the log's order and has the assessor
// judge them, as long as the experiment is driven. A verdict is a decision on
// record before the trial hears of it. Two calls that overlap are harmless.
func (a *Activities) Assess(ctx context.Context, id string) error {
	row, err := a.Record.Experiment(ctx, id)
	if err != nil {
		return err
	}
	config, err := a.config(row)
	if err != nil || config.Assessor == nil {
		return err
	}
	assessor, err := a.Assessors(assessorSpec(config))
	if err != nil {
		return err
	}
	changed, stop := a.Record.WatchLog(id)
	defer stop()
	return alive(ctx, func(ctx context.Context) error { return a.assess(ctx, id, assessor, changed) })
}

func assessorSpec(config experiment.Experiment) assessors.Spec {
	return assessors.Spec{Name: config.Assessor.Name, Arguments: config.Assessor.Arguments}
}

func (a *Activities) assess(ctx context.Context, id string, assessor assessors.Assessor, changed <-chan struct{}) error {
	var cursor int64
	for {
		err := a.follow(ctx, id, &cursor, func(event trial.Event) error {
			verdict, err := assessor.Apply(event)
			if err != nil || !verdict.Stop {
				return err
			}
			return a.earlyStop(ctx, id, event, verdict)
		})
		if err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// earlyStop records the decision to stop a trial and tells its workflow.
func (a *Activities) earlyStop(ctx context.Context, id string, event trial.Event, verdict assessors.Verdict) error {
	key := trial.Key{Experiment: id, Sequence: event.Sequence, Attempt: event.Attempt}
	decision := trial.Decision{ID: fmt.Sprintf("assessor-%d", event.Number), Cause: trial.CauseEarlyStop, Reason: verdict.Reason}
	attempt, err := a.Record.Attempt(ctx, key)
	if err != nil || attempt.Outcome != "" {
		return err
	}
	won, err := a.Record.Decide(ctx, record.Decision{Key: key, Decision: decision})
	if err != nil || won.Outcome != "" || won.Decision.ID != decision.ID {
		return err
	}
	return a.Signaler.EarlyStop(ctx, key, won.Decision)
}
