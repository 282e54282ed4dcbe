package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/workflows"
	"go.temporal.io/sdk/temporal"
)

// tryTime is how long one try to reach the engine may take. A host that died
// meanwhile is then started again, and the same command sent again.
const tryTime = 20 * time.Second

// newCommand is a command with an id of its own, so that a repeated message is
// not a second command.
func newCommand(name string, value json.RawMessage) trial.Command {
	return trial.Command{ID: trial.NewExperimentID() + trial.NewExperimentID(), Name: name, Value: value}
}

// ask finds an experiment, makes sure that a host is there, and sends it a command.
func (w World) ask(ctx context.Context, name string, command trial.Command) (record.Experiment, error) {
	chosen, err := w.Choose(ctx, name)
	if err != nil {
		return chosen, err
	}
	if _, err := w.Engine.Ensure(ctx); err != nil {
		return chosen, w.notStarted(ctx, err)
	}
	return chosen, w.send(ctx, chosen.ID, command)
}

// send makes a command durable.
func (w World) send(ctx context.Context, id string, command trial.Command) error {
	return w.patiently(ctx, id, func(ctx context.Context, client Client) error {
		_, err := client.Send(ctx, id, command)
		return err
	})
}

// patiently says something to the engine until it answers. It must be something that
// may be said twice. Ctrl-C leaves it a moment for an answer that is on its way.
func (w World) patiently(ctx context.Context, id string, say func(context.Context, Client) error) error {
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.Patience)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(answerTime, cancel) })()
	said := false
	for {
		err := w.once(patient, func(ctx context.Context, client Client) error {
			said = true
			return say(ctx, client)
		})
		if err == nil || errors.Is(err, workflows.ErrNotDriven) {
			return err
		}
		var refused *temporal.ApplicationError
		if errors.As(err, &refused) {
			return badInput("", "experiment %s refuses: %s", id, refused.Message())
		}
		select {
		case <-ctx.Done():
		case <-patient.Done():
		case <-time.After(w.Tick):
			continue
		}
		if ctx.Err() != nil {
			return interrupted(id, said)
		}
		return unanswered(id, err)
	}
}

// answerTime is how long an answer may still take once a command is interrupted.
const answerTime = 500 * time.Millisecond

// interrupted is a command that was ended by hand while the engine was silent.
func interrupted(id string, said bool) error {
	if !said {
		return &fault{code: ExitDetached, err: fmt.Errorf("interrupted before experiment %s answered: %w", id, errUnasked)}
	}
	return &fault{code: ExitDetached, err: fmt.Errorf("interrupted before experiment %s answered", id),
		hint: fmt.Sprintf("starter show %s tells whether it was heard", id)}
}

func (w World) once(ctx context.Context, say func(context.Context, Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	host, err := w.Engine.Ensure(ctx)
	if err != nil {
		return err
	}
	client, err := w.Engine.Connect(ctx, host)
	if err != nil {
		return err
	}
	defer client.Close()
	return say(ctx, client)
}

// unanswered is a command of which nobody knows whether it was carried out.
func unanswered(id string, err error) error {
	return &fault{code: ExitUnreachable, err: fmt.Errorf("no answer about experiment %s: %w", id, err),
		hint: fmt.Sprintf("starter show %s tells whether it was heard, starter doctor looks for the cause", id)}
}

// workflowID is the id of an experiment's workflow.
func workflowID(experiment string) string { return workflows.ExperimentWorkflowID(experiment) }
