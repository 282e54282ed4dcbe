package record

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/trial"
)

func rejected(format string, args ...any) error {
	return &RejectedError{fmt.Sprintf(format, args...)}
}

func (t *transaction) command(experiment string, event trial.Event) (trial.Event, error) {
	var command trial.Command
	if err := json.Unmarshal(event.Data, &command); err != nil {
		return trial.Event{}, rejected("this is no command: %v", err)
	}
	if command.ID == "" {
		return trial.Event{}, rejected("%q has no id", command.Name)
	}
	first, err := t.commandEvent(experiment, command.ID)
	if !errors.Is(err, sql.ErrNoRows) {
		return first, err
	}
	e, err := t.addressee(experiment, command)
	if err != nil {
		return trial.Event{}, err
	}
	return t.apply(e, event, command)
}

func (t *transaction) commandEvent(experiment, id string) (trial.Event, error) {
	var event trial.Event
	err := t.one(into(&event.Number, &event.Kind, &event.Sequence, &event.Attempt, instant{&event.Time}, raw(&event.Data)),
		`SELECT number, kind, sequence, attempt, time, data FROM events WHERE experiment = ? AND command = ?`, experiment, id)
	return event, err
}

// addressee returns the experiment a command is for, which accept makes first.
func (t *transaction) addressee(experiment string, command trial.Command) (*experimentRow, error) {
	e, err := t.experiment(experiment)
	if command.Name != trial.Accept {
		return e, err
	}
	if err == nil {
		return nil, rejected("experiment %s is accepted already", experiment)
	}
	if !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	if err := t.accept(experiment, command.Value); err != nil {
		return nil, err
	}
	return t.experiment(experiment)
}

// apply logs a command and does to the experiment what it says.
func (t *transaction) apply(e *experimentRow, event trial.Event, command trial.Command) (trial.Event, error) {
	event.Sequence, event.Attempt = trial.NoTrial, 0
	if e.Status == Removing && command.Name != trial.Remove {
		return trial.Event{}, rejected("it is being removed")
	}
	event, err := t.log(e, event, command.ID)
	if err != nil {
		return trial.Event{}, err
	}
	if err := t.obey(e, command); err != nil {
		return trial.Event{}, err
	}
	return event, t.save(e)
}

func (t *transaction) obey(e *experimentRow, command trial.Command) error {
	switch command.Name {
	case trial.Accept:
		return nil
	case trial.SetConcurrency:
		return wholeNumber(command, 1, func(n int64) { e.Concurrency = int(n) })
	case trial.Pause:
		e.Paused = true
	case trial.Resume:
		return t.resume(e)
	case trial.Stop:
		if e.Status.Active() {
			e.Status = Stopping
		}
	case trial.EarlyStopCommand:
		e.Ending = e.Status.Active()
	case trial.SetTags:
		return t.setTags(e, command.Value)
	case trial.Remove:
		return t.condemn(e, command)
	default:
		return t.extend(e, command)
	}
	return nil
}

// extend obeys the commands that give a finished experiment something to do.
func (t *transaction) extend(e *experimentRow, command trial.Command) error {
	var err error
	switch command.Name {
	case trial.SetMaxTrials:
		err = wholeNumber(command, 1, func(n int64) { e.MaxTrials = int(n) })
	case trial.SetMaxDuration:
		err = wholeNumber(command, 0, func(n int64) { e.MaxDuration = seconds(n) })
		err = errors.Join(err, t.explainTime(e))
	case trial.SetSearchSpace:
		err = t.setSearchSpace(e, command.Value)
	case trial.AddTrial:
		err = t.addTrial(e, command.Value)
	default:
		err = rejected("there is no command %q", command.Name)
	}
	if err == nil && e.Status == Done {
		err = t.reopen(e)
	}
	return err
}

func wholeNumber(command trial.Command, least int64, set func(int64)) error {
	var n int64
	if err := json.Unmarshal(command.Value, &n); err != nil || n < least || n > math.MaxInt64/int64(time.Second) {
		return rejected("%s takes a whole number, %d or more, not %s", command.Name, least, command.Value)
	}
	set(n)
	return nil
}

func (t *transaction) resume(e *experimentRow) error {
	e.Paused = false
	if e.Status.Active() {
		return nil
	}
	return t.reopen(e)
}

func (t *transaction) setSearchSpace(e *experimentRow, space json.RawMessage) error {
	if !isObject(space) {
		return rejected("a search space is an object")
	}
	e.Exhausted, e.spaceEvent = false, e.LastEvent
	_, err := t.exec("UPDATE configurations SET space = ? WHERE experiment = ?", string(space), e.ID)
	return err
}

func (t *transaction) setTags(e *experimentRow, value json.RawMessage) error {
	var change map[string]*string
	if err := json.Unmarshal(value, &change); err != nil || !isObject(value) {
		return rejected("tags are an object of strings, null for those that go")
	}
	after, err := e.Tags.With(change)
	if err != nil {
		return rejected("%v", err)
	}
	text, err := json.Marshal(after)
	if err != nil {
		return err
	}
	_, err = t.exec("UPDATE experiments SET tags = ? WHERE id = ?", string(text), e.ID)
	return err
}

func (t *transaction) addTrial(e *experimentRow, parameters json.RawMessage) error {
	if !isObject(parameters) {
		return rejected("the parameters of a trial are an object")
	}
	if e.TimeOver() {
		return rejected("the experiment's time is over, so the trial could not begin: first give it more with starter update max-duration")
	}
	_, err := t.ask(e, e.Asked, trial.Asked{Parameters: parameters, Source: trial.SourceCustomized})
	return err
}

func isObject(text json.RawMessage) bool {
	return json.Valid(text) && strings.HasPrefix(strings.TrimSpace(string(text)), "{")
}

// configuration is the part of an experiment's canonical form that the record
// itself must know.
type configuration struct {
	Name        string          `json:"experimentName"`
	SearchSpace json.RawMessage `json:"searchSpace"`
	Concurrency int             `json:"trialConcurrency"`
	MaxTrials   int             `json:"maxTrialNumber"`
	MaxDuration int64           `json:"maxExperimentDuration"` // seconds
	Tuner       struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"classArgs"`
	} `json:"tuner"`
}

// minimizes tells whether a smaller default metric is better: by the tuner's
// optimize_mode, else by its default in NNI. Arguments without one, or of a
// user's own shape, say nothing.
func (c configuration) minimizes() bool {
	var arguments struct {
		Mode string `json:"optimize_mode"`
	}
	json.Unmarshal(c.Tuner.Arguments, &arguments)
	if arguments.Mode != "" {
		return arguments.Mode == "minimize"
	}
	switch strings.ToLower(c.Tuner.Name) {
	case "tpe", "tpe_legacy", "anneal":
		return true
	}
	return false
}

// accept makes an experiment's row from its configuration.
func (t *transaction) accept(experiment string, config json.RawMessage) error {
	var c configuration
	if err := json.Unmarshal(config, &c); err != nil {
		return rejected("configuration: %v", err)
	}
	_, err := t.exec(`INSERT INTO experiments (id, share, name, status, minimize, concurrency, max_trials, max_duration, created)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`, experiment, t.share, c.Name, string(Running), c.minimizes(), c.Concurrency,
		c.MaxTrials, int64(seconds(c.MaxDuration)), nanoseconds(t.now))
	if err != nil {
		return err
	}
	_, err = t.exec("INSERT INTO configurations (experiment, config, space) VALUES (?, ?, ?)",
		experiment, string(config), string(c.SearchSpace))
	return err
}
