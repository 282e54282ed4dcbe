package record

import (
	"context"
	"database/sql"
	"errors"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/trial"
)

// Collect stores records of an attempt's journal together with the cursor behind
// them. Records that are there already change nothing. A PERIODICAL one enters
// the experiment's log if its attempt is the newest of a trial that has not
// ended, and its step is beyond what earlier attempts brought there.
func (s *Store) Collect(ctx context.Context, key trial.Key, records []metrics.Record, cursor string) error {
	err := s.update(ctx, func(t *transaction) error {
		c, err := t.course(key)
		if err != nil {
			return err
		}
		logged := c.experiment.LastEvent
		for _, record := range records {
			if err := t.collectOne(c, record); err != nil {
				return err
			}
		}
		if err := t.saveProgress(c.attempt, cursor); err != nil || logged == c.experiment.LastEvent {
			return err
		}
		return t.save(c.experiment)
	})
	if err == nil {
		noteLag(records)
	}
	return err
}

func (t *transaction) saveProgress(a *attemptRow, cursor string) error {
	_, err := t.exec("UPDATE attempts SET cursor = ?, metrics = ?, fresh = ?, last_step = ?"+ofAttempt,
		cursor, a.Metrics, a.fresh, a.LastStep, a.Key.Experiment, a.Key.Sequence, a.Key.Attempt)
	return err
}

func (t *transaction) collectOne(c *course, record metrics.Record) error {
	key := c.attempt.Key
	inserted, err := t.exec(`INSERT INTO metrics (experiment, sequence, attempt, number, kind, step, value, time)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, key.Experiment, key.Sequence, key.Attempt,
		record.Number, string(record.Kind), record.Step, record.Value, nanoseconds(record.Time))
	if err != nil || inserted == 0 {
		return err
	}
	c.attempt.Metrics++
	switch record.Kind {
	case metrics.Final:
		return t.collectFinal(c)
	case metrics.Periodical:
		return t.collectStep(c, record)
	}
	return nil
}

// collectFinal counts a FINAL that no earlier attempt brought. A trial that
// reports one and is ended from outside each time would else begin for ever.
func (t *transaction) collectFinal(c *course) error {
	var known bool
	key := c.attempt.Key
	err := t.one(into(&known), `SELECT EXISTS (SELECT 1 FROM metrics
		WHERE experiment = ? AND sequence = ? AND attempt < ? AND kind = 'FINAL')`, key.Experiment, key.Sequence, key.Attempt)
	if err == nil && !known {
		c.attempt.fresh++
	}
	return err
}

func (t *transaction) collectStep(c *course, record metrics.Record) error {
	c.attempt.LastStep = max(c.attempt.LastStep, record.Step)
	if record.Step <= c.attempt.fedBefore {
		return nil
	}
	c.attempt.fresh++
	if c.trial.settled || !c.newest() {
		return nil
	}
	key := c.attempt.Key
	_, err := t.exec("UPDATE metrics SET event = ?"+ofAttempt+" AND number = ?",
		t.number(c.experiment, trial.KindIntermediate), key.Experiment, key.Sequence, key.Attempt, record.Number)
	return err
}

const metricColumns = "SELECT experiment, sequence, attempt, number, kind, step, value, time FROM metrics"

func (m *Metric) scan(row scanner) error {
	return row.Scan(&m.Key.Experiment, &m.Key.Sequence, &m.Key.Attempt, &m.Number, &m.Kind, &m.Step, &m.Value,
		instant{&m.Time})
}

// Final returns the FINAL of an attempt that counts, its first; false where it
// has none.
func (s *Store) Final(ctx context.Context, key trial.Key) (Metric, bool, error) {
	return s.query(ctx).final(key)
}

func (q querier) final(key trial.Key) (Metric, bool, error) {
	var m Metric
	err := q.one(m.scan, metricColumns+ofAttempt+" AND kind = 'FINAL' ORDER BY number LIMIT 1",
		key.Experiment, key.Sequence, key.Attempt)
	if errors.Is(err, sql.ErrNoRows) {
		return m, false, nil
	}
	return m, err == nil, classify(err)
}

// Metrics returns what an attempt at a trial reported, in the journal's order.
// Attempt 0 is the deciding one, the newest.
func (s *Store) Metrics(ctx context.Context, experiment string, n, attempt int) ([]Metric, error) {
	if attempt == 0 {
		row, err := s.Trial(ctx, experiment, n)
		if err != nil {
			return nil, err
		}
		attempt = row.Attempts
	}
	var all []Metric
	err := s.query(ctx).each(func(row scanner) error {
		var m Metric
		err := m.scan(row)
		all = append(all, m)
		return err
	}, metricColumns+ofAttempt+" ORDER BY number", experiment, n, attempt)
	return all, classify(err)
}
