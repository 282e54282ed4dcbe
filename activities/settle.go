package activities

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/temporal"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// MaxFaults is how many attempts in a row a platform may fail without a new
// metric before the trial is FAILED.
const MaxFaults = 3

// Settlement is what became of a trial when one of its attempts was over.
type Settlement struct {
	State       trial.State `json:"state,omitempty"`       // set when the trial is settled
	Interrupted bool        `json:"interrupted,omitempty"` // it stays unsettled until its experiment is resumed
	// Value and Reason tell more: its default metric, nil where there is none, and
	// why it ended so or was interrupted.
	Value  *float64     `json:"value,omitempty"`
	Reason trial.Reason `json:"reason,omitzero"`
}

// settlementOf is the settlement of a trial that is settled.
func settlementOf(row record.Trial) Settlement {
	return Settlement{State: row.State, Value: row.Value, Reason: brief(row.Reason)}
}

// Unbegun tells whether the trial came too late to begin.
func (s Settlement) Unbegun() bool { return s.Interrupted && s.Reason.Code == record.ReasonTimeOver }

// Again tells whether the trial goes on with another attempt.
func (s Settlement) Again() bool { return s.State == "" && !s.Interrupted }

// Settle judges an attempt that is over and drained, and writes the judgement
// down. Repeated, it answers the same. A record that does not know that the attempt
// is over came from a backup: ErrorForgotten, since nothing can be judged by it.
func (a *Activities) Settle(ctx context.Context, key trial.Key) (Settlement, error) {
	attempt, err := a.Record.Attempt(ctx, key)
	if err == nil && !attempt.Drained && attempt.Outcome == "" {
		err = fmt.Errorf("that %s is over: %w", key, record.ErrBehind)
	}
	if err != nil {
		return Settlement{}, forgotten(err)
	}
	row, err := a.Record.Trial(ctx, key.Experiment, key.Sequence)
	if err != nil {
		return Settlement{}, err
	}
	if row.Settled() {
		return settlementOf(row), nil
	}
	if attempt.Outcome == record.OutcomeInterrupted {
		return Settlement{Interrupted: true, Reason: attempt.Reason}, nil
	}
	verdict, err := a.judge(ctx, attempt)
	if err != nil {
		return Settlement{}, err
	}
	return a.write(ctx, row, key, verdict)
}

// Dismiss settles a trial that shall end and has no attempt that could: by its
// decision, or as interrupted where the experiment stops or its time is over. Where the record wants
// neither, the trial goes on.
func (a *Activities) Dismiss(ctx context.Context, id string, sequence int) (Settlement, error) {
	row, err := a.Record.Trial(ctx, id, sequence)
	if err != nil {
		return Settlement{}, forgotten(err)
	}
	if row.Settled() {
		return settlementOf(row), nil
	}
	key := trial.Key{Experiment: id, Sequence: sequence}
	intent, wanted, err := a.intent(ctx, trial.Key{Experiment: id, Sequence: sequence, Attempt: row.Attempts + 1})
	if err != nil {
		return Settlement{}, err
	}
	v := verdictOf(intent.Cause, trial.Reason{})
	v.decision = "carried-out"
	if !wanted {
		late, err := a.timeOver(ctx, id)
		if err != nil || !late {
			return Settlement{}, err
		}
		v = verdict{outcome: record.OutcomeInterrupted, reason: record.TimeOver()}
	}
	return a.write(ctx, row, key, v)
}

func (a *Activities) timeOver(ctx context.Context, id string) (bool, error) {
	row, err := a.Record.Experiment(ctx, id)
	return row.TimeOver(), err
}

// DeclareLost gives up an attempt because a person said that it is lost. It may
// still be running somewhere; the next attempt supersedes it. What no platform
// can have accepted yet cannot be lost, nor what is known to have ended: it would run
// again although it had a result.
func (a *Activities) DeclareLost(ctx context.Context, key trial.Key) error {
	attempt, err := a.Record.Attempt(ctx, key)
	if err != nil {
		return forgotten(err)
	}
	if attempt.Handle == nil && !unanswered(attempt) {
		return temporal.NewNonRetryableApplicationError("no attempt of this trial runs at present, so none can be lost", ErrorRejected, nil)
	}
	if attempt.Drained && platforms.Phase(attempt.Phase) == platforms.Exited {
		return temporal.NewNonRetryableApplicationError("the attempt has ended by itself, and what it reported is on record, so it is not lost", ErrorRejected, nil)
	}
	err = a.Record.Settle(ctx, key, record.Settlement{
		Outcome: record.OutcomeFault, Decision: "too-late",
		Reason: trial.Reason{Code: "declared-lost", Text: "declared lost by its user"},
	})
	if err != nil || !a.Sections.Serves(attempt.Platform) {
		return err
	}
	platform, err := a.section(ctx, key)
	if err != nil {
		return err
	}
	platform.Room.Wake(key)
	return a.watchToEnd(ctx, platform, key)
}

