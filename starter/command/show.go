package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/dashboard/views"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/starter/progress"
	"github.com/perennial-ml/perennial/trial"
	"github.com/spf13/cobra"
)

const showHelp = `show tells how an experiment stands: its status and why, limits, trials by state,
the best trial and its machine, and where Temporal shows it.

With a TRIAL, its number or id, it tells all there is about that trial: parameters,
what it reported and the course of it, its attempts and why each ended, where its
files are.

With --env it prints the names of the variables that its trials inherit from
whoever ran it; never their values. With --file it prints a file that starts the
same once more, to change and run; starter run --from does so without one.`

func (w World) showCommand() *cobra.Command {
	var as *format
	var names, file bool
	cmd := &cobra.Command{
		Use: "show [EXPERIMENT [TRIAL]]", Short: "Show how an experiment stands, or one trial", Long: showHelp,
		Example: examples("starter show", "starter show k3v9x2ab", "starter show k3v9x2ab --output json | jq .best",
			"starter show k3v9x2ab 3", "starter show k3v9x2ab --env", "starter show k3v9x2ab --file > again.yml"),
		Args: atMost(2), ValidArgsFunction: w.completeExperiments,
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.read(cmd.Context(), func(r reader) error {
				if namesTrial(args) && !names && !file {
					return r.showTrial(cmd.Context(), *as, args)
				}
				e, err := r.experiment(cmd.Context(), optional(args), active)
				if err != nil {
					return err
				}
				if file {
					return r.showFile(e)
				}
				if names {
					return r.showEnvironment(*as, e.ID)
				}
				return r.show(cmd.Context(), *as, e)
			})
		},
	}
	as = outputFlag(cmd)
	cmd.Flags().BoolVar(&file, "file", false, "print an experiment file that starts the same once more instead")
	cmd.Flags().BoolVar(&names, "env", false, "print the names of inherited variables instead")
	cmd.MarkFlagsMutuallyExclusive("file", "env")
	return cmd
}

func (r reader) show(ctx context.Context, as format, e record.Experiment) error {
	host, err := r.Engine.Find(ctx)
	if err != nil && !errors.Is(err, ErrNoHost) {
		fmt.Fprintf(r.Err, "the host cannot be asked: %v\n", err)
	}
	if idle := r.idle(ctx, e); e.Reason.Zero() && r.Engine.External().Address != "" {
		e.Reason = idle
	}
	view, err := r.views().Experiment(ctx, e, views.Temporal{Address: host.Address, Namespace: host.Namespace,
		WorkflowID: workflowID(e.ID), WebUI: r.page(host, e.ID), TokenFile: host.TokenFile})
	if err != nil {
		return err
	}
	view.Dashboard = r.look(host, e.ID)
	return r.print(as, view, func() [][]string { return r.showRows(view, e) })
}

// setUp are the rows of what an experiment runs.
func setUp(view views.Experiment) [][]string {
	rows := [][]string{{"tuner", view.Tuner.String()}}
	if view.Assessor != nil {
		rows = append(rows, []string{"assessor", view.Assessor.String()})
	}
	for _, p := range view.Platforms {
		rows = append(rows, []string{"command", p.Command + ", on " + p.Platform}, []string{"in", p.CodeDirectory})
	}
	return rows
}

func (w World) showRows(view views.Experiment, e record.Experiment) [][]string {
	rows := [][]string{{"experiment", strings.TrimSpace(e.ID + " " + e.Name)}, {"status", statusOf(e) + explained(e.Reason)}}
	for _, line := range e.Reason.Details() {
		rows = append(rows, []string{"", line})
	}
	if len(e.Tags) > 0 {
		rows = append(rows, []string{"tags", tagWords(e.Tags)})
	}
	rows = append(rows, []string{"trials", tally(view.Trials)})
	rows = append(rows, []string{"limits", fmt.Sprintf("%d at a time, %s trials, %s", e.Concurrency, limit(e.MaxTrials), durationLimit(e.MaxDuration))})
	rows = append(rows, setUp(view)...)
	rows = append(rows, []string{"ran for", progress.Span(e.Driven)})
	rows = append(rows, recoveredRows(view.Recovered)...)
	if view.Best != nil {
		rows = append(rows, block("best", append([]string{bestWords(*view.Best)}, parameterLines(view.Best.Parameters)...))...)
	}
	if view.Temporal.Address == "" {
		return append(rows, []string{"host", w.howToHost()})
	}
	return append(rows, []string{"dashboard", dash(view.Dashboard)}, []string{"Temporal", view.Temporal.Address + ", workflow " + view.Temporal.WorkflowID},
		[]string{"Web UI", view.Temporal.WebUI})
}

func bestWords(best views.BestTrial) string {
	text := fmt.Sprintf("%s by trial %d (%s)", progress.Number(&best.Metric), best.Sequence, best.ID)
	if best.Host != "" {
		text += " on " + best.Host
	}
	return text
}

// howToHost says that no host is running, and how one is started.
func (w World) howToHost() string {
	if w.Engine.External().Address != "" {
		return "none is running; starter worker starts one"
	}
	return "none is running; starter serve --detach starts one"
}

func explained(reason trial.Reason) string {
	if reason.Zero() {
		return ""
	}
	return ": " + reason.Sentence()
}

func durationLimit(d time.Duration) string {
	if d == 0 {
		return "any time"
	}
	return progress.Span(d)
}

func tally(counts views.Counts) string {
	var words []string
	for _, state := range trial.States() {
		if n := counts[state]; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, state))
		}
	}
	return dash(strings.Join(words, ", "))
}

func (r reader) showFile(e record.Experiment) error {
	text, err := fileOf(e)
	if err == nil {
		_, err = r.Out.Write(text)
	}
	return err
}

func (r reader) showEnvironment(as format, id string) error {
	path := EnvironmentFile(r.Home, id)
	environment, err := rundir.ReadEnvironment(path)
	if err != nil {
		return badInput("", "the environment of %s: %w", id, err)
	}
	names := make([]string, 0, len(environment.Variables))
	for _, variable := range environment.Variables {
		name, _, _ := strings.Cut(variable, "=")
		names = append(names, name)
	}
	if as == asTable {
		_, err := fmt.Fprintln(r.Out, strings.Join(names, "\n"))
		return err
	}
	return r.print(as, names, nil)
}
