package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/starter/progress"
	"github.com/perennial-ml/perennial/trial"
	"github.com/spf13/cobra"
)

func (w World) trialsCommand() *cobra.Command {
	var as *format
	cmd := &cobra.Command{
		Use: "trials [EXPERIMENT]", Short: "List an experiment's trials, or add one",
		Long: `trials lists the trials of an experiment: how each is, why, what it reported, and on
which machine its newest attempt runs or ran, where its platform has several.`,
		Example: examples("starter trials", "starter trials k3v9x2ab",
			`starter trials k3v9x2ab --output json | jq '.[] | select(.state == "FAILED")'`,
			`starter trials add k3v9x2ab '{"lr": 0.01}'`),
		Args: atMost(1), ValidArgsFunction: w.completeExperiments, Annotations: map[string]string{"alone": "yes"},
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.read(cmd.Context(), func(r reader) error { return r.trials(cmd.Context(), *as, optional(args)) })
		},
	}
	as = outputFlag(cmd)
	cmd.AddCommand(w.trialsAddCommand())
	return cmd
}

func (r reader) trials(ctx context.Context, as format, name string) error {
	e, err := r.experiment(ctx, name, active)
	if err != nil {
		return err
	}
	rows, err := r.Trials(ctx, e.ID)
	if err != nil {
		return err
	}
	explainWaits(rows, e, r.idle(ctx, e))
	hosts, err := r.machines(ctx, rows)
	if err != nil {
		return err
	}
	return r.print(as, seen(rows, hosts), func() [][]string { return r.trialRows(rows, hosts) })
}

// seenTrial is a trial as trials prints it for scripts.
type seenTrial struct {
	progress.Trial
	Host string `json:"host"` // of its newest attempt; empty where its platform names none
}

func seen(rows []record.Trial, hosts []string) []seenTrial {
	trials := make([]seenTrial, 0, len(rows))
	for i, row := range rows {
		trials = append(trials, seenTrial{progress.TrialOf(row), hosts[i]})
	}
	return trials
}

// trialRows is the table of trials, with a column for hosts where there are any.
func (w World) trialRows(rows []record.Trial, hosts []string) [][]string {
	table := [][]string{{"TRIAL", "ID", "STATE", "METRIC", "ATTEMPTS", "TOOK", "HOST", "WHY"}}
	for i, row := range rows {
		table = append(table, []string{fmt.Sprint(row.Sequence), row.ID, string(row.State), progress.Number(row.Value),
			fmt.Sprint(row.Attempts), w.took(row), dash(hosts[i]), dash(why(row))})
	}
	if strings.Join(hosts, "") != "" {
		return table
	}
	host := slices.Index(table[0], "HOST")
	for i := range table {
		table[i] = slices.Delete(table[i], host, host+1)
	}
	return table
}

// why is what a person is told beside a trial's state.
func why(row record.Trial) string {
	if row.Reason.Text != "" {
		return row.Reason.Text
	}
	return progress.Lack(row)
}

func (w World) took(row record.Trial) string {
	end := row.Ended
	if end.IsZero() {
		end = w.Now()
	}
	if row.Started.IsZero() {
		return "-"
	}
	return progress.Span(end.Sub(row.Started).Round(time.Second))
}

const addHelp = `trials add runs one more trial with parameters of your own. It takes a number and
a slot as any other; the tuner is not told its result.

PARAMETERS is a JSON object, or - to read it from standard input, or @FILE.`

func (w World) trialsAddCommand() *cobra.Command {
	return &cobra.Command{
		Use: "add [EXPERIMENT] PARAMETERS", Short: "Run a trial with parameters of your own", Long: addHelp,
		Example: examples(`starter trials add '{"lr": 0.01, "layers": 3}'`, "starter trials add k3v9x2ab @parameters.json"),
		Args:    between(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, word := last(args)
			parameters, err := w.object(word)
			if err != nil {
				return err
			}
			chosen, err := w.ask(cmd.Context(), name, newCommand(trial.AddTrial, parameters))
			if err != nil {
				return err
			}
			if chosen.Status == record.Stopped || chosen.Paused {
				_, err = fmt.Fprintf(w.Out, "experiment %s will run it once it goes on: starter resume %s\n", chosen.ID, chosen.ID)
				return err
			}
			_, err = fmt.Fprintf(w.Out, "experiment %s will run it; starter trials %s shows it\n", chosen.ID, chosen.ID)
			return err
		},
	}
}

// last splits [EXPERIMENT] VALUE; the experiment is empty where it is left out.
func last(args []string) (name, value string) {
	if len(args) == 2 {
		return args[0], args[1]
	}
	return "", args[0]
}

// object reads a JSON object from the word itself, @FILE, or - for standard input,
// and leaves its bytes as they are.
func (w World) object(word string) (json.RawMessage, error) {
	content := []byte(word)
	var err error
	if path, file := strings.CutPrefix(word, "@"); file {
		content, err = os.ReadFile(path)
	} else if word == "-" {
		content, err = io.ReadAll(w.In)
	}
	if err != nil {
		return nil, badInput("", "read the JSON object: %w", err)
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
