package command

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/dashboard/views"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/spf13/cobra"
)

const rmHelp = `rm removes experiments that are over, for ever: their results on record, the
directories of their trials here and on remote machines, what clusters and services
keep of them, and their pages in Temporal. It refuses what runs, before anything is
removed. Files that trials wrote elsewhere stay, and so does a code directory.

Who removes is the host: Ctrl-C leaves it at work, and a crash is made up for. What
cannot be reached is waited for, and starter show tells what that is; --leave-remote
gives it up.`

// removalChoice is what rm shall remove, and how.
type removalChoice struct {
	names       []string
	olderThan   string
	sure        bool
	detach      bool
	leaveRemote bool
}

func (w World) rmCommand() *cobra.Command {
	var want removalChoice
	cmd := &cobra.Command{
		Use: "rm EXPERIMENT...", Aliases: []string{"delete"}, Short: "Remove experiments that are over, for ever", Long: rmHelp,
		Example:           examples("starter rm k3v9x2ab", "starter rm k3v9x2ab m4w8y3cd --yes", "starter rm --older-than 30d"),
		ValidArgsFunction: w.completeExperiments,
		RunE: func(cmd *cobra.Command, args []string) error {
			want.names = args
			return w.remove(cmd.Context(), want)
		},
	}
	cmd.Flags().StringVar(&want.olderThan, "older-than", "", "all that ended longer ago than a `DURATION` such as 30d")
	cmd.Flags().BoolVarP(&want.sure, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVarP(&want.detach, "detach", "d", false, "return as soon as the host has heard")
	cmd.Flags().BoolVar(&want.leaveRemote, "leave-remote", false, "leave what cannot be removed because it cannot be reached")
	return cmd
}

func (w World) remove(ctx context.Context, want removalChoice) error {
	var chosen []record.Experiment
	err := w.read(ctx, func(r reader) (err error) {
		chosen, err = r.condemned(ctx, want)
		return err
	})
	if err != nil || len(chosen) == 0 {
		return err
	}
	if err := w.agree(chosen, want.sure); err != nil {
		return err
	}
	if _, err := w.Engine.Ensure(ctx); err != nil {
		return w.notStarted(ctx, err)
	}
	value, err := json.Marshal(trial.Removal{LeaveRemote: want.leaveRemote})
	if err != nil {
		return err
	}
	for _, e := range chosen {
		if err := w.send(ctx, e.ID, newCommand(trial.Remove, value)); err != nil {
			return err
		}
	}
	if want.detach {
		_, err := fmt.Fprintf(w.Out, "%s: being removed; starter ls tells what is left\n", list(chosen))
		return err
	}
	return w.awaitGone(ctx, chosen)
}

// condemned are the experiments that rm means, each once. One that runs is an error.
func (r reader) condemned(ctx context.Context, want removalChoice) ([]record.Experiment, error) {
	if len(want.names) == 0 && want.olderThan == "" {
		return nil, badInput("starter ls lists them; --older-than 30d means all that ended that long ago", "name the experiments that shall go")
	}
	all, err := r.Experiments(ctx)
	if err != nil {
		return nil, err
	}
	chosen, err := r.aged(all, want.olderThan)
	if err != nil {
		return nil, err
	}
	for _, name := range want.names {
		found, err := named(all, name)
		if err == nil && found.Status.Active() {
			err = badInput("starter stop "+found.ID+" stops it", "experiment %s is %s: nothing was removed", found.ID, found.Status)
		}
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, found)
	}
	slices.SortFunc(chosen, views.NewestFirst)
	return slices.CompactFunc(chosen, func(a, b record.Experiment) bool { return a.ID == b.ID }), nil
}

// aged are the experiments that ended longer ago than a duration says, none where that
// is empty.
func (r reader) aged(all []record.Experiment, olderThan string) ([]record.Experiment, error) {
	if olderThan == "" {
		return nil, nil
	}
	age, err := spanOf(olderThan)
	if err != nil {
		return nil, err
	}
	aged := filter(all, preference{means: func(e record.Experiment) bool {
		return !e.Status.Active() && r.Now().Sub(e.Ended) > age
	}})
	if len(aged) == 0 {
		fmt.Fprintf(r.Err, "no experiment ended longer than %s ago\n", olderThan)
	}
	return aged, nil
}

// agree asks whether that is meant, where somebody can answer.
func (w World) agree(chosen []record.Experiment, sure bool) error {
	if !sure && w.Width() > 0 {
		if err := w.printRows(w.experimentRows(chosen)); err != nil {
			return err
		}
	}
	return w.consent("All of this will be gone for ever.", list(chosen), sure)
}

// consent asks for it, unless the caller is sure.
func (w World) consent(warning, what string, sure bool) error {
	if sure {
		return nil
	}
	if w.Width() == 0 {
		return badInput("add --yes where nobody can be asked", "%s would be removed for ever", what)
	}
	fmt.Fprintf(w.Err, "\n%s Go on? [y/N] ", warning)
	answer, _ := bufio.NewReader(w.In).ReadString('\n') // an end without an answer is a no
	if word := strings.ToLower(strings.TrimSpace(answer)); word != "y" && word != "yes" {
		return badInput("", "nothing was removed")
	}
	return nil
}

// awaitGone follows a removal until nothing is left, and says what keeps it.
func (w World) awaitGone(ctx context.Context, chosen []record.Experiment) error {
	said := map[string]string{}
	for {
		left, err := w.left(ctx, chosen)
		if err != nil {
			return err
		}
		for _, e := range chosen {
			now, there := left[e.ID]
			word := cmp.Or(now.Reason.Text, said[e.ID])
			if !there {
				word = "removed"
			}
			if word != said[e.ID] {
				fmt.Fprintf(w.Out, "%s: %s\n", e.ID, word)
				said[e.ID] = word
			}
		}
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			fmt.Fprintln(w.Err, "the host goes on with it; starter ls tells what is left")
			return exit(ExitDetached)
		case <-time.After(w.Tick):
		}
	}
}

// left are those of some experiments that are still there.
func (w World) left(ctx context.Context, some []record.Experiment) (map[string]record.Experiment, error) {
	left := map[string]record.Experiment{}
	err := w.read(context.WithoutCancel(ctx), func(r reader) error {
		for _, e := range some {
			now, err := r.Experiment(context.WithoutCancel(ctx), e.ID)
			if errors.Is(err, record.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			left[e.ID] = now
		}
		return nil
	})
	return left, err
}
