package record

import (
	"context"
	"database/sql"
	"errors"
	"iter"

	"github.com/perennial-ml/perennial/trial"
)

const trialColumns = `SELECT experiment, sequence, state, settled, reason_code, reason_text, parameters, parameter_id,
	source, attempts, asked, started, ended, value, final FROM trials`

// trialRow is a trial with what only this package needs to know.
type trialRow struct {
	Trial
	settled bool
}

func (n *trialRow) scan(row scanner) error {
	err := row.Scan(&n.Experiment, &n.Sequence, &n.State, &n.settled, &n.Reason.Code, &n.Reason.Text,
		raw(&n.Parameters), raw(&n.ParameterID), &n.Source, &n.Attempts, instant{&n.Asked}, instant{&n.Started},
		instant{&n.Ended}, &n.Value, &n.Final)
	n.ID = trial.ID(n.Experiment, n.Sequence)
	return err
}

// Trial returns a trial, or ErrNotFound.
func (s *Store) Trial(ctx context.Context, experiment string, n int) (Trial, error) {
	row, err := s.query(ctx).trial(experiment, n)
	return row.Trial, err
}

func (q querier) trial(experiment string, n int) (*trialRow, error) {
	row := &trialRow{}
	err := q.one(row.scan, trialColumns+" WHERE experiment = ? AND sequence = ?", experiment, n)
	return row, found(err, "trial %d of experiment %s", n, experiment)
}

// Trials returns an experiment's trials by sequence number.
func (s *Store) Trials(ctx context.Context, experiment string) ([]Trial, error) {
	return s.List(ctx, experiment, Listing{})
}

// trialsAtOnce is how many trials EachTrial has in memory.
const trialsAtOnce = 500

// EachTrial goes through an experiment's trials by sequence number, however many there
// are, at constant memory. It ends with the first error.
func (s *Store) EachTrial(ctx context.Context, experiment string) iter.Seq2[Trial, error] {
	return func(yield func(Trial, error) bool) {
		for next, more := 0, true; more; {
			var some []Trial
			err := s.query(ctx).each(func(row scanner) error {
				var n trialRow
				err := n.scan(row)
				some = append(some, n.Trial)
				return err
			}, trialColumns+" WHERE experiment = ? AND sequence >= ? ORDER BY sequence LIMIT ?", experiment, next, trialsAtOnce)
			if err != nil {
				yield(Trial{}, classify(err))
				return
			}
			for _, n := range some {
				if !yield(n, nil) {
					return
				}
				next = n.Sequence + 1
			}
			more = len(some) == trialsAtOnce
		}
	}
}

// Unsettled returns the sequence numbers of the trials that have not ended for
// good, in order.
func (s *Store) Unsettled(ctx context.Context, experiment string) ([]int, error) {
	return s.query(ctx).unsettled(experiment)
}

func (q querier) unsettled(experiment string) ([]int, error) {
	return q.sequences("SELECT sequence FROM trials WHERE experiment = ? AND settled = 0 ORDER BY sequence", experiment)
}

func (q querier) sequences(query string, args ...any) ([]int, error) {
	var all []int
	err := q.each(func(row scanner) error {
		var n int
		err := row.Scan(&n)
		all = append(all, n)
		return err
	}, query, args...)
	return all, classify(err)
}

// Attempted returns the sequence numbers of the trials that have not ended for good and
// have or had an attempt, in order.
func (s *Store) Attempted(ctx context.Context, experiment string) ([]int, error) {
	return s.query(ctx).sequences("SELECT sequence FROM trials WHERE experiment = ? AND settled = 0 AND attempts > 0 ORDER BY sequence", experiment)
}

// Live returns the trials that have not ended for good and have an open attempt.
func (s *Store) Live(ctx context.Context, experiment string) (map[int]bool, error) {
	live := map[int]bool{}
	err := s.query(ctx).each(func(row scanner) error {
		var n int
		err := row.Scan(&n)
		live[n] = true
		return err
	}, `SELECT t.sequence FROM trials t JOIN attempts a
		ON a.experiment = t.experiment AND a.sequence = t.sequence AND a.attempt = t.attempts
		WHERE t.experiment = ? AND t.settled = 0 AND a.outcome = ''`, experiment)
	return live, classify(err)
}

// Held returns the first of an experiment's trials that waits for a reason on record,
// and that; found is false where none does.
func (s *Store) Held(ctx context.Context, experiment string) (sequence int, reason trial.Reason, found bool, err error) {
	err = s.query(ctx).one(into(&sequence, &reason.Code, &reason.Text), `SELECT sequence, reason_code, reason_text FROM trials
		WHERE experiment = ? AND settled = 0 AND state = ? AND reason_code <> '' ORDER BY sequence LIMIT 1`,
		experiment, string(trial.Waiting))
	if errors.Is(err, sql.ErrNoRows) {
		return 0, reason, false, nil
	}
	return sequence, reason, err == nil, classify(err)
}

// saveTrial stores what can change of a trial, and counts it in its new state.
func (t *transaction) saveTrial(e *experimentRow, n *trialRow, before trial.State) error {
	t.wakes[e.ID] |= wakeRows
	if before != n.State {
		e.move(before, n.State, 1)
	}
	_, err := t.exec(`UPDATE trials SET state = ?, settled = ?, reason_code = ?, reason_text = ?, attempts = ?,
		started = ?, ended = ?, value = ?, final = ? WHERE experiment = ? AND sequence = ?`,
		string(n.State), n.settled, n.Reason.Code, n.Reason.Text, n.Attempts, nanoseconds(n.Started),
		nanoseconds(n.Ended), n.Value, n.Final, n.Experiment, n.Sequence)
	return err
}
