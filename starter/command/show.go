package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/experiment"
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
whoever ran it; never their values.`

func (w World) showCommand() *cobra.Command {
	var as *format
	var names bool
	cmd := &cobra.Command{
		Use: "show [EXPERIMENT [TRIAL]]", Short: "Show how an experiment stands, or one trial", Long: showHelp,
		Example: examples("starter show", "starter show k3v9x2ab", "starter show k3v9x2ab --output json | jq .best",
			"starter show k3v9x2ab 3", "starter show k3v9x2ab --env"),
		Args: atMost(2), ValidArgsFunction: w.completeExperiments,
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.read(cmd.Context(), func(r reader) error {
				if namesTrial(args) && !names {
					return r.showTrial(cmd.Context(), *as, args)
				}
				e, err := r.experiment(cmd.Context(), optional(args), active)
				if err != nil {
					return err
				}
				if names {
					return r.showEnvironment(*as, e.ID)
				}
				return r.show(cmd.Context(), *as, e)
			})
		},
	}
	as = outputFlag(cmd)
	cmd.Flags().BoolVar(&names, "env", false, "print the names of inherited variables instead")
	return cmd
}

// shown is an experiment as show prints it for scripts.
type shown struct {
	ID      string          `json:"id"`
	Name    string          `json:"name"`
	Status  record.Status   `json:"status"`
	Reason  trial.Reason    `json:"reason"`
	Paused  bool            `json:"paused"`
	Limits  limits          `json:"limits"`
	Trials  progress.Counts `json:"trials"`
	Best    *bestTrial      `json:"best"`
	Driven  float64         `json:"duration"` // seconds on the clock of maxDuration
	Created *string         `json:"created"`
	Ended   *string         `json:"ended"`
	// What it was started with; the search space is the one in force.
	SearchSpace json.RawMessage       `json:"searchSpace"`
	Tuner       experiment.Algorithm  `json:"tuner"`
	Assessor    *experiment.Algorithm `json:"assessor"`
	Platforms   []shownPlatform       `json:"platforms"`
	// Recovered is what was learned since the record came from a backup; missing where it
	// did not.
	Recovered *trial.Recovered `json:"recovered,omitempty"`
	// Temporal's strings but workflowId are empty while no host is running.
	Temporal temporalView `json:"temporal"`
}

// shownPlatform is where trials run, and what.
type shownPlatform struct {
	Platform      string `json:"platform"`
	Command       string `json:"command"`
	CodeDirectory string `json:"codeDirectory"`
}

type limits struct {
	Concurrency int  `json:"concurrency"`
	MaxTrials   *int `json:"maxTrials"`   // null: unlimited
	MaxDuration *int `json:"maxDuration"` // seconds; null: unlimited
}

type bestTrial struct {
	progress.Best
	Parameters trial.Parameters `json:"parameters"`
	whereabouts
}

type temporalView struct {
	Address    string `json:"address"`
	Namespace  string `json:"namespace"`
	WorkflowID string `json:"workflowId"`
	WebUI      string `json:"webUI"`
	TokenFile  string `json:"tokenFile"`
}

func (r reader) show(ctx context.Context, as format, e record.Experiment) error {
	best, err := r.best(ctx, e)
	if err != nil {
		return err
	}
	host, err := r.Engine.Find(ctx)
	if err != nil && !errors.Is(err, ErrNoHost) {
		fmt.Fprintf(r.Err, "the host cannot be asked: %v\n", err)
	}
	if idle := r.idle(ctx, e); e.Reason.Zero() && r.Engine.External().Address != "" {
		e.Reason = idle
	}
	recovered, err := r.recovered(ctx, e.ID)
	if err != nil {
		return err
	}
	var config experiment.Experiment
	if err := json.Unmarshal(e.Config, &config); err != nil {
		return err
	}
	view := shown{ID: e.ID, Name: e.Name, Status: e.Status, Reason: e.Reason, Paused: e.Paused,
		Limits: limits{e.Concurrency, unlessZero(e.MaxTrials), unlessZero(int(e.MaxDuration / time.Second))},
		Trials: progress.Counts(e.Counts), Best: best, Driven: e.Driven.Seconds(),
		Created: progress.Stamp(e.Created), Ended: progress.Stamp(e.Ended), Recovered: recovered,
		SearchSpace: e.SearchSpace, Tuner: config.Tuner, Assessor: config.Assessor, Platforms: platformsShown(config),
		Temporal: temporalView{host.Address, host.Namespace, workflowID(e.ID), r.page(host, e.ID), host.TokenFile}}
	return r.print(as, view, func() [][]string { return r.showRows(view, e) })
}

func platformsShown(config experiment.Experiment) []shownPlatform {
	list := make([]shownPlatform, 0, len(config.Platforms))
	for _, p := range config.Platforms {
		list = append(list, shownPlatform{p.Name, p.Command, p.CodeDirectory})
	}
	return list
}

// setUp are the rows of what an experiment runs.
func setUp(view shown) [][]string {
	rows := [][]string{{"tuner", view.Tuner.String()}}
	if view.Assessor != nil {
		rows = append(rows, []string{"assessor", view.Assessor.String()})
	}
	for _, p := range view.Platforms {
		rows = append(rows, []string{"command", p.Command + ", on " + p.Platform}, []string{"in", p.CodeDirectory})
	}
	return rows
}

func (r reader) best(ctx context.Context, e record.Experiment) (*bestTrial, error) {
	if e.Best == nil {
		return nil, nil
	}
	row, err := r.Trial(ctx, e.ID, e.Best.Sequence)
	if err != nil {
		return nil, err
	}
	where, err := r.ranOn(ctx, row)
	return &bestTrial{Best: *progress.BestOf(e), Parameters: row.Parameters, whereabouts: where}, err
}

func unlessZero(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

func (w World) showRows(view shown, e record.Experiment) [][]string {
	rows := [][]string{{"experiment", strings.TrimSpace(e.ID + " " + e.Name)}, {"status", statusOf(e) + explained(e.Reason)}}
	for _, line := range e.Reason.Details() {
		rows = append(rows, []string{"", line})
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
	return append(rows, []string{"Temporal", view.Temporal.Address + ", workflow " + view.Temporal.WorkflowID},
		[]string{"Web UI", view.Temporal.WebUI})
}

func bestWords(best bestTrial) string {
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

func tally(counts progress.Counts) string {
	var words []string
	for _, state := range trial.States() {
		if n := counts[state]; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, state))
		}
	}
	return dash(strings.Join(words, ", "))
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
