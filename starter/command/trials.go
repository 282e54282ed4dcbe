package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/perennial-ml/perennial/dashboard/views"

	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/searchspace"
	"github.com/perennial-ml/perennial/trial"
	"github.com/spf13/cobra"
)

const trialsHelp = `trials lists the trials of an experiment: how each is, what it reported, with which
parameters, how long it took, why it waits or failed, and on which machine its newest
attempt runs or ran, where its platform has several. While a trial runs, METRIC is the
last intermediate. A parameter that is the same in all has no column. A terminal shows
the newest 100 unless --limit says otherwise.

With a TRIAL, its number or id, it tells all there is about that one, as show does.

--sort takes trial, metric (the best first), duration (the longest first) or the name of
a parameter, within a nested choice as "outer/inner".`

func (w World) trialsCommand() *cobra.Command {
	var as *format
	var want trialChoice
	cmd := &cobra.Command{
		Use: "trials [EXPERIMENT [TRIAL]]", Short: "List an experiment's trials, or add one", Long: trialsHelp,
		Example: examples("starter trials", "starter trials k3v9x2ab --top 10", "starter trials --sort lr --state failed,early_stopped",
			"starter trials k3v9x2ab 3", `starter trials k3v9x2ab --output json | jq '.[] | select(.state == "FAILED").parameters'`,
			`starter trials add k3v9x2ab '{"lr": 0.01}'`),
		Args: atMost(2), ValidArgsFunction: w.completeExperiments, Annotations: map[string]string{"alone": "yes"},
		RunE: func(cmd *cobra.Command, args []string) error {
			want.limited = cmd.Flags().Changed("limit")
			return w.read(cmd.Context(), func(r reader) error {
				if namesTrial(args) {
					return r.showTrial(cmd.Context(), *as, args)
				}
				return r.trials(cmd.Context(), *as, optional(args), want)
			})
		},
	}
	as = outputFlag(cmd)
	want.flags(cmd)
	cmd.AddCommand(w.trialsAddCommand())
	return cmd
}

// trialChoice is which trials shall be listed, and in which order.
type trialChoice struct {
	states  []string
	sort    string
	reverse bool
	top     int
	limit   int
	limited bool // by hand
}

// onScreen is how many trials a terminal shows where nobody says.
const onScreen = 100

func (c *trialChoice) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&c.sort, "sort", "trial", "trial, metric, duration, or a parameter's `name`")
	flags.BoolVarP(&c.reverse, "reverse", "r", false, "the other way round")
	flags.IntVar(&c.top, "top", 0, "only the best `N` that succeeded")
	flags.StringSliceVar(&c.states, "state", nil, "only those in these `states`")
	flags.IntVar(&c.limit, "limit", 0, "at most `N`; 0 is all (default 100 on a terminal, else all)")
	cmd.MarkFlagsMutuallyExclusive("top", "sort")
	cmd.MarkFlagsMutuallyExclusive("top", "limit")
	complete(cmd, "state", stateWords()...)
	complete(cmd, "sort", "trial", "metric", "duration")
}

// listing is the choice as the record takes it.
func (c trialChoice) listing(screen bool) (record.Listing, error) {
	states, err := statesOf(c.states)
	if err != nil {
		return record.Listing{}, err
	}
	if c.limit < 0 || c.top < 0 {
		return record.Listing{}, badInput("", "a number of trials is not below 0")
	}
	listing := record.Listing{States: states, Reverse: c.reverse, Limit: c.limit}
	switch c.sort {
	case "trial":
	case "metric":
		listing.Order = record.ByMetric
	case "duration":
		listing.Order = record.ByDuration
	default:
		listing.Order, listing.Parameter = record.ByParameter, c.sort
	}
	if c.top > 0 {
		listing.Order, listing.Measured, listing.Limit = record.ByMetric, true, c.top
	}
	if c.top > 0 && len(states) == 0 {
		listing.States = []trial.State{trial.Succeeded}
	}
	if listing.Limit == 0 && screen && !c.limited {
		listing.Limit = onScreen
	}
	return listing, nil
}

func stateWords() []string {
	var words []string
	for _, state := range trial.States() {
		words = append(words, strings.ToLower(string(state)))
	}
	return words
}

// statesOf reads states as people write them: early-stopped, EARLY_STOPPED.
func statesOf(words []string) ([]trial.State, error) {
	var states []trial.State
	for _, word := range words {
		state := trial.State(strings.ToUpper(strings.ReplaceAll(strings.TrimSpace(word), "-", "_")))
		if !slices.Contains(trial.States(), state) {
			return nil, badInput("there are "+strings.Join(stateWords(), ", "), "%q is no state of a trial", word)
		}
		states = append(states, state)
	}
	return states, nil
}

