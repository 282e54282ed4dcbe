package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/workflows"
	"github.com/spf13/cobra"
)

const killHelp = `kill ends one trial: TERM, grace, KILL, with every process it started. It ends
USER_CANCELED; with --early-stop EARLY_STOPPED, and what it reported counts.

--lost is for a trial on a machine that is gone for good: its attempt is declared
lost and the next one starts elsewhere. If that machine lives after all, two
attempts may run at once until it is reached again; the old one's metrics are
kept and never used.`

func (w World) killCommand() *cobra.Command {
	var early, lost bool
	cmd := &cobra.Command{
		Use: "kill [EXPERIMENT] TRIAL", Short: "End one trial", Long: killHelp,
		Example: examples("starter kill 3", "starter kill k3v9x2ab l7de1 --early-stop", "starter kill k3v9x2ab 3 --lost"),
		Args:    between(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ending := workflows.Kill
			if early {
				ending = workflows.EarlyStop
			}
			if lost {
				ending = workflows.DeclareLost
			}
			return w.kill(cmd.Context(), args, ending)
		},
	}
	cmd.Flags().BoolVar(&early, "early-stop", false, "end it EARLY_STOPPED instead of USER_CANCELED")
	cmd.Flags().BoolVar(&lost, "lost", false, "declare its running attempt lost and start the next")
	cmd.MarkFlagsMutuallyExclusive("early-stop", "lost")
	return cmd
}

func (w World) kill(ctx context.Context, args []string, ending workflows.Ending) error {
	var row record.Trial
	err := w.read(ctx, func(r reader) error {
		e, sequence, err := r.trialOf(ctx, args)
		if err == nil {
			row, err = r.Trial(ctx, e.ID, sequence)
		}
		return err
	})
	if err != nil {
		return err
	}
	if row.State.Terminal() {
		return w.endedAlready(row)
	}
	if ending.Lost {
		fmt.Fprintf(w.Err, "warning: if the machine of trial %d lives after all, two attempts may run at once\n", row.Sequence)
	}
	return w.end(ctx, row, ending)
}

func (w World) end(ctx context.Context, row record.Trial, ending workflows.Ending) error {
	err := w.patiently(ctx, row.Experiment, func(ctx context.Context, client Client) error {
		return client.End(ctx, row.Experiment, row.Sequence, ending)
	})
	if now, known := w.lookAgain(ctx, row); err != nil && known && now.State.Terminal() {
		return w.endedAlready(now)
	}
	if errors.Is(err, workflows.ErrNotDriven) {
		return &fault{code: ExitUnreachable, err: fmt.Errorf("trial %d: %w", row.Sequence, err),
			hint: fmt.Sprintf("it is over, or somebody drives it within a minute: starter trials %s", row.Experiment)}
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w.Out, "trial %d (%s) is being ended\n", row.Sequence, row.ID)
	return err
}

func (w World) endedAlready(row record.Trial) error {
	words := "already"
	if !row.Settled() {
		words = "with its experiment; resume runs it again"
	}
	_, err := fmt.Fprintf(w.Out, "trial %d (%s) is %s %s\n", row.Sequence, row.ID, row.State, words)
	return err
}

// lookAgain reads a trial anew: it may have ended while it was to be killed.
func (w World) lookAgain(ctx context.Context, row record.Trial) (now record.Trial, known bool) {
	err := w.read(ctx, func(r reader) (err error) {
		now, err = r.Trial(ctx, row.Experiment, row.Sequence)
		return err
	})
	return now, err == nil
}
