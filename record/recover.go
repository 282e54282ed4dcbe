package record

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"

	"github.com/perennial-ml/perennial/trial"
)

// Place is a place in an experiment's log: an event's number, and when it was
// written, by which a log is known that went another way from a backup on. Number 0
// is the beginning; Stamp 0 is a place of which only the number is known.
type Place struct{ Number, Stamp int64 }

// PlaceOf returns the place of an event, the log's end if that comes before.
func (s *Store) PlaceOf(ctx context.Context, experiment string, number int64) (Place, error) {
	e, err := s.query(ctx).experiment(experiment)
	if err != nil {
		return Place{}, err
	}
	place := Place{Number: min(number, e.LastEvent)}
	place.Stamp, err = s.query(ctx).stamp(experiment, place.Number)
	return place, classify(err)
}

// stamp is when an event was written, 0 for one that is not in the table of events.
func (q querier) stamp(experiment string, number int64) (stamp int64, err error) {
	err = q.one(into(&stamp), "SELECT time FROM events WHERE experiment = ? AND number = ?", experiment, number)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return stamp, err
}

// matches returns ErrBehind where the log does not have what somebody has read.
func (t *transaction) matches(e *experimentRow, read Place) error {
	if read.Number > e.LastEvent {
		return ErrBehind
	}
	if read.Stamp == 0 {
		return nil
	}
	stamp, err := t.stamp(e.ID, read.Number)
	if err == nil && stamp != read.Stamp {
		return ErrBehind
	}
	return err
}

// Known is how far the record knows a trial.
type Known struct {
	Attempts   int
	Settled    bool
	Parameters trial.Parameters
}

// Known returns how far the record knows each trial of an experiment, by number.
func (s *Store) Known(ctx context.Context, experiment string) (map[int]Known, error) {
	known := map[int]Known{}
	err := s.query(ctx).each(func(row scanner) error {
		var n int
		var k Known
		err := row.Scan(&n, &k.Attempts, &k.Settled, raw(&k.Parameters))
		known[n] = k
		return err
	}, "SELECT sequence, attempts, settled, parameters FROM trials WHERE experiment = ?", experiment)
	return known, classify(err)
}

// Found is what was found on one platform that the record does not know.
type Found struct {
	// Trials are those that ran. An attempt of each is open from then on, Why there is
	// no handle of it yet: whatever the limits are now, it may be running.
	Trials []Ask
	Why    trial.Reason
	// Ended are attempts at trials that nobody knows any more, by their reasons. They
	// are over, and their numbers are not used again.
	Ended map[trial.Key]trial.Reason
	// Unread are numbers of trials that ran and cannot be asked about at present:
	// nothing else gets them.
	Unread []int
	// Unbegun are numbers of trials that never ran: those that were kept are free.
	Unbegun  []int
	Platform string
	Event    trial.Recovered
}

// TakeIn makes the record know what was found, whatever the experiment's status, and
// logs the event unless it says nothing. Numbers that come free so, since no run has
// them, are asked next. Trials that are known stay as they are.
func (s *Store) TakeIn(ctx context.Context, experiment string, found Found) error {
	return s.update(ctx, func(t *transaction) error {
		e, err := t.experiment(experiment)
		if err != nil {
			return err
		}
		if !t.reserve(e, found.Unread) {
			found.Event.Unread = nil // that is on record
		}
		for key, reason := range found.Ended {
			if err := t.bury(e, key, found.Platform, reason); err != nil {
				return err
			}
		}
		if found.Event.TakenIn, err = t.takeIn(e, found); err != nil {
			return err
		}
		if found.Event.Freed, err = t.free(e, found.Unbegun); err != nil {
			return err
		}
		if err := t.logRecovered(e, found.Event, nil); err != nil {
			return err
		}
		return t.save(e)
	})
}

// reserve gives numbers to trials that are still to be taken in, and tells whether one
// of them is new.
func (t *transaction) reserve(e *experimentRow, numbers []int) (news bool) {
	for _, n := range numbers {
		news = news || n >= e.Asked || slices.Contains(e.Vacant, n)
		e.occupy(n)
	}
	return news
}

// free gives back numbers that were kept for trials which turned out never to have run,
// and counts them.
func (t *transaction) free(e *experimentRow, numbers []int) (count int, err error) {
	for _, n := range numbers {
		_, err := t.trial(e.ID, n)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return count, err
		}
		if err != nil && e.vacate(n) {
			count++
		}
	}
	return count, nil
}

// takeIn asks the trials that are not known, and counts them.
func (t *transaction) takeIn(e *experimentRow, found Found) (count int, err error) {
	for _, ask := range found.Trials {
		_, err := t.trial(e.ID, ask.Sequence)
		if err == nil {
			continue
		}
		if !errors.Is(err, ErrNotFound) {
			return count, err
		}
		if _, err := t.ask(e, ask.Sequence, ask.Asked); err != nil {
			return count, err
		}
		if err := t.adopt(e, ask.Sequence, found); err != nil {
			return count, err
		}
		count++
	}
	return count, nil
}

