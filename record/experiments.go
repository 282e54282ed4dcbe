package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/perennial-ml/perennial/trial"
)

const experimentColumns = `id, name, status, reason_code, reason_text, paused, ending, exhausted, minimize,
	concurrency, max_trials, max_duration, driven, created, ended, asked, last_event, cursor, space_event,
	counts, best_sequence, best_value, vacant, tags`

const wholeExperiments = "SELECT " + experimentColumns + `, config, space, workspaces
	FROM experiments JOIN configurations ON experiment = id`

// experimentRow is an experiment with what only this package needs to know. Inside
// a transaction it comes without its configuration, which may be large.
type experimentRow struct {
	Experiment
	spaceEvent int64 // number of the newest set-search-space
}

func (e *experimentRow) scan(row scanner, more ...any) error {
	var bestSequence *int
	var bestValue *float64
	places := []any{&e.ID, &e.Name, &e.Status, &e.Reason.Code, &e.Reason.Text, &e.Paused, &e.Ending, &e.Exhausted,
		&e.Minimize, &e.Concurrency, &e.MaxTrials, &e.MaxDuration, &e.Driven, instant{&e.Created}, instant{&e.Ended},
		&e.Asked, &e.LastEvent, &e.Cursor, &e.spaceEvent, encoded{&e.Counts}, &bestSequence, &bestValue,
		encoded{&e.Vacant}, encoded{&e.Tags}}
	err := row.Scan(append(places, more...)...)
	if bestSequence != nil && bestValue != nil {
		e.Best = &Best{*bestSequence, trial.ID(e.ID, *bestSequence), *bestValue}
	}
	return err
}

func (e *experimentRow) scanWhole(row scanner) error {
	err := e.scan(row, raw(&e.Config), raw(&e.SearchSpace), encoded{&e.Workspaces})
	for i, workspace := range e.Workspaces {
		if string(workspace) == "null" {
			e.Workspaces[i] = nil
		}
	}
	return err
}

// Experiment returns an experiment, or ErrNotFound.
func (s *Store) Experiment(ctx context.Context, id string) (Experiment, error) {
	e := &experimentRow{}
	err := s.query(ctx).one(e.scanWhole, wholeExperiments+" WHERE id = ?", id)
	return e.Experiment, found(err, "experiment %s", id)
}

func (q querier) experiment(id string) (*experimentRow, error) {
	e := &experimentRow{}
	scan := func(row scanner) error { return e.scan(row) }
	err := q.one(scan, "SELECT "+experimentColumns+" FROM experiments WHERE id = ?", id)
	return e, found(err, "experiment %s", id)
}

// Experiments returns all experiments, the oldest first.
func (s *Store) Experiments(ctx context.Context) ([]Experiment, error) {
	var all []Experiment
	err := s.query(ctx).each(func(row scanner) error {
		var e experimentRow
		err := e.scanWhole(row)
		all = append(all, e.Experiment)
		return err
	}, wholeExperiments+" ORDER BY created, id")
	return all, classify(err)
}

// Active returns the ids of the experiments that are driven, or should be, the oldest
// first. It reads nothing of the others. Of a store that leads a share, these and those that
// Platforms, Leftover, Idle, OpenAttempts, OpenByPlatform, OpenDecisions and Removing tell of
// are that share's.
func (s *Store) Active(ctx context.Context) ([]string, error) {
	return s.query(ctx).ids("SELECT id FROM experiments WHERE "+s.mine()+" AND status IN (?, ?) ORDER BY created, id", Running, Stopping)
}

// Platforms returns the names of the platforms that experiments on record are
// configured for, whatever became of them.
func (s *Store) Platforms(ctx context.Context) (names []string, err error) {
	err = s.query(ctx).each(func(row scanner) error {
		var name string
		err := row.Scan(&name)
		names = append(names, name)
		return err
	}, fmt.Sprintf(s.platforms, s.mine()))
	return names, classify(err)
}

func (q querier) ids(query string, one, other Status) ([]string, error) {
	var ids []string
	err := q.each(func(row scanner) error {
		var id string
		err := row.Scan(&id)
		ids = append(ids, id)
		return err
	}, query, string(one), string(other))
	return ids, classify(err)
}

// Leftover returns the ids of the experiments that have come to an end, and of which a
// workspace is still there: its JSON has the state prepared or removing.
func (s *Store) Leftover(ctx context.Context) ([]string, error) {
	return s.query(ctx).ids(`SELECT id FROM experiments JOIN configurations ON experiment = id WHERE `+s.mine()+` AND status IN (?, ?)
		AND (workspaces LIKE '%"state":"prepared"%' OR workspaces LIKE '%"state":"removing"%') ORDER BY created, id`, Done, Stopped)
}