// unanswered tells whether the platform did not say what became of a Submit: the
// machine it was meant for may have gone with the answer.
func unanswered(attempt record.Attempt) bool {
	code := attempt.Reason.Code
	return code == submitReason+string(platforms.Transient) || code == "cannot-reach"
}

// verdict is how an attempt turned out and what that makes of its trial.
type verdict struct {
	outcome  record.Outcome
	state    trial.State
	reason   trial.Reason
	decision string // outcome of the attempt's open decision
}

func (a *Activities) judge(ctx context.Context, attempt record.Attempt) (verdict, error) {
	// A platform that cannot tell how a run exited has failed it, too.
	exited := platforms.Phase(attempt.Phase) == platforms.Exited && attempt.Exit != nil
	if attempt.Intent == nil && exited && !attempt.Exit.Outside {
		v := byItself(*attempt.Exit)
		if v.state == trial.Succeeded && (attempt.Reason.Code == "journal-lost" || attempt.Reason.Code == "metrics-lost") {
			v.reason = attempt.Reason
		}
		return v, nil
	}
	decision, decided, err := a.Record.DecisionOn(ctx, attempt.Key)
	if err == nil && !decided && !a.traits(attempt).KeepsIntent {
		// Then what the record says now stands for what the run was ended by.
		var intent trial.Intent
		intent, decided, err = a.intent(ctx, attempt.Key)
		decision.Decision.Cause = intent.Cause
	}
	if err != nil {
		return verdict{}, err
	}
	if attempt.Intent != nil && attempt.Intent.Cause == trial.CauseStop && !decided {
		return a.stopped(ctx, attempt)
	}
	// The intent is what the run was ended by; why is known by the decision that
	// it carries out. A stop would have the trial run again, which somebody who
	// decided that it shall end does not want.
	cause, reason := decision.Decision.Cause, decision.Decision.Reason
	if attempt.Intent != nil && !(decided && attempt.Intent.Cause == trial.CauseStop) {
		cause, decided = attempt.Intent.Cause, true
		if attempt.Intent.Decision != decision.Decision.ID {
			reason = attempt.Reason
		}
	}
	if decided {
		v := verdictOf(cause, reason)
		v.decision = "carried-out"
		return v, nil
	}
	return verdict{outcome: record.OutcomeFault, reason: faultReason(attempt)}, nil
}

// stopped is the verdict on an attempt that ended because its experiment stopped. One
// that runs had been resumed since, and the record came from a backup older than
// both: the trial goes on.
func (a *Activities) stopped(ctx context.Context, attempt record.Attempt) (verdict, error) {
	row, err := a.Record.Experiment(ctx, attempt.Key.Experiment)
	if err == nil && row.Status == record.Running && attempt.Outcome == "" {
		return verdict{outcome: record.OutcomeFault, reason: trial.Reason{Code: "superseded",
			Text: "it was stopped and resumed after the backup that the record came from was made"}}, nil
	}
	v := verdictOf(trial.CauseStop, trial.Reason{})
	v.decision = record.CarriedOut
	return v, err
}

func (a *Activities) traits(attempt record.Attempt) platforms.Traits {
	return a.Sections.Registry()[attempt.Platform].Traits
}

// verdictOf is the verdict on an attempt that ended because somebody wanted it to.
func verdictOf(cause trial.Cause, reason trial.Reason) verdict {
	switch cause {
	case trial.CauseStop:
		return verdict{outcome: record.OutcomeInterrupted,
			reason: trial.Reason{Code: record.ReasonStopped, Text: "stopped with its experiment; resume runs it again"}}
	case trial.CauseEarlyStop:
		return verdict{outcome: record.OutcomeEnded, state: trial.EarlyStopped,
			reason: orElse(reason, trial.Reason{Code: "early-stopped", Text: "stopped early"})}
	case trial.CauseMaxDuration:
		return verdict{outcome: record.OutcomeEnded, state: trial.EarlyStopped,
			reason: trial.Reason{Code: "max-trial-duration", Text: "ran as long as maxTrialDuration allows"}}
	case trial.CauseHostLost:
		return verdict{outcome: record.OutcomeFault,
			reason: trial.Reason{Code: "host-lost", Text: "its machine heard nothing from here for longer than hostLostAfter and ended it"}}
	case trial.CauseSuperseded:
		return verdict{outcome: record.OutcomeFault,
			reason: trial.Reason{Code: "superseded", Text: "a later attempt took over"}}
	default:
		return verdict{outcome: record.OutcomeEnded, state: trial.UserCanceled,
			reason: orElse(reason, trial.Reason{Code: "canceled", Text: "canceled by its user"})}
	}
}

