package command

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/trial"
	"github.com/spf13/cobra"
)

// change is one thing that can be updated while an experiment runs.
type change struct {
	use, short, long string
	nni              string // what nnictl calls it
	command          string // of trial.Command
	examples         []string
	parse            func(World, string) (json.RawMessage, error)
}

func (w World) updateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "update", Short: "Change an experiment's limits or search space",
		Long: "update changes an experiment that is running, paused, stopped or done. Raising a\nlimit above what was reached goes on from DONE.\n\nnnictl's spelling does the same: update trialnum k3v9x2ab --value 100.",
		Example: examples("starter update concurrency k3v9x2ab 8", "starter update max-trials 100",
			"starter update max-duration k3v9x2ab 12h", "starter update search-space k3v9x2ab space.json"),
		Args: between(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, c := range changes() {
		cmd.AddCommand(w.changeCommand(c))
	}
	return cmd
}

func changes() []change {
	return []change{
		{"concurrency [EXPERIMENT] N", "How many trials run at a time",
			"Lowering it ends nothing: it counts as trials end.", "",
			trial.SetConcurrency, []string{"starter update concurrency k3v9x2ab 8"}, atLeastOne},
		{"max-trials [EXPERIMENT] N", "How many trials the experiment runs in all",
			"Failed trials count. Raising it goes on from DONE.", "trialnum",
			trial.SetMaxTrials, []string{"starter update max-trials k3v9x2ab 100"}, atLeastOne},
		{"max-duration [EXPERIMENT] DURATION", "How long the experiment runs in all",
			"DURATION is a number with s, m, h or d, or seconds; 0 is no limit. The time counts\nwhile the experiment runs and is not paused.", "duration",
			trial.SetMaxDuration, []string{"starter update max-duration k3v9x2ab 12h"}, duration},
		{"search-space [EXPERIMENT] FILE", "The space that new trials are drawn from",
			"FILE is a search space as experiment.yml names it. Trials that were drawn stay.", "searchspace",
			trial.SetSearchSpace, []string{"starter update search-space k3v9x2ab space.json"}, spaceFile},
	}
}

func (w World) changeCommand(c change) *cobra.Command {
	var flagged string
	cmd := &cobra.Command{
		Use: c.use, Short: c.short, Long: c.short + ".\n" + c.long, Example: examples(c.examples...),
		RunE: func(cmd *cobra.Command, args []string) error {
			if flagged != "" {
				args = append(args, flagged)
			}
			if err := between(1, 2)(cmd, args); err != nil {
				return err
			}
			return w.change(cmd.Context(), c, cmd.Name(), args)
		},
	}
	if c.nni != "" {
		cmd.Aliases = []string{c.nni}
	}
	name, short := "value", "v"
	if c.command == trial.SetSearchSpace {
		name, short = "filename", "f"
	}
	cmd.Flags().StringVarP(&flagged, name, short, "", "as nnictl takes it")
	if err := cmd.Flags().MarkHidden(name); err != nil {
		panic(err) // the flag was just defined
	}
	return cmd
}

func (w World) change(ctx context.Context, c change, called string, args []string) error {
	name, word := last(args)
	value, err := c.parse(w, word)
	if err != nil {
		return err
	}
	if c.command == trial.SetSearchSpace {
		if name, err = w.checkSpace(ctx, name, value); err != nil {
			return err
		}
	}
	return w.update(ctx, name, newCommand(c.command, value), called+" set to "+word)
}

func (w World) update(ctx context.Context, name string, command trial.Command, done string) error {
	chosen, err := w.ask(ctx, name, command)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w.Out, "experiment %s: %s; starter show %s\n", chosen.ID, done, chosen.ID)
	return err
}

func atLeastOne(_ World, word string) (json.RawMessage, error) {
	n, err := strconv.Atoi(word)
	if err != nil || n < 1 {
		return nil, badInput("", "%q is not a whole number above 0", word)
	}
	return json.RawMessage(strconv.Itoa(n)), nil
}

// duration is a span in whole seconds.
func duration(_ World, word string) (json.RawMessage, error) {
	span, err := spanOf(word)
	return json.RawMessage(strconv.FormatInt(int64(span/time.Second), 10)), err
}

// spanOf reads NNI's durations; fractions of a second are rounded up.
func spanOf(word string) (time.Duration, error) {
	units := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
	unit, found := units[word[max(len(word)-1, 0):]]
	number := word[:max(len(word)-1, 0)]
	if !found {
		unit, number = time.Second, word
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n >= 0 && n*unit.Seconds() < 1e9) {
		return 0, badInput("such as 90m, 12h, 3d or 3600", "%q is not a duration", word)
	}
	return (time.Duration(n*float64(unit)) + time.Second - 1).Truncate(time.Second), nil
}

func spaceFile(w World, path string) (json.RawMessage, error) {
	content, err := experiment.ReadFile(path, inputLimit)
	if err != nil {
		return nil, badInput("nothing was changed", "%s %w", path, err)
	}
	var space map[string]json.RawMessage
	if err := json.Unmarshal(content, &space); err != nil {
		return nil, badInput("nothing was changed", "%s is no JSON object: %w", path, err)
	}
	return content, nil
}

// checkSpace refuses a space that the experiment's tuner could not search, and
// returns the experiment's id.
func (w World) checkSpace(ctx context.Context, name string, space json.RawMessage) (id string, err error) {
	err = w.read(ctx, func(r reader) error {
		e, err := r.experiment(ctx, name, active)
		if err != nil {
			return err
		}
		id = e.ID
		var config experiment.Experiment
		if err := json.Unmarshal(e.Config, &config); err != nil {
			return err
		}
		warnings, err := experiment.CheckSpace(space, config.Tuner)
		if err != nil {
			return badInput("nothing was changed", "the search space: %w", err)
		}
		for _, warning := range warnings {
			fmt.Fprintf(w.Err, "warning: %s\n", warning)
		}
		if w.Build.CheckTuner == nil || !slices.Contains(w.Build.Tuners, config.Tuner.Name) {
			return nil // it is none of ours, and may have rules of its own
		}
		if err := w.Build.CheckTuner(config.Tuner.Name, config.Tuner.Arguments, space); err != nil {
			return badInput("nothing was changed", "the tuner of %s does not take this space: %w", id, err)
		}
		return nil
	})
	return id, err
}
