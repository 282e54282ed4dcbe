package workflows

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/trial"
)

// listen turns everything people and programs can send into commands on record.
func (e *experimentRun) listen(ctx workflow.Context) error {
	stop := signals(e.ctx, SignalCancel, "stop the experiment and its trials; resume goes on with them")
	early := signals(e.ctx, SignalEarlyStop, "end every running trial EARLY_STOPPED, and then the experiment is DONE")
	workflow.Go(e.ctx, func(inner workflow.Context) { e.receive(inner, stop, trial.Stop) })
	workflow.Go(e.ctx, func(inner workflow.Context) { e.receive(inner, early, trial.EarlyStopCommand) })
	workflow.Go(e.ctx, func(inner workflow.Context) {
		ctx.Done().Receive(inner, nil)
		e.say(inner, trial.Stop)
	})
	if err := answer(ctx, e.overview, "how the experiment stands: status, limits, counts, open and waiting trials"); err != nil {
		return err
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, UpdateCommand, e.update, workflow.UpdateHandlerOptions{
		Validator:   validate,
		Description: "take a command: set-concurrency, set-max-trials, set-max-duration, set-search-space, pause, resume, stop, early-stop, add-trial, set-tags or remove",
	})
}

// validate refuses what is no command before it enters history.
func validate(command trial.Command) error {
	switch {
	case command.ID == "":
		return temporal.NewNonRetryableApplicationError("a command needs an id, so that sending it twice does it once", activities.ErrorRejected, nil)
	case !trial.IsCommand(command.Name):
		text := fmt.Sprintf("there is no command %q; there are %s", command.Name, strings.Join(trial.Commands(), ", "))
		return temporal.NewNonRetryableApplicationError(text, activities.ErrorRejected, nil)
	}
	return nil
}

// update makes a command durable and answers with its number in the log.
func (e *experimentRun) update(ctx workflow.Context, command trial.Command) (number int64, err error) {
	lasting, _ := workflow.NewDisconnectedContext(ctx)
	err = workflow.ExecuteLocalActivity(onRecord(lasting, "note the command "+command.Name), do.Command, e.id, command).Get(lasting, &number)
	e.commands++
	e.accepted = e.accepted || err == nil && command.Name == trial.Accept
	return number, err
}

// receive takes a signal for a command, whatever comes with it.
func (e *experimentRun) receive(ctx workflow.Context, channel workflow.ReceiveChannel, command string) {
	for {
		channel.Receive(ctx, nil)
		e.say(ctx, command)
	}
}

// say gives a command of our own making. One that is refused changes nothing:
// what it asked for makes no sense any more.
func (e *experimentRun) say(ctx workflow.Context, name string) {
	e.saying++
	defer func() { e.saying-- }()
	info := workflow.GetInfo(ctx)
	id := fmt.Sprintf("%s-%s-%d", name, info.WorkflowExecution.RunID, info.GetCurrentHistoryLength())
	_, _ = e.update(ctx, trial.Command{ID: id, Name: name})
}