func (r reader) trials(ctx context.Context, as format, name string, want trialChoice) error {
	listing, err := want.listing(as == asTable && r.Width() > 0)
	if err != nil {
		return err
	}
	e, err := r.experiment(ctx, name, active)
	if err != nil {
		return err
	}
	list, err := r.list(ctx, e, listing)
	if err != nil {
		return err
	}
	if as == asTable {
		return r.printTrials(e, list, listing)
	}
	return r.print(as, list, nil)
}

// list reads what a listing wants. On a terminal the newest stand last, as they
// would among all.
func (r reader) list(ctx context.Context, e record.Experiment, listing record.Listing) ([]views.Trial, error) {
	newest := listing.Order == record.ByNumber && !listing.Reverse && listing.Limit > 0
	listing.Reverse = listing.Reverse || newest
	list, err := r.views().Trials(ctx, e, listing)
	if err != nil {
		return nil, err
	}
	if newest {
		slices.Reverse(list)
	}
	return list, r.knows(e, listing, list)
}

// knows refuses an order by a parameter that no trial has: those that have it come
// first.
func (r reader) knows(e record.Experiment, listing record.Listing, rows []views.Trial) error {
	if listing.Order != record.ByParameter || len(rows) == 0 {
		return nil
	}
	names := []string{"trial", "metric", "duration"}
	for _, field := range flatten(rows[0].Parameters) {
		names = append(names, field.name, strings.TrimSuffix(field.name, "/_name"))
	}
	if slices.Contains(names, listing.Parameter) {
		return nil
	}
	hint := "there are " + strings.Join(slices.Compact(names), ", ")
	if nearest := searchspace.Nearest(listing.Parameter, names); nearest != "" {
		hint = fmt.Sprintf("did you mean %q?", nearest)
	}
	return badInput(hint, "no trial of %s has a parameter %q to sort by", e.ID, listing.Parameter)
}

const addHelp = `trials add runs one more trial with parameters of your own. It takes a number and
a slot as any other; the tuner is not told its result.

PARAMETERS is a JSON object, or - to read it from standard input, or @FILE. They must
lie in the search space; with --force they need not, and any names will do.`

func (w World) trialsAddCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "add [EXPERIMENT] PARAMETERS", Short: "Run a trial with parameters of your own", Long: addHelp,
		Example: examples(`starter trials add '{"lr": 0.01, "layers": 3}'`, "starter trials add k3v9x2ab @parameters.json"),
		Args:    between(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, word := last(args)
			parameters, err := w.object(word)
			if err != nil {
				return err
			}
			return w.addTrial(cmd.Context(), name, parameters, force)
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "take parameters that do not lie in the search space")
	return cmd
}

func (w World) addTrial(ctx context.Context, name string, parameters json.RawMessage, force bool) error {
	err := w.read(ctx, func(r reader) error {
		e, err := r.experiment(ctx, name, active)
		if err != nil {
			return err
		}
		name = e.ID
		if force {
			return nil
		}
		return strays(e, parameters)
	})
	if err != nil {
		return err
	}
	chosen, err := w.ask(ctx, name, newCommand(trial.AddTrial, parameters))
	if err != nil {
		return err
	}
	if chosen.Status == record.Stopped || chosen.Paused {
		_, err = fmt.Fprintf(w.Out, "experiment %s will run it once it goes on: starter resume %s\n", chosen.ID, chosen.ID)
		return err
	}
	_, err = fmt.Fprintf(w.Out, "experiment %s will run it; starter trials %s shows it\n", chosen.ID, chosen.ID)
	return err
}

// strays refuses parameters that do not lie in the search space.
func strays(e record.Experiment, parameters json.RawMessage) error {
	var config experiment.Experiment
	if err := json.Unmarshal(e.Config, &config); err != nil {
		return err
	}
	lines := experiment.Strays(config.Tuner, e.SearchSpace, parameters)
	if len(lines) == 0 {
		return nil
	}
	return badInput("with --force the trial gets them as they are", "the parameters do not lie in the search space of %s:\n  %s",
		e.ID, strings.Join(lines, "\n  "))
}

// last splits [EXPERIMENT] VALUE; the experiment is empty where it is left out.
func last(args []string) (name, value string) {
	if len(args) == 2 {
		return args[0], args[1]
	}
	return "", args[0]
}

// inputLimit is the most that is read of a file that a command is given.
const inputLimit = 16 << 20

// object reads a JSON object from the word itself, @FILE, or - for standard input,
// and leaves its bytes as they are.
func (w World) object(word string) (json.RawMessage, error) {
	content := []byte(word)
	var err error
	if path, file := strings.CutPrefix(word, "@"); file {
		content, err = experiment.ReadFile(path, inputLimit)
	} else if word == "-" {
		content, err = io.ReadAll(io.LimitReader(w.In, inputLimit))
	}
	if err != nil {
		return nil, badInput("", "%s %w", strings.TrimPrefix(word, "@"), err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(content, &fields); err != nil || fields == nil {
		return nil, badInput(`such as '{"lr": 0.01}'`, "%.60s is not a JSON object%s", content, because(err))
	}
	return content, nil
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}
