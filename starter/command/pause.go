package command

import (
	"context"
	"fmt"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/spf13/cobra"
)

const pauseHelp = `pause lets the running trials of an experiment end and starts nothing new, not even
what waits for room already, until resume. The experiment's clock stands still
meanwhile.`

func (w World) pauseCommand() *cobra.Command {
	return &cobra.Command{
		Use: "pause [EXPERIMENT]", Short: "Start no more trials until resume", Long: pauseHelp,
		Example: examples("starter pause", "starter pause k3v9x2ab", "starter resume k3v9x2ab --detach"),
		Args:    atMost(1), ValidArgsFunction: w.completeExperiments,
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen, err := w.pausable(cmd.Context(), optional(args))
			if err != nil {
				return err
			}
			if _, err := w.ask(cmd.Context(), chosen.ID, newCommand(trial.Pause, nil)); err != nil {
				return err
			}
			_, err = fmt.Fprintf(w.Out, "experiment %s is paused; starter resume %s goes on\n", chosen.ID, chosen.ID)
			return err
		},
	}
}

// pausable finds an experiment that is not over: a pause of any other would mean
// nothing, and be found again when it goes on.
func (w World) pausable(ctx context.Context, name string) (chosen record.Experiment, err error) {
	err = w.read(ctx, func(r reader) (err error) {
		chosen, err = r.experiment(ctx, name, active)
		return err
	})
	if err == nil && (chosen.Status == record.Done || chosen.Status == record.Stopped) {
		err = badInput("", "experiment %s is %s: there is nothing to pause", chosen.ID, chosen.Status)
	}
	return chosen, err
}