// adopt opens the attempt that a trial has run with.
func (t *transaction) adopt(e *experimentRow, sequence int, found Found) error {
	row, err := t.trial(e.ID, sequence)
	if err != nil {
		return err
	}
	opened, err := t.nextAttempt(&course{experiment: e, trial: row, before: row.State}, found.Platform)
	if err != nil {
		return err
	}
	o := opened.attempt.with(found.Why)
	return t.saveObservation(opened.attempt.Key, o)
}

// bury makes an attempt known as one that its platform has failed.
func (t *transaction) bury(e *experimentRow, key trial.Key, platform string, reason trial.Reason) error {
	_, err := t.exec(`INSERT INTO attempts (experiment, sequence, attempt, platform, phase, reason_code, reason_text,
		outcome, drained, submitted, ended) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?) ON CONFLICT DO NOTHING`,
		key.Experiment, key.Sequence, key.Attempt, platform, phaseLost, reason.Code, reason.Text,
		string(OutcomeFault), nanoseconds(t.now), nanoseconds(t.now))
	if err != nil {
		return err
	}
	known, err := t.exec("UPDATE trials SET attempts = max(attempts, ?) WHERE experiment = ? AND sequence = ?",
		key.Attempt, e.ID, key.Sequence)
	if known == 0 {
		e.vacate(key.Sequence)
	}
	return err
}

// Disown gives up an attempt under whose number a run was found that was given other
// parameters, and names that run among those that are ended. What it reports is
// nobody's.
func (s *Store) Disown(ctx context.Context, key trial.Key, run string, reason trial.Reason) error {
	return s.update(ctx, func(t *transaction) error {
		c, err := t.course(key)
		if err != nil || c.attempt.Outcome != "" || c.attempt.over() {
			return err
		}
		o := c.attempt.with(reason)
		o.Phase, o.Drained = phaseLost, true
		if err := t.observe(c, o); err != nil {
			return err
		}
		if err := t.logRecovered(c.experiment, trial.Recovered{Ended: []string{run}}, nil); err != nil {
			return err
		}
		return t.save(c.experiment)
	})
}

// logRecovered logs what was learned, once for an id, and wakes the experiment.
func (t *transaction) logRecovered(e *experimentRow, learned trial.Recovered, id any) error {
	if learned.TakenIn == 0 && learned.Freed == 0 && len(learned.Ended) == 0 && len(learned.Unread) == 0 && !learned.Behind {
		return nil
	}
	data, err := json.Marshal(learned)
	if err != nil {
		return err
	}
	_, err = t.log(e, trial.Event{Kind: trial.KindRecovered, Sequence: trial.NoTrial, Data: data}, id)
	return err
}

// NoteBehind logs, once for an id, that a workflow had read further than the log
// goes, and knew of so many trials; it counts those that nothing is known of.
func (s *Store) NoteBehind(ctx context.Context, experiment, id string, asked int) error {
	return s.update(ctx, func(t *transaction) error {
		e, err := t.experiment(experiment)
		if err != nil {
			return err
		}
		if _, err := t.commandEvent(experiment, id); !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		learned := trial.Recovered{Behind: true, Missing: max(0, asked-e.Trials())}
		if err := t.logRecovered(e, learned, id); err != nil {
			return err
		}
		return t.save(e)
	})
}

// Recovered returns what the record has learned, as one that came from a backup, in
// the order in which it did.
func (s *Store) Recovered(ctx context.Context, experiment string) ([]trial.Recovered, error) {
	var all []trial.Recovered
	err := s.query(ctx).each(func(row scanner) error {
		var learned trial.Recovered
		err := row.Scan(encoded{&learned})
		all = append(all, learned)
		return err
	}, "SELECT data FROM events WHERE experiment = ? AND kind = ? ORDER BY number", experiment, string(trial.KindRecovered))
	return all, classify(err)
}

// occupy gives a number to a trial. What lies between it and the last one is vacant.
func (e *experimentRow) occupy(sequence int) {
	for ; e.Asked < sequence; e.Asked++ {
		e.Vacant = append(e.Vacant, e.Asked)
	}
	if e.Asked == sequence {
		e.Asked++
		return
	}
	e.Vacant = slices.DeleteFunc(e.Vacant, func(n int) bool { return n == sequence })
}

// vacate has a number that was given away, and that no trial has, asked next. It tells
// whether that is new.
func (e *experimentRow) vacate(sequence int) (news bool) {
	if sequence >= e.Asked || slices.Contains(e.Vacant, sequence) {
		return false
	}
	e.Vacant = append(e.Vacant, sequence)
	return true
}
