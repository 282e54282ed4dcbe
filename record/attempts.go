package record

import (
	"context"
	"encoding/json"
	"reflect"
	"time"

	"github.com/perennial-ml/perennial/trial"
)

// Phases as platforms name them, those on which a trial's state depends.
const (
	phaseRunning = "running"
	phaseExited  = "exited"
	phaseLost    = "lost"
)

const attemptColumns = `SELECT experiment, sequence, attempt, platform, handle, phase, reason_code, reason_text, exit,
	intent, output, cursor, drained, metrics, fresh, last_step, fed_before, outcome, submitted, started, ended FROM attempts`

const ofAttempt = " WHERE experiment = ? AND sequence = ? AND attempt = ?"

// attemptRow is an attempt with what only this package needs to know.
type attemptRow struct {
	Attempt
	fresh     int   // metrics that no earlier attempt had brought
	fedBefore int64 // highest step algorithms saw of earlier attempts
}

func (a *attemptRow) scan(row scanner) error {
	return row.Scan(&a.Key.Experiment, &a.Key.Sequence, &a.Key.Attempt, &a.Platform, raw(&a.Handle), &a.Phase,
		&a.Reason.Code, &a.Reason.Text, encoded{&a.Exit}, encoded{&a.Intent}, &a.Output, &a.Cursor, &a.Drained,
		&a.Metrics, &a.fresh, &a.LastStep, &a.fedBefore, &a.Outcome, instant{&a.Submitted}, instant{&a.Started},
		instant{&a.Ended})
}

// over tells whether the attempt is known to have ended; it never changes again.
func (a *attemptRow) over() bool { return a.Phase == phaseExited || a.Phase == phaseLost }

// Attempt returns an attempt, or ErrNotFound.
func (s *Store) Attempt(ctx context.Context, key trial.Key) (Attempt, error) {
	a, err := s.query(ctx).attempt(key)
	return a.Attempt, err
}

func (q querier) attempt(key trial.Key) (*attemptRow, error) {
	a := &attemptRow{}
	err := q.one(a.scan, attemptColumns+ofAttempt, key.Experiment, key.Sequence, key.Attempt)
	return a, found(err, "%s", describe(key))
}

// Attempts returns the attempts at a trial by number.
func (s *Store) Attempts(ctx context.Context, experiment string, n int) ([]Attempt, error) {
	return s.query(ctx).attempts(" WHERE experiment = ? AND sequence = ? ORDER BY attempt", experiment, n)
}

// OpenAttempts returns the attempts on a platform, of all experiments, that have
// no outcome or of which metrics may still be to come.
func (s *Store) OpenAttempts(ctx context.Context, platform string) ([]Attempt, error) {
	return s.query(ctx).attempts(" WHERE platform = ? AND (outcome = '' OR drained = 0) AND "+s.ofMine(), platform)
}

// OpenByPlatform counts the same attempts, by platform.
func (s *Store) OpenByPlatform(ctx context.Context) (map[string]int, error) {
	open := map[string]int{}
	err := s.query(ctx).each(func(row scanner) error {
		var platform string
		var count int
		err := row.Scan(&platform, &count)
		open[platform] = count
		return err
	}, "SELECT platform, COUNT(*) FROM attempts WHERE (outcome = '' OR drained = 0) AND "+s.ofMine()+" GROUP BY platform")
	return open, classify(err)
}

func (q querier) attempts(where string, args ...any) ([]Attempt, error) {
	var all []Attempt
	err := q.each(func(row scanner) error {
		var a attemptRow
		err := a.scan(row)
		all = append(all, a.Attempt)
		return err
	}, attemptColumns+where, args...)
	return all, classify(err)
}

// course is an attempt with its trial and experiment, as one operation needs them.
type course struct {
	experiment *experimentRow
	trial      *trialRow
	attempt    *attemptRow // nil where it is about no attempt
	before     trial.State // of the trial
}

func (t *transaction) course(key trial.Key) (*course, error) {
	c, err := t.trialCourse(key)
	if err != nil {
		return nil, err
	}
	c.attempt, err = t.attempt(key)
	return c, err
}

func (t *transaction) trialCourse(key trial.Key) (*course, error) {
	e, err := t.experiment(key.Experiment)
	if err != nil {
		return nil, err
	}
	n, err := t.trial(key.Experiment, key.Sequence)
	if err != nil {
		return nil, err
	}
	return &course{experiment: e, trial: n, before: n.State}, nil
}

