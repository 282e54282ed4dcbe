package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/perennial-ml/perennial/dashboard/views"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/starter/progress"
	"github.com/perennial-ml/perennial/trial"
	"github.com/spf13/cobra"
)

func (w World) lsCommand() *cobra.Command {
	var as *format
	var tags []string
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List experiments",
		Long:    "ls lists all experiments of the state directory, the newest first;\nwith --tag those only that have all the tags that you name.",
		Example: examples("starter ls", "starter ls --tag dataset=cifar10", "starter ls --output json | jq -r '.[] | select(.status == \"RUNNING\") | .id'"),
		Args:    atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := w.experiments(cmd.Context())
			if err != nil {
				return err
			}
			all = slices.DeleteFunc(all, func(e record.Experiment) bool { return !views.IsTagged(e, tags) })
			return w.print(*as, listed(all), func() [][]string { return w.experimentRows(all) })
		},
	}
	as = outputFlag(cmd)
	cmd.Flags().StringArrayVar(&tags, "tag", nil, "those only with this tag, `KEY[=VALUE]`; several: with all of them")
	return cmd
}

// experiments are all there are, the newest first; none is no error.
func (w World) experiments(ctx context.Context) (all []record.Experiment, err error) {
	err = w.read(ctx, func(r reader) (err error) {
		all, err = r.Experiments(ctx)
		return err
	})
	if errors.Is(err, errNone) {
		return nil, nil
	}
	slices.SortFunc(all, views.NewestFirst)
	return all, err
}

func listed(all []record.Experiment) []views.Listed {
	list := make([]views.Listed, 0, len(all))
	for _, e := range all {
		list = append(list, views.ListedOf(e))
	}
	return list
}

func (w World) experimentRows(all []record.Experiment) [][]string {
	rows := [][]string{{"EXPERIMENT", "NAME", "STATUS", "TRIALS", "SUCCEEDED", "FAILED", "BEST", "STARTED"}}
	tagged := slices.ContainsFunc(all, func(e record.Experiment) bool { return len(e.Tags) > 0 })
	if tagged {
		rows[0] = append(rows[0], "TAGS")
	}
	for _, e := range all {
		best := "-"
		if e.Best != nil {
			best = progress.Number(&e.Best.Value)
		}
		row := []string{e.ID, dash(e.Name), statusOf(e), fmt.Sprint(e.Asked),
			fmt.Sprint(e.Counts[trial.Succeeded]), fmt.Sprint(e.Counts[trial.Failed]), best,
			progress.Span(w.Now().Sub(e.Created)) + " ago"}
		if tagged {
			row = append(row, tagWords(e.Tags))
		}
		rows = append(rows, row)
	}
	return rows
}

// statusOf is the status with what people would add to it.
func statusOf(e record.Experiment) string {
	if e.Paused && e.Status == record.Running {
		return string(e.Status) + " (paused)"
	}
	return string(e.Status)
}

// dash stands in for what is empty.
func dash(text string) string {
	return cmp.Or(text, "-")
}
