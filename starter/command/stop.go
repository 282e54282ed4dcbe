package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/perennial-ml/perennial/starter/progress"
	"github.com/perennial-ml/perennial/trial"
	"github.com/spf13/cobra"
)

const stopHelp = `stop ends the running trials of an experiment (TERM, grace, KILL) and then the
experiment, and waits for that. resume goes on where it was: interrupted trials
run again with the same parameters.

With --early-stop the running trials end EARLY_STOPPED with what they reported,
and the experiment is DONE.`

func (w World) stopCommand() *cobra.Command {
	var early, detach bool
	cmd := &cobra.Command{
		Use: "stop [EXPERIMENT]", Short: "Stop an experiment and its trials", Long: stopHelp,
		Example: examples("starter stop", "starter stop k3v9x2ab", "starter stop k3v9x2ab --early-stop"),
		Args:    atMost(1), ValidArgsFunction: w.completeExperiments,
		RunE: func(cmd *cobra.Command, args []string) error {
			command := newCommand(trial.Stop, nil)
			if early {
				command.Name = trial.EarlyStopCommand
			}
			chosen, err := w.ask(cmd.Context(), optional(args), command)
			if err != nil {
				return err
			}
			if detach {
				_, err = fmt.Fprintf(w.Out, "the stop of %s was accepted; starter show %s\n", chosen.ID, chosen.ID)
				return err
			}
			return w.awaitEnd(cmd.Context(), chosen.ID)
		},
	}
	cmd.Flags().BoolVar(&early, "early-stop", false, "end the experiment as DONE, its trials as EARLY_STOPPED")
	cmd.Flags().BoolVarP(&detach, "detach", "d", false, "return as soon as the stop is accepted")
	return cmd
}

// awaitEnd follows an experiment until it is neither running nor stopping; here
// that is success, however it ends.
func (w World) awaitEnd(ctx context.Context, id string) error {
	f := &follower{World: w, id: id, display: stopping{w.display(asTable), w}}
	err := f.follow(ctx)
	var verdict exit
	if errors.As(err, &verdict) && verdict != ExitDetached {
		return nil
	}
	return err
}

// stopping is the display of an experiment that is to end: leaving it does not
// keep it alive.
type stopping struct {
	progress.Display
	World
}

// Detach implements progress.Display.
func (s stopping) Detach(id string) {
	fmt.Fprintf(s.Err, "the stop of %s was accepted and goes on without this command\n", id)
}