// newestCourse is the course of a trial's newest attempt, if it has any.
func (t *transaction) newestCourse(key trial.Key) (*course, error) {
	c, err := t.trialCourse(key)
	if err != nil || c.trial.Attempts == 0 {
		return c, err
	}
	c.attempt, err = t.attempt(c.key())
	return c, err
}

// current is the number of the open attempt, or of the next where none is open.
func (c *course) current() int {
	if c.attempt != nil && c.attempt.Outcome == "" {
		return c.trial.Attempts
	}
	return c.trial.Attempts + 1
}

// key names the trial's newest attempt.
func (c *course) key() trial.Key {
	return trial.Key{Experiment: c.trial.Experiment, Sequence: c.trial.Sequence, Attempt: c.trial.Attempts}
}

// decides tells whether the trial's state follows from this attempt.
func (c *course) decides() bool {
	return !c.trial.settled && c.attempt != nil && c.attempt.Outcome == "" && c.newest()
}

func (c *course) newest() bool { return c.attempt.Key.Attempt == c.trial.Attempts }

func (t *transaction) saveCourse(c *course) error {
	if err := t.saveTrial(c.experiment, c.trial, c.before); err != nil {
		return err
	}
	c.before = c.trial.State
	return t.save(c.experiment)
}

// begun is BeginAttempt's answer: an attempt, and perhaps why it must not go on.
type begun struct {
	attempt Attempt
	refusal error
}

// BeginAttempt returns the trial's open attempt, or else makes the next one. It
// refuses where nothing may be launched: ErrSettled, ErrTimeOver where the trial
// has not begun, ErrStopping, or ErrDecided while a decision to end the trial is
// open; with the last two it returns the open attempt too, if there is one.
func (s *Store) BeginAttempt(ctx context.Context, experiment string, n int, platform string) (Attempt, error) {
	answer, err := change(ctx, s, func(t *transaction) (begun, error) {
		c, err := t.newestCourse(trial.Key{Experiment: experiment, Sequence: n})
		if err != nil {
			return begun{}, err
		}
		return t.begin(c, platform)
	})
	if err != nil {
		return Attempt{}, err
	}
	return answer.attempt, answer.refusal
}

func (t *transaction) begin(c *course, platform string) (begun, error) {
	if c.trial.settled {
		return begun{refusal: ErrSettled}, nil
	}
	refusal, err := t.refusal(c)
	if err != nil {
		return begun{}, err
	}
	switch {
	case c.decides():
		return begun{c.attempt.Attempt, refusal}, nil
	case refusal != nil:
		return begun{refusal: refusal}, nil
	case c.experiment.TimeOver() && !c.begun():
		return begun{refusal: ErrTimeOver}, nil
	}
	return t.nextAttempt(c, platform)
}

// begun tells whether the trial has begun and goes on after a platform's fault. One
// that was interrupted begins anew.
func (c *course) begun() bool { return c.attempt != nil && c.attempt.Outcome != OutcomeInterrupted }

func (t *transaction) refusal(c *course) (error, error) {
	if c.experiment.Status == Stopping || c.experiment.Status == Stopped {
		return ErrStopping, nil
	}
	var decided bool
	err := t.one(into(&decided), `SELECT EXISTS (SELECT 1 FROM decisions
		WHERE experiment = ? AND sequence = ? AND outcome = '')`, c.trial.Experiment, c.trial.Sequence)
	if decided {
		return ErrDecided, err
	}
	return nil, err
}

func (t *transaction) nextAttempt(c *course, platform string) (begun, error) {
	fedBefore := int64(-1)
	if c.attempt != nil {
		fedBefore = max(c.attempt.fedBefore, c.attempt.LastStep)
	}
	c.trial.Attempts++
	key := c.key()
	_, err := t.exec(`INSERT INTO attempts (experiment, sequence, attempt, platform, fed_before, submitted)
		VALUES (?, ?, ?, ?, ?, ?)`, key.Experiment, key.Sequence, key.Attempt, platform,
		fedBefore, nanoseconds(t.now))
	if err != nil {
		return begun{}, err
	}
	// What was decided about this attempt before it began, and carried out, was a
	// stop that has been resumed since.
	_, err = t.exec("DELETE FROM decisions"+ofAttempt, key.Experiment, key.Sequence, key.Attempt)
	if err != nil {
		return begun{}, err
	}
	c.trial.State, c.trial.Started = trial.Waiting, time.Time{}
	if err := t.saveCourse(c); err != nil {
		return begun{}, err
	}
	a, err := t.attempt(key)
	return begun{attempt: a.Attempt}, err
}