// Idle tells whether no experiment is active and none has anything on a platform that is
// still to be ended or removed.
func (s *Store) Idle(ctx context.Context) (bool, error) {
	active, err := s.Active(ctx)
	if err != nil || len(active) > 0 {
		return false, err
	}
	leftover, err := s.Leftover(ctx)
	if err != nil || len(leftover) > 0 {
		return false, err
	}
	var open bool
	err = s.query(ctx).one(into(&open), "SELECT EXISTS (SELECT 1 FROM attempts WHERE (outcome = '' OR drained = 0) AND "+s.ofMine()+")")
	return !open, classify(err)
}

// Pending tells whether an experiment has attempts without an outcome, or of which
// metrics may still be to come.
func (s *Store) Pending(ctx context.Context, experiment string) (pending bool, err error) {
	err = s.query(ctx).one(into(&pending), `SELECT EXISTS (SELECT 1 FROM attempts
		WHERE experiment = ? AND (outcome = '' OR drained = 0))`, experiment)
	return pending, classify(err)
}

// save stores all of the row but its name, tags, configuration and search space.
func (t *transaction) save(e *experimentRow) error {
	t.wakes[e.ID] |= wakeRows
	counts, err := json.Marshal(e.Counts)
	if err != nil {
		return err
	}
	vacant, err := json.Marshal(append([]int{}, e.Vacant...))
	if err != nil {
		return err
	}
	var bestSequence, bestValue any
	if e.Best != nil {
		bestSequence, bestValue = e.Best.Sequence, e.Best.Value
	}
	_, err = t.exec(`UPDATE experiments SET status = ?, reason_code = ?, reason_text = ?, paused = ?, ending = ?,
		exhausted = ?, concurrency = ?, max_trials = ?, max_duration = ?, driven = ?, ended = ?, asked = ?,
		last_event = ?, cursor = ?, space_event = ?, counts = ?, best_sequence = ?, best_value = ?, vacant = ? WHERE id = ?`,
		string(e.Status), e.Reason.Code, e.Reason.Text, e.Paused, e.Ending, e.Exhausted, e.Concurrency, e.MaxTrials,
		int64(e.MaxDuration), int64(e.Driven), nanoseconds(e.Ended), e.Asked, e.LastEvent, e.Cursor, e.spaceEvent,
		string(counts), bestSequence, bestValue, string(vacant), e.ID)
	return err
}

// edit changes an experiment's row.
func (s *Store) edit(ctx context.Context, id string, change func(*experimentRow)) error {
	return s.update(ctx, func(t *transaction) error {
		e, err := t.experiment(id)
		if err != nil {
			return err
		}
		change(e)
		return t.save(e)
	})
}

// SetCursor stores how far the experiment's workflow has read. It never goes back.
// ErrBehind, and nothing is stored, where the log does not have what was read.
func (s *Store) SetCursor(ctx context.Context, experiment string, read Place) error {
	return s.update(ctx, func(t *transaction) error {
		e, err := t.experiment(experiment)
		if err == nil {
			err = t.matches(e, read)
		}
		if err != nil {
			return err
		}
		e.Cursor = max(min(e.Cursor, e.LastEvent), read.Number)
		return t.save(e)
	})
}

// AddDriven adds to the time an experiment was driven and returns the sum. When
// that is all it may have, trials that have not begun are told why they wait.
func (s *Store) AddDriven(ctx context.Context, experiment string, d time.Duration) (time.Duration, error) {
	return change(ctx, s, func(t *transaction) (time.Duration, error) {
		e, err := t.experiment(experiment)
		if err != nil {
			return 0, err
		}
		before := e.TimeOver()
		e.Driven += d
		if e.TimeOver() != before {
			err = t.explainTime(e)
		}
		return e.Driven, errors.Join(err, t.save(e))
	})
}

// SetExhausted stores that the tuner, having seen the log up to the event
// numbered seen, will never propose again. A search space set after that event
// makes it say nothing.
func (s *Store) SetExhausted(ctx context.Context, experiment string, seen int64) error {
	return s.edit(ctx, experiment, func(e *experimentRow) {
		e.Exhausted = e.Exhausted || e.spaceEvent <= seen
	})
}

