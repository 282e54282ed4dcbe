package record

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/trial"
)

// number gives the next event of the experiment its number and says who must
// hear of it. The row is saved by the caller.
func (t *transaction) number(e *experimentRow, kind trial.Kind) int64 {
	e.LastEvent++
	t.wakes[e.ID] |= wakeLog
	switch kind {
	case trial.KindCommand, trial.KindEnded, trial.KindInterrupted, trial.KindUndriven, trial.KindRecovered:
		t.wakes[e.ID] |= wakeNews
	}
	return e.LastEvent
}

// log appends an event; data of an asked event is in its trial's row. command is
// the id of a command, nil otherwise.
func (t *transaction) log(e *experimentRow, event trial.Event, command any) (trial.Event, error) {
	event.Number = t.number(e, event.Kind)
	event.Time = t.now
	data := textOrNull(event.Data)
	if event.Kind == trial.KindAsked {
		data = nil
	}
	_, err := t.exec(`INSERT INTO events (experiment, number, kind, sequence, attempt, time, command, data)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, e.ID, event.Number, string(event.Kind), event.Sequence, event.Attempt,
		nanoseconds(event.Time), command, data)
	return event, err
}

// logValue logs an event whose data is the value.
func (t *transaction) logValue(e *experimentRow, key trial.Key, kind trial.Kind, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = t.log(e, trial.Event{Kind: kind, Sequence: key.Sequence, Attempt: key.Attempt, Data: data}, nil)
	return err
}

// Events returns at most limit events of an experiment's log after the numbered
// one, of all kinds, in order. A limit of 0 or less is none.
func (s *Store) Events(ctx context.Context, experiment string, after int64, limit int) ([]trial.Event, error) {
	if limit <= 0 {
		limit = math.MaxInt64
	}
	var events []trial.Event
	err := s.query(ctx).each(func(row scanner) error {
		event, err := scanEvent(row)
		events = append(events, event)
		return err
	}, `SELECT number, kind, e.sequence, attempt, time, data, parameters, parameter_id, source, NULL, NULL
			FROM events e LEFT JOIN trials t ON t.experiment = e.experiment AND t.sequence = e.sequence AND t.event = e.number
			WHERE e.experiment = ? AND number > ?
		UNION ALL
		SELECT event, 'intermediate', sequence, attempt, time, NULL, NULL, NULL, NULL, step, value
			FROM metrics WHERE experiment = ? AND event > ?
		ORDER BY 1 LIMIT ?`, experiment, after, experiment, after, limit)
	return events, classify(err)
}

func scanEvent(row scanner) (trial.Event, error) {
	var event trial.Event
	var asked trial.Asked
	var source, value *string
	var step *int64
	err := row.Scan(&event.Number, &event.Kind, &event.Sequence, &event.Attempt, instant{&event.Time},
		raw(&event.Data), raw(&asked.Parameters), raw(&asked.ParameterID), &source, &step, &value)
	if err != nil {
		return event, err
	}
	switch event.Kind {
	case trial.KindAsked:
		asked.Source = *source
		event.Data, err = json.Marshal(asked)
	case trial.KindIntermediate:
		event.Data, err = json.Marshal(intermediate(*step, *value))
	}
	return event, err
}

func intermediate(step int64, value string) trial.Intermediate {
	metric := metrics.Record{Value: value}
	number, finite := metric.Default()
	if !finite {
		return trial.Intermediate{Step: step}
	}
	return trial.Intermediate{Step: step, Value: &number, Metric: metric.Object()}
}

// News returns the first events after the numbered one, at most limit, that an
// experiment's workflow reads, in order: command, ended, interrupted, undriven and
// asked. It leaves out what may be large: the data of asks, and the value of commands
// that bring a configuration, a search space or parameters.
func (s *Store) News(ctx context.Context, experiment string, after int64, limit int) ([]trial.Event, error) {
	var news []trial.Event
	err := s.query(ctx).each(func(row scanner) error {
		var event trial.Event
		err := row.Scan(&event.Number, &event.Kind, &event.Sequence, &event.Attempt, instant{&event.Time}, raw(&event.Data))
		if err == nil {
			err = lighten(&event)
		}
		news = append(news, event)
		return err
	}, `SELECT number, kind, sequence, attempt, time, data FROM events
		WHERE experiment = ? AND number > ? AND kind <> 'decision' ORDER BY number LIMIT ?`, experiment, after, limit)
	return news, classify(err)
}

// ResumedLast tells whether the last word on whether the experiment shall go on, stop
// or resume, was resume; false where there was none. It reads the log from its end.
func (s *Store) ResumedLast(ctx context.Context, experiment string) (resumed bool, err error) {
	err = s.query(ctx).one(into(&resumed), `SELECT data ->> 'name' = ? FROM events
		WHERE experiment = ? AND command IS NOT NULL AND data ->> 'name' IN (?, ?) ORDER BY number DESC LIMIT 1`,
		trial.Resume, experiment, trial.Stop, trial.Resume)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return resumed, classify(err)
}

func lighten(event *trial.Event) error {
	if event.Kind != trial.KindCommand {
		return nil
	}
	var command trial.Command
	if err := json.Unmarshal(event.Data, &command); err != nil {
		return err
	}
	switch command.Name {
	case trial.Accept, trial.SetSearchSpace, trial.AddTrial:
		command.Value = nil
	}
	data, err := json.Marshal(command)
	event.Data = data
	return err
}

func (q querier) unread(experiment string, after int64) (bool, error) {
	var unread bool
	err := q.one(into(&unread), `SELECT EXISTS (SELECT 1 FROM events
		WHERE experiment = ? AND number > ? AND kind <> 'decision')`, experiment, after)
	return unread, err
}

// Append adds a command or an undriven event to an experiment's log and applies
// it to the experiment in the same commit. A command whose id is on record
// already changes nothing and returns the first one's event. Accept makes the
// experiment. The errors are ErrNotFound for an experiment or trial that is not
// there, and *RejectedError for a command that makes no sense.
func (s *Store) Append(ctx context.Context, experiment string, event trial.Event) (trial.Event, error) {
	return change(ctx, s, func(t *transaction) (trial.Event, error) {
		switch event.Kind {
		case trial.KindCommand:
			return t.command(experiment, event)
		case trial.KindUndriven:
			return t.undriven(experiment, event)
		}
		return trial.Event{}, rejected("events of kind %q are not appended by hand", event.Kind)
	})
}

func (t *transaction) undriven(experiment string, event trial.Event) (trial.Event, error) {
	e, err := t.experiment(experiment)
	if err != nil {
		return trial.Event{}, err
	}
	row, err := t.trial(experiment, event.Sequence)
	if err != nil {
		return trial.Event{}, err
	}
	if row.settled {
		return trial.Event{}, ErrSettled
	}
	event.Data = nil
	event, err = t.log(e, event, nil)
	if err != nil {
		return trial.Event{}, err
	}
	return event, t.save(e)
}

// Ask is a trial that an algorithm wants to run.
type Ask struct {
	Sequence int
	Asked    trial.Asked
}

// Ask makes trials, all in one commit, and returns their asked events in the
// given order. A trial that is on record already keeps what it has, and its event
// is returned. A sequence number beyond the next one is a *RejectedError; a new trial
// for an experiment that does not run, or shall end, is ErrStopping, for one whose
// time is over ErrTimeOver.
func (s *Store) Ask(ctx context.Context, experiment string, asks []Ask) ([]trial.Event, error) {
	return change(ctx, s, func(t *transaction) ([]trial.Event, error) {
		e, err := t.experiment(experiment)
		if err != nil {
			return nil, err
		}
		events := make([]trial.Event, len(asks))
		for i, ask := range asks {
			if events[i], err = t.askOnce(e, ask); err != nil {
				return nil, err
			}
		}
		return events, t.save(e)
	})
}

func (t *transaction) askOnce(e *experimentRow, ask Ask) (trial.Event, error) {
	switch {
	case ask.Sequence < 0 || ask.Sequence > e.Asked:
		return trial.Event{}, rejected("trial %d cannot be asked: the next is %d", ask.Sequence, e.Asked)
	case ask.Sequence < e.Asked && !slices.Contains(e.Vacant, ask.Sequence):
		return t.askedEvent(e.ID, ask.Sequence)
	case e.Status != Running, e.Ending:
		return trial.Event{}, ErrStopping
	case e.TimeOver():
		return trial.Event{}, ErrTimeOver
	}
	return t.ask(e, ask.Sequence, ask.Asked)
}

func (t *transaction) askedEvent(experiment string, sequence int) (event trial.Event, err error) {
	err = t.one(func(row scanner) error {
		event, err = scanEvent(row)
		return err
	}, `SELECT event, 'asked', sequence, 0, asked, NULL, parameters, parameter_id, source, NULL, NULL
		FROM trials WHERE experiment = ? AND sequence = ?`, experiment, sequence)
	return event, found(err, "trial %d of experiment %s", sequence, experiment)
}

// ask makes a trial: the experiment's next one, or one whose number is vacant.
func (t *transaction) ask(e *experimentRow, sequence int, asked trial.Asked) (trial.Event, error) {
	if asked.ParameterID == nil {
		asked.ParameterID = json.RawMessage("null")
	}
	data, err := json.Marshal(asked)
	if err != nil {
		return trial.Event{}, rejected("parameters: %v", err)
	}
	event, err := t.log(e, trial.Event{Kind: trial.KindAsked, Sequence: sequence, Data: data}, nil)
	if err != nil {
		return trial.Event{}, err
	}
	_, err = t.exec(`INSERT INTO trials (experiment, sequence, state, parameters, parameter_id, source, event, asked, attempts)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, (SELECT coalesce(max(attempt), 0) FROM attempts WHERE experiment = ? AND sequence = ?))`,
		e.ID, sequence, string(trial.Waiting), string(asked.Parameters), string(asked.ParameterID), asked.Source,
		event.Number, nanoseconds(event.Time), e.ID, sequence)
	e.occupy(sequence)
	e.move("", trial.Waiting, 1)
	return event, err
}

// seconds is a duration as commands and configurations carry it.
func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }
