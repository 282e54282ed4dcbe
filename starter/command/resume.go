package command

import (
	"context"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/starter/progress"
	"github.com/perennial-ml/perennial/trial"
	"github.com/spf13/cobra"
)

const resumeHelp = `resume goes on with an experiment that was stopped or paused, and follows it as
run does. Trials that were interrupted run again: same id, same parameters, next
attempt. On an experiment that is running it looks after whatever got lost, and
follows it.

Without an id it takes the only experiment that is stopped or paused, else the
only one that is running.`

func (w World) resumeCommand() *cobra.Command {
	var how following
	cmd := &cobra.Command{
		Use: "resume [EXPERIMENT]", Short: "Go on with an experiment, or follow it again", Long: resumeHelp,
		Example: examples("starter resume", "starter resume k3v9x2ab --detach", "starter resume k3v --output json"),
		Args:    atMost(1), ValidArgsFunction: w.completeExperiments,
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.resume(cmd.Context(), optional(args), how)
		},
	}
	how.flags(cmd)
	return cmd
}

func (w World) resume(ctx context.Context, name string, how following) error {
	if err := w.checkPort(ctx, how.nni); err != nil {
		return err
	}
	var chosen record.Experiment
	err := w.read(ctx, func(r reader) (err error) {
		chosen, err = r.experiment(ctx, name, resumable, active)
		return err
	})
	if err != nil {
		return err
	}
	how.noWorker = how.noWorker || w.worksElsewhere(ctx, chosen.ID, how)
	start := progress.Start{ID: chosen.ID, Name: chosen.Name, Resumed: true}
	return w.submit(ctx, how, start, always(newCommand(trial.Resume, nil)), func(error) {})
}

// always is a command that is the same for every host.
func always(command trial.Command) func(Host) (trial.Command, error) {
	return func(Host) (trial.Command, error) { return command, nil }
}