// SetWorkspace stores where a platform, by its place in the configuration, keeps
// the experiment's code.
func (s *Store) SetWorkspace(ctx context.Context, experiment string, index int, workspace json.RawMessage) error {
	return s.update(ctx, func(t *transaction) error {
		var all []json.RawMessage
		err := t.one(into(encoded{&all}), "SELECT workspaces FROM configurations WHERE experiment = ?", experiment)
		if err != nil {
			return found(err, "experiment %s", experiment)
		}
		for len(all) <= index {
			all = append(all, nil)
		}
		all[index] = workspace
		text, err := json.Marshal(all)
		if err != nil {
			return err
		}
		_, err = t.exec("UPDATE configurations SET workspaces = ? WHERE experiment = ?", string(text), experiment)
		return err
	})
}

// SetReason stores why an experiment is as it is; the zero Reason clears it.
func (s *Store) SetReason(ctx context.Context, experiment string, reason trial.Reason) error {
	e, err := s.Experiment(ctx, experiment)
	if err != nil || e.Reason == reason {
		return err
	}
	return s.edit(ctx, experiment, func(e *experimentRow) { e.Reason = reason })
}

// Finish ends a drive with the state it came to: Done, Stopped, or Running where
// a resume overtook a stop. It returns false, and nothing has changed, if the log
// holds News after what was read; ErrBehind if it does not have that. What is neither
// running nor stopping stays as it is.
func (s *Store) Finish(ctx context.Context, experiment string, status Status, read Place) (bool, error) {
	return change(ctx, s, func(t *transaction) (bool, error) {
		e, err := t.experiment(experiment)
		if err == nil {
			err = t.matches(e, read)
		}
		if err != nil {
			return false, err
		}
		if unread, err := t.unread(experiment, read.Number); err != nil || unread {
			return false, err
		}
		if !e.Status.Active() {
			return true, nil
		}
		return true, t.finish(e, status, read.Number)
	})
}

func (t *transaction) finish(e *experimentRow, status Status, cursor int64) error {
	e.Cursor = max(e.Cursor, cursor)
	if status == Running {
		if err := t.reopen(e); err != nil {
			return err
		}
		return t.save(e)
	}
	e.Status, e.Ended, e.Ending, e.Reason = status, t.now, false, e.whyOver(status)
	return t.save(e)
}

// whyOver explains an end that its limits do not.
func (e *experimentRow) whyOver(status Status) trial.Reason {
	if status != Done || e.Ending || !e.Exhausted || e.MaxTrials > 0 && e.Asked >= e.MaxTrials {
		return trial.Reason{}
	}
	return trial.Reason{Code: "exhausted", Text: "the tuner has tried all that the search space holds"}
}

// reopen makes an experiment run again, and its interrupted trials wait.
func (t *transaction) reopen(e *experimentRow) error {
	e.Status, e.Ending, e.Reason = Running, false, trial.Reason{}
	waiting, err := t.exec(`UPDATE trials SET state = ?, reason_code = '', reason_text = '', started = 0, ended = 0
		WHERE experiment = ? AND settled = 0 AND state = ?`,
		string(trial.Waiting), e.ID, string(trial.UserCanceled))
	e.move(trial.UserCanceled, trial.Waiting, int(waiting))
	return errors.Join(err, t.explainTime(e))
}

// explainTime says of the trials that have not begun that the experiment's time is
// over, or takes that back.
func (t *transaction) explainTime(e *experimentRow) error {
	var reason trial.Reason
	known := ReasonTimeOver
	if e.TimeOver() {
		reason, known = TimeOver(), ""
	}
	_, err := t.exec(`UPDATE trials SET reason_code = ?, reason_text = ?
		WHERE experiment = ? AND settled = 0 AND state = ? AND reason_code = ? AND NOT EXISTS (SELECT 1 FROM attempts a
			WHERE a.experiment = trials.experiment AND a.sequence = trials.sequence AND a.outcome = '')`,
		reason.Code, reason.Text, e.ID, string(trial.Waiting), known)
	return err
}

// move counts n trials out of one state into another; an empty state is nowhere.
func (e *experimentRow) move(from, to trial.State, n int) {
	if e.Counts == nil {
		e.Counts = map[trial.State]int{}
	}
	if from != "" {
		e.Counts[from] -= n
	}
	if to != "" {
		e.Counts[to] += n
	}
}

// improve keeps the better of the best result so far and a new one.
func (e *experimentRow) improve(sequence int, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	if e.Best != nil && (value == e.Best.Value || e.Minimize == (value > e.Best.Value)) {
		return
	}
	e.Best = &Best{sequence, trial.ID(e.ID, sequence), value}
}
