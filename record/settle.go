package record

import (
	"context"
	"database/sql"
	"errors"

	"github.com/perennial-ml/perennial/trial"
)

const decisionColumns = "SELECT experiment, sequence, attempt, id, cause, reason_code, reason_text, outcome FROM decisions"

func (d *Decision) scan(row scanner) error {
	return row.Scan(&d.Key.Experiment, &d.Key.Sequence, &d.Key.Attempt, &d.Decision.ID, &d.Decision.Cause,
		&d.Decision.Reason.Code, &d.Decision.Reason.Text, &d.Outcome)
}

// Decide stores that an attempt shall end, with its event, and returns the
// decision that counts for it: the first. Attempt 0 stands for the open attempt,
// or the next one where none is open; the answer names it. A decision on a trial
// that has ended, or on an attempt that is over, is TooLate at once. Where the
// earlier decision was closed and the attempt is still to come, as after a
// resume, the new one takes its place.
func (s *Store) Decide(ctx context.Context, d Decision) (Decision, error) {
	return change(ctx, s, func(t *transaction) (Decision, error) {
		c, err := t.newestCourse(d.Key)
		if err != nil {
			return Decision{}, err
		}
		current := c.current()
		if d.Key.Attempt == 0 {
			d.Key.Attempt = current
		}
		return t.decideOnce(c, d, c.trial.settled || d.Key.Attempt < current)
	})
}

// DecideAll stores a decision on every trial of an experiment that has not ended, in
// one commit. Where a trial has an earlier one that counts, it keeps that.
func (s *Store) DecideAll(ctx context.Context, experiment string, decision trial.Decision) error {
	return s.update(ctx, func(t *transaction) error {
		unsettled, err := t.unsettled(experiment)
		for _, n := range unsettled {
			if err == nil {
				err = t.decideOne(trial.Key{Experiment: experiment, Sequence: n}, decision)
			}
		}
		return err
	})
}

func (t *transaction) decideOne(key trial.Key, decision trial.Decision) error {
	c, err := t.newestCourse(key)
	if err != nil {
		return err
	}
	key.Attempt = c.current()
	_, err = t.decideOnce(c, Decision{Key: key, Decision: decision}, false)
	return err
}

func (t *transaction) decideOnce(c *course, d Decision, stale bool) (Decision, error) {
	first, known, err := t.decision(d.Key)
	if err != nil {
		return Decision{}, err
	}
	if known && (first.Outcome == "" || stale || first.Decision.ID == d.Decision.ID) {
		return first, nil
	}
	d.Outcome = ""
	if stale {
		d.Outcome = TooLate
	}
	return d, t.decide(c, d)
}

// DecisionOn returns the decision that counts for an attempt, which need not have
// begun: the one on itself, else one on an earlier attempt that is still open.
func (s *Store) DecisionOn(ctx context.Context, key trial.Key) (Decision, bool, error) {
	var d Decision
	err := s.query(ctx).one(d.scan, decisionColumns+` WHERE experiment = ? AND sequence = ?
		AND (attempt = ? OR attempt < ? AND outcome = '') ORDER BY outcome = '' DESC, attempt DESC LIMIT 1`,
		key.Experiment, key.Sequence, key.Attempt, key.Attempt)
	if errors.Is(err, sql.ErrNoRows) {
		return d, false, nil
	}
	return d, err == nil, classify(err)
}

func (q querier) decision(key trial.Key) (d Decision, known bool, err error) {
	err = q.one(d.scan, decisionColumns+ofAttempt, key.Experiment, key.Sequence, key.Attempt)
	if errors.Is(err, sql.ErrNoRows) {
		return d, false, nil
	}
	return d, err == nil, err
}

func (t *transaction) decide(c *course, d Decision) error {
	_, err := t.exec(`INSERT INTO decisions
		(experiment, sequence, attempt, id, cause, reason_code, reason_text, outcome) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (experiment, sequence, attempt) DO UPDATE SET id = excluded.id, cause = excluded.cause,
			reason_code = excluded.reason_code, reason_text = excluded.reason_text, outcome = excluded.outcome`,
		d.Key.Experiment, d.Key.Sequence, d.Key.Attempt, d.Decision.ID, string(d.Decision.Cause),
		d.Decision.Reason.Code, d.Decision.Reason.Text, d.Outcome)
	if err != nil {
		return err
	}
	if err := t.logValue(c.experiment, d.Key, trial.KindDecision, d.Decision); err != nil {
		return err
	}
	return t.save(c.experiment)
}

// OpenDecisions returns the decisions, of all experiments, that nobody has
// carried out yet.
func (s *Store) OpenDecisions(ctx context.Context) ([]Decision, error) {
	var open []Decision
	err := s.query(ctx).each(func(row scanner) error {
		var d Decision
		err := d.scan(row)
		open = append(open, d)
		return err
	}, decisionColumns+" WHERE outcome = '' AND "+s.ofMine()+" ORDER BY experiment, sequence, attempt")
	return open, classify(err)
}

// Settlement is how an attempt turned out and what that means for its trial.
type Settlement struct {
	Outcome     Outcome
	Ended       *trial.Ended       // the trial has ended for good
	Interrupted *trial.Interrupted // the trial was stopped with its experiment
	Reason      trial.Reason       // of the attempt
	// Decision is the outcome of the attempt's open decisions: CarriedOut or
	// TooLate. Empty, they stay open while the trial goes on, and are TooLate
	// where it does not.
	Decision string
}

