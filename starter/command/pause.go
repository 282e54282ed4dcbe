package command

import (
	"fmt"

	"github.com/perennial-ml/perennial/trial"
	"github.com/spf13/cobra"
)

const pauseHelp = `pause lets the running trials of an experiment end and starts no new ones, until
resume. The experiment's clock stands still meanwhile.`

func (w World) pauseCommand() *cobra.Command {
	return &cobra.Command{
		Use: "pause [EXPERIMENT]", Short: "Start no more trials until resume", Long: pauseHelp,
		Example: examples("starter pause", "starter pause k3v9x2ab", "starter resume k3v9x2ab --detach"),
		Args:    atMost(1), ValidArgsFunction: w.completeExperiments,
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen, err := w.ask(cmd.Context(), optional(args), newCommand(trial.Pause, nil))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(w.Out, "experiment %s is paused; starter resume %s goes on\n", chosen.ID, chosen.ID)
			return err
		},
	}
}
