package command

import (
	"context"
	"encoding/json"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/workflows"
)

// newCommand is a command with an id of its own, so that a repeated message is
// not a second command.
func newCommand(name string, value json.RawMessage) trial.Command {
	return trial.Command{ID: trial.NewExperimentID() + trial.NewExperimentID(), Name: name, Value: value}
}

// ask finds an experiment, makes sure that a host is there, and sends it a command.
func (w World) ask(ctx context.Context, name string, command trial.Command) (record.Experiment, error) {
	var chosen record.Experiment
	err := w.read(ctx, func(r reader) (err error) {
		chosen, err = r.experiment(ctx, name, active)
		return err
	})
	if err != nil {
		return chosen, err
	}
	host, err := w.Engine.Ensure(ctx)
	if err != nil {
		return chosen, w.notStarted(ctx, err)
	}
	return chosen, w.send(ctx, host, chosen.ID, command)
}

// workflowID is the id of an experiment's workflow.
func workflowID(experiment string) string { return workflows.ExperimentWorkflowID(experiment) }