// byItself is the verdict on a command that ended by itself.
func byItself(exit trial.Exit) verdict {
	v := verdict{outcome: record.OutcomeEnded, state: trial.Succeeded, decision: "too-late"}
	switch {
	case exit.Signal != "":
		v.state = trial.Failed
		v.reason = trial.Reason{Code: "killed", Text: "the command was killed by " + exit.Signal}
	case exit.Code != 0:
		v.state = trial.Failed
		v.reason = trial.Reason{Code: "exit-code", Text: fmt.Sprintf("the command exited with code %d", exit.Code)}
	}
	if exit.Text != "" && v.state == trial.Failed {
		v.reason.Text += ": " + exit.Text
	}
	return v
}

func faultReason(attempt record.Attempt) trial.Reason {
	if attempt.Exit != nil && attempt.Exit.Outside {
		return trial.Reason{Code: "stopped-from-outside", Text: "ended by TERM that nobody here asked for: a shutdown or preemption"}
	}
	return orElse(attempt.Reason, trial.Reason{Code: "runner-died", Text: "its runner died without an exit record"})
}

func orElse(reason, other trial.Reason) trial.Reason {
	if reason.Zero() {
		return other
	}
	return reason
}

// write puts a verdict on record. Enough faults in a row end the trial.
func (a *Activities) write(ctx context.Context, row record.Trial, key trial.Key, v verdict) (Settlement, error) {
	settlement := record.Settlement{Outcome: v.outcome, Reason: v.reason, Decision: v.decision}
	answer := Settlement{}
	switch v.outcome {
	case record.OutcomeEnded:
		ended, err := a.ended(ctx, row, key, v)
		if err != nil {
			return answer, err
		}
		settlement.Ended = &ended
		answer = Settlement{State: ended.State, Value: ended.Value, Reason: brief(ended.Reason)}
	case record.OutcomeInterrupted:
		settlement.Interrupted, answer = &trial.Interrupted{Reason: v.reason}, Settlement{Interrupted: true, Reason: v.reason}
	}
	if err := a.Record.Settle(ctx, key, settlement); err != nil || v.outcome != record.OutcomeFault {
		return answer, err
	}
	return a.retryOrFail(ctx, row, key, v)
}

// retryOrFail lets a trial go on after a platform's fault, up to MaxFaults in a row.
func (a *Activities) retryOrFail(ctx context.Context, row record.Trial, key trial.Key, v verdict) (Settlement, error) {
	faults, err := a.Record.Faults(ctx, key.Experiment, key.Sequence)
	if err != nil || faults < MaxFaults {
		return Settlement{}, err
	}
	key.Attempt = 0
	return a.write(ctx, row, key, verdict{
		outcome: record.OutcomeEnded, state: trial.Failed,
		reason: trial.Reason{Code: "platform-fault", Text: fmt.Sprintf("the platform failed it %d times in a row, at last: %s", faults, v.reason.Text)},
	})
}

// ended is the event that settles a trial, with the value that algorithms see.
func (a *Activities) ended(ctx context.Context, row record.Trial, key trial.Key, v verdict) (trial.Ended, error) {
	ended := trial.Ended{State: v.state, Reason: v.reason, Source: row.Source}
	if key.Attempt == 0 {
		return ended, nil
	}
	metric, found, err := a.Record.Final(ctx, key)
	if err != nil {
		return ended, err
	}
	if !found && v.state == trial.EarlyStopped {
		metric, found, err = a.lastIntermediate(ctx, key)
	}
	if err != nil {
		return ended, err
	}
	reported := metrics.Record{Value: metric.Value}
	if value, ok := reported.Default(); ok && found {
		ended.Value, ended.Metric = &value, reported.Object()
	} else if v.state == trial.Succeeded && v.reason.Zero() {
		ended.Reason, err = a.withoutResult(ctx, key, metric)
	}
	return ended, err
}

// lastIntermediate stands in for the result of an early-stopped trial where the
// experiment asks for that (includeIntermediateResults).
func (a *Activities) lastIntermediate(ctx context.Context, key trial.Key) (record.Metric, bool, error) {
	row, err := a.Record.Experiment(ctx, key.Experiment)
	if err != nil {
		return record.Metric{}, false, err
	}
	config, err := a.config(row)
	if err != nil || !config.IncludeIntermediate {
		return record.Metric{}, false, err
	}
	all, err := a.Record.Metrics(ctx, key.Experiment, key.Sequence, key.Attempt)
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Kind == string(metrics.Periodical) {
			return all[i], true, err
		}
	}
	return record.Metric{}, false, err
}