// SetHandle stores with what the platform finds the attempt again.
func (s *Store) SetHandle(ctx context.Context, key trial.Key, handle json.RawMessage) error {
	return s.update(ctx, func(t *transaction) error {
		changed, err := t.exec("UPDATE attempts SET handle = ?"+ofAttempt,
			textOrNull(handle), key.Experiment, key.Sequence, key.Attempt)
		if err == nil && changed == 0 {
			_, err = t.attempt(key)
		}
		return err
	})
}

// SubmitFailed stores why the attempt, and its trial with it, still waits.
func (s *Store) SubmitFailed(ctx context.Context, key trial.Key, reason trial.Reason) error {
	a, err := s.Attempt(ctx, key)
	if err != nil {
		return err
	}
	return s.Observe(ctx, key, a.with(reason))
}

// with is what was observed of the attempt last, with another reason.
func (a Attempt) with(reason trial.Reason) Observation {
	o := a.Observed()
	o.Reason = reason
	return o
}

// Observed is what was observed of the attempt last.
func (a Attempt) Observed() Observation {
	return Observation{Phase: a.Phase, Reason: a.Reason, Exit: a.Exit, Intent: a.Intent, Output: a.Output,
		Started: a.Started, Ended: a.Ended, Drained: a.Drained}
}

// Observe stores what a poll says about an attempt, if it says anything new; the
// trial's state, reason and start follow from it while the attempt is open and
// its newest. Once an attempt has exited or was lost, only Drained can change, and until
// then the reason why it is not.
func (s *Store) Observe(ctx context.Context, key trial.Key, o Observation) error {
	a, err := s.query(ctx).attempt(key)
	if err != nil || !a.learns(o) {
		return err
	}
	return s.update(ctx, func(t *transaction) error {
		c, err := t.course(key)
		if err != nil || !c.attempt.learns(o) {
			return err
		}
		return t.observe(c, o)
	})
}

// learns tells whether the observation says anything new.
func (a *attemptRow) learns(o Observation) bool {
	if a.over() {
		return !a.Drained && (o.Drained || o.Reason != a.Reason)
	}
	known := a.Observed()
	if !known.Started.Equal(o.Started) || !known.Ended.Equal(o.Ended) {
		return true
	}
	known.Started, known.Ended = o.Started, o.Ended
	return !reflect.DeepEqual(known, o)
}

func (t *transaction) observe(c *course, o Observation) error {
	if c.attempt.over() {
		drained, reason := o.Drained, o.Reason
		o = c.attempt.Observed()
		o.Drained, o.Reason = drained, reason
	}
	if c.attempt.Outcome != "" {
		o.Reason = c.attempt.Reason // why it turned out so
	}
	if err := t.saveObservation(c.attempt.Key, o); err != nil || !c.decides() {
		return err
	}
	c.trial.State = stateIn(o)
	if !o.Started.IsZero() {
		c.trial.Started = o.Started
	}
	if err := t.explainTrial(c, o.Reason); err != nil {
		return err
	}
	return t.saveCourse(c)
}

func (t *transaction) saveObservation(key trial.Key, o Observation) error {
	exit, err := encode(o.Exit)
	if err != nil {
		return err
	}
	intent, err := encode(o.Intent)
	if err != nil {
		return err
	}
	_, err = t.exec(`UPDATE attempts SET phase = ?, reason_code = ?, reason_text = ?, exit = ?, intent = ?,
		output = ?, started = ?, ended = ?, drained = ?`+ofAttempt, o.Phase, o.Reason.Code, o.Reason.Text,
		exit, intent, o.Output, nanoseconds(o.Started), nanoseconds(o.Ended), o.Drained,
		key.Experiment, key.Sequence, key.Attempt)
	return err
}

// stateIn is the state of a trial whose newest attempt is observed so. An attempt
// that is over still runs for its trial until that is settled.
func stateIn(o Observation) trial.State {
	if o.Phase == phaseRunning || o.Phase == phaseExited || !o.Started.IsZero() {
		return trial.Running
	}
	return trial.Waiting
}

// explainTrial gives the trial its attempt's reason; where that has none, why
// the attempt before it failed.
func (t *transaction) explainTrial(c *course, reason trial.Reason) error {
	c.trial.Reason = reason
	key := c.attempt.Key
	if key.Attempt--; !reason.Zero() || key.Attempt == 0 {
		return nil
	}
	last, err := t.attempt(key)
	if err == nil && last.Outcome == OutcomeFault {
		c.trial.Reason = last.Reason
	}
	return err
}
