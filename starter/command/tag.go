package command

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/spf13/cobra"
)

const tagHelp = `tag marks an experiment, whatever its state, with keys that may have values, so that
you find it again: ls --tag, and the search on the dashboard. A key that it has
already gets the new value. Without tags it lists those that there are.`

func (w World) tagCommand() *cobra.Command {
	var as *format
	var gone []string
	cmd := &cobra.Command{
		Use: "tag EXPERIMENT [KEY[=VALUE]...]", Short: "Mark an experiment with tags, to find it again", Long: tagHelp,
		Example: examples("starter tag k3v9x2ab baseline dataset=cifar10", "starter tag k3v9x2ab --remove baseline", "starter ls --tag dataset=cifar10"),
		Args:    between(1, 100), ValidArgsFunction: w.completeExperiments,
		RunE: func(cmd *cobra.Command, args []string) error {
			change, err := tagChange(args[1:], gone)
			if err != nil {
				return err
			}
			if len(change) == 0 {
				return w.tags(cmd.Context(), *as, args[0])
			}
			return w.tag(cmd.Context(), args[0], change)
		},
	}
	as = outputFlag(cmd)
	cmd.Flags().StringArrayVar(&gone, "remove", nil, "remove the tag with this `KEY`; may be given several times")
	return cmd
}

// tagChange is what trial.SetTags takes.
func tagChange(tags, gone []string) (map[string]*string, error) {
	change := map[string]*string{}
	for _, key := range gone {
		change[key] = nil
	}
	for _, tag := range tags {
		key, value, err := trial.ParseTag(tag)
		if err != nil {
			return nil, badInput("starter tag k3v9x2ab baseline dataset=cifar10", "%w", err)
		}
		if _, twice := change[key]; twice {
			return nil, badInput("nothing was changed", "the tag %s is given twice", key)
		}
		change[key] = &value
	}
	return change, nil
}

func (w World) tag(ctx context.Context, name string, change map[string]*string) error {
	value, err := json.Marshal(change)
	if err != nil {
		return err
	}
	chosen, err := w.ask(ctx, name, newCommand(trial.SetTags, value))
	if err != nil {
		return err
	}
	after, err := chosen.Tags.With(change)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w.Out, "experiment %s has the tags: %s\n", chosen.ID, tagWords(after))
	return err
}

func (w World) tags(ctx context.Context, as format, name string) error {
	return w.read(ctx, func(r reader) error {
		e, err := r.experiment(ctx, name)
		if err != nil {
			return err
		}
		return w.print(as, e.Tags, func() [][]string { return tagRows(e) })
	})
}

func tagRows(e record.Experiment) [][]string {
	rows := [][]string{{"TAG", "VALUE"}}
	for _, key := range slices.Sorted(maps.Keys(e.Tags)) {
		rows = append(rows, []string{key, dash(e.Tags[key])})
	}
	return rows
}

// tagWords are tags in a line, as people write them.
func tagWords(tags trial.Tags) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		words = append(words, strings.TrimSuffix(key+"="+tags[key], "="))
	}
	return dash(strings.Join(words, " "))
}