// Settle stores an attempt's outcome in one commit with all that follows from it:
// its decisions' outcome, the trial's event and row, the experiment's counts and
// best. Attempt 0 is a trial that has no open one; ErrSuperseded if it has.
// Said again it changes nothing, a trial that has ended stays as it is, and an
// attempt that another has followed settles nothing.
func (s *Store) Settle(ctx context.Context, key trial.Key, settlement Settlement) error {
	return s.update(ctx, func(t *transaction) error {
		c, err := t.settling(key)
		if err != nil {
			return err
		}
		first, err := t.close(c, settlement)
		if err != nil || c.trial.settled || c.attempt != nil && !c.newest() {
			return err
		}
		return t.settleTrial(c, settlement, first)
	})
}

// settling is the course that a settlement is about.
func (t *transaction) settling(key trial.Key) (*course, error) {
	if key.Attempt > 0 {
		return t.course(key)
	}
	c, err := t.newestCourse(key)
	if err == nil && !c.trial.settled && c.decides() {
		return nil, ErrSuperseded
	}
	if err == nil {
		c.attempt = nil
	}
	return c, err
}

// close stores the outcome of the attempt, once, and says whether this was it.
func (t *transaction) close(c *course, s Settlement) (first bool, err error) {
	if c.attempt == nil {
		return true, nil
	}
	if c.attempt.Outcome != "" {
		return false, nil
	}
	if !s.Reason.Zero() {
		c.attempt.Reason = s.Reason
	}
	key := c.attempt.Key
	_, err = t.exec("UPDATE attempts SET outcome = ?, reason_code = ?, reason_text = ?"+ofAttempt,
		string(s.Outcome), c.attempt.Reason.Code, c.attempt.Reason.Text, key.Experiment, key.Sequence, key.Attempt)
	return true, err
}

func (t *transaction) settleTrial(c *course, s Settlement, first bool) error {
	var err error
	switch {
	case s.Ended != nil:
		err = t.end(c, *s.Ended)
	case s.Interrupted != nil:
		if !first || !c.interruptible() {
			return nil
		}
		err = t.interrupt(c, *s.Interrupted)
	case first && c.attempt != nil:
		c.trial.State, c.trial.Reason = trial.Waiting, c.attempt.Reason
	}
	if err != nil {
		return err
	}
	if err := t.closeDecisions(c, s); err != nil {
		return err
	}
	return t.saveCourse(c)
}

// interruptible tells a first word from a repeated one. Without an attempt that
// would remember it, the trial does: it is interrupted already, or was resumed.
func (c *course) interruptible() bool {
	stopped := c.experiment.Status == Stopping || c.experiment.Status == Stopped
	return c.attempt != nil || (stopped || c.experiment.TimeOver()) && c.trial.State == trial.Waiting
}

func (t *transaction) end(c *course, ended trial.Ended) error {
	final, _, err := t.final(c.key())
	if err != nil {
		return err
	}
	n := c.trial
	n.State, n.settled, n.Reason, n.Ended, n.Value, n.Final = ended.State, true, ended.Reason, t.now, ended.Value, final.Value
	if c.attempt != nil && !c.attempt.Ended.IsZero() {
		n.Ended = c.attempt.Ended
	}
	if n.State == trial.Succeeded && n.Value != nil {
		c.experiment.improve(n.Sequence, *n.Value)
	}
	return t.logValue(c.experiment, c.key(), trial.KindEnded, ended)
}

func (t *transaction) interrupt(c *course, interrupted trial.Interrupted) error {
	if interrupted.Reason.Code == ReasonTimeOver {
		c.trial.State, c.trial.Reason = trial.Waiting, interrupted.Reason
	} else {
		interrupted.Reason.Code = ReasonStopped
		c.trial.State, c.trial.Reason, c.trial.Ended = trial.UserCanceled, interrupted.Reason, t.now
	}
	return t.logValue(c.experiment, c.key(), trial.KindInterrupted, interrupted)
}

// closeDecisions gives the trial's open decisions their outcome.
func (t *transaction) closeDecisions(c *course, s Settlement) error {
	outcome := s.Decision
	if outcome == "" && c.trial.State == trial.Waiting {
		return nil
	}
	if outcome == "" {
		outcome = TooLate
	}
	_, err := t.exec("UPDATE decisions SET outcome = ? WHERE experiment = ? AND sequence = ? AND outcome = ''",
		outcome, c.trial.Experiment, c.trial.Sequence)
	return err
}

// Faults counts the trial's newest attempts in a row that a platform failed and
// that brought no metric which an earlier attempt had not brought.
func (s *Store) Faults(ctx context.Context, experiment string, n int) (int, error) {
	faults, counting := 0, true
	err := s.query(ctx).each(func(row scanner) error {
		var vain bool
		err := row.Scan(&vain)
		if counting = counting && vain; counting {
			faults++
		}
		return err
	}, `SELECT outcome = 'fault' AND fresh = 0 FROM attempts
		WHERE experiment = ? AND sequence = ? ORDER BY attempt DESC`, experiment, n)
	return faults, classify(err)
}
