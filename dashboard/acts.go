package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/workflows"
)

// Commander gives people's wishes to workflows. Both verbs answer when what they ask is
// durable; a wish that makes no sense is a RefusedError.
type Commander interface {
	// Send appends a command to an experiment's log and returns its event's number. The
	// same Command.ID is the same command.
	Send(ctx context.Context, experiment string, command trial.Command) (int64, error)
	// End asks that one trial shall end.
	End(ctx context.Context, experiment string, sequence int, ending workflows.Ending) error
}

// RefusedError is a wish that makes no sense as things stand.
type RefusedError struct{ Text string }

func (e *RefusedError) Error() string { return e.Text }

// answerTime is how long a wish may take to become durable.
const answerTime = 20 * time.Second

func (s *server) registerActs(api huma.API) {
	post := func(id, path, summary, description string) huma.Operation {
		return huma.Operation{OperationID: id, Method: http.MethodPost, Path: APIPath + path, Summary: summary, Description: description,
			MaxBodyBytes: bodyLimit, Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusServiceUnavailable}}
	}
	huma.Register(api, post("command-experiment", "/experiments/{experiment}/commands", "Give an experiment a command",
		"The answer comes when the command is on record. A command with a key that was sent before is the same command and acts once."), s.command)
	huma.Register(api, post("end-trial", "/experiments/{experiment}/trials/{trial}/end", "End one trial",
		"The answer comes when that is durable. Of a trial that has ended it says so and does nothing."), s.end)
}

type commandInput struct {
	Experiment string `path:"experiment" maxLength:"20" doc:"its id"`
	Key        string `header:"Idempotency-Key" maxLength:"80" pattern:"^[A-Za-z0-9_-]*$" doc:"the caller's own, and new for each wish: sent again, it is the same wish"`
	Body       struct {
		Name  string          `json:"name" enum:"pause,resume,stop,early-stop,set-concurrency,set-max-trials,set-max-duration,add-trial,set-tags,remove"`
		Value json.RawMessage `json:"value,omitempty" doc:"a number for limits (of a duration: seconds, 0 for none), the parameters of a trial as an object; tags as an object of strings, null for those that go; of remove: {\"leaveRemote\": true} gives up what cannot be reached"`
		Force bool            `json:"force,omitempty" doc:"add a trial whose parameters do not lie in the search space"`
	}
}

type done struct {
	Body struct {
		Event   int64  `json:"event,omitempty" doc:"the number of the command in the event log"`
		State   string `json:"state,omitempty" doc:"of the trial, where it has ended already"`
		Command string `json:"command" doc:"what does the same in a terminal"`
	}
}

func (s *server) command(ctx context.Context, in *commandInput) (*done, error) {
	e, err := s.Store.Experiment(ctx, in.Experiment)
	if err != nil {
		return nil, problem(err)
	}
	wish := trial.Command{ID: keyOf(in.Key), Name: in.Body.Name, Value: in.Body.Value}
	if err := sensible(e, wish, in.Body.Force); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	number, err := s.Commander.Send(ctx, e.ID, wish)
	answer := &done{}
	answer.Body.Event, answer.Body.Command = number, asTyped(e.ID, wish)
	return answer, unheard(err)
}

// keyOf is the id of a command: the caller's key, apart from the ids that others give.
func keyOf(key string) string {
	if key == "" {
		key = trial.NewExperimentID() + trial.NewExperimentID()
	}
	return "api-" + key
}

// sensible refuses what the log would take and nobody can mean.
func sensible(e record.Experiment, wish trial.Command, force bool) error {
	switch wish.Name {
	case trial.Pause, trial.Stop, trial.EarlyStopCommand:
		if e.Status == record.Done || e.Status == record.Stopped {
			return huma.Error409Conflict(fmt.Sprintf("experiment %s is %s already", e.ID, e.Status))
		}
	case trial.Remove:
		if e.Status.Active() {
			return huma.Error409Conflict(fmt.Sprintf("experiment %s is %s: stop it first", e.ID, e.Status))
		}
	case trial.AddTrial:
		var config experiment.Experiment
		if err := json.Unmarshal(e.Config, &config); err != nil || force {
			return problem(err)
		}
		if lines := experiment.Strays(config.Tuner, e.SearchSpace, wish.Value); len(lines) > 0 {
			return huma.Error422UnprocessableEntity("the parameters do not lie in the search space: " + strings.Join(lines, "; "))
		}
	}
	return nil
}

// asTyped is the command line that says the same.
func asTyped(id string, wish trial.Command) string {
	switch wish.Name {
	case trial.EarlyStopCommand:
		return "starter stop " + id + " --early-stop"
	case trial.SetConcurrency, trial.SetMaxTrials, trial.SetMaxDuration:
		return fmt.Sprintf("starter update %s %s %s", strings.TrimPrefix(wish.Name, "set-"), id, wish.Value)
	case trial.SetTags:
		return asTagged(id, wish.Value)
	case trial.AddTrial:
		return fmt.Sprintf("starter trials add %s %s", id, quoted(string(wish.Value)))
	}
	return "starter " + cmp.Or(typedNames[wish.Name], wish.Name) + " " + id
}

func asTagged(id string, value json.RawMessage) string {
	var change map[string]*string
	_ = json.Unmarshal(value, &change) // it was taken a moment ago
	line := "starter tag " + id
	for _, key := range slices.Sorted(maps.Keys(change)) {
		if text := change[key]; text == nil {
			line += " --remove " + quoted(key)
		} else {
			line += " " + quoted(key+"="+*text)
		}
	}
	return line
}

// quoted is a word of a command line, for any shell of POSIX.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// typedNames are the commands of a terminal that are called otherwise than on record.
var typedNames = map[string]string{trial.Remove: "rm"}

type endInput struct {
	Experiment string `path:"experiment" maxLength:"20" doc:"its id"`
	Trial      string `path:"trial" maxLength:"20" doc:"its number or its id"`
	Body       struct {
		How string `json:"how" enum:"kill,early-stop,lost" doc:"kill: it ends USER_CANCELED; early-stop: EARLY_STOPPED, and what it reported counts; lost: its machine is gone for good, and the next attempt starts"`
	}
}

func (s *server) end(ctx context.Context, in *endInput) (*done, error) {
	e, number, err := s.find(ctx, TrialPath{Experiment: in.Experiment, Trial: in.Trial})
	if err != nil {
		return nil, err
	}
	row, err := s.Store.Trial(ctx, e.ID, number)
	if err != nil {
		return nil, problem(err)
	}
	answer := &done{}
	answer.Body.Command = strings.TrimSuffix(fmt.Sprintf("starter kill %s %d --%s", e.ID, number, in.Body.How), " --kill")
	if row.State.Terminal() {
		answer.Body.State = string(row.State)
		return answer, nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return answer, unheard(s.Commander.End(ctx, e.ID, number, endings[in.Body.How]))
}

var endings = map[string]workflows.Ending{"kill": workflows.Kill, "early-stop": workflows.EarlyStop, "lost": workflows.DeclareLost}

// unheard says whether a wish was refused, or nobody knows whether it was heard.
func unheard(err error) error {
	var refused *RefusedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused), errors.Is(err, workflows.ErrNotDriven):
		return huma.Error409Conflict(err.Error())
	}
	return huma.Error503ServiceUnavailable("no answer yet; sent again with the same key it is the same wish: " + err.Error())
}
