package command

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/perennial-ml/perennial/dashboard"
	"github.com/perennial-ml/perennial/dashboard/views"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/starter/progress"
	"github.com/perennial-ml/perennial/trial"
	"github.com/spf13/cobra"
)

const exportHelp = `export writes the results of an experiment as NNI's nnictl did: each trial with a
final result, its parameters, and what it reported, as the JSON strings it sent.

CSV has a column for each parameter (a nested choice as one, in JSON), one for each
key of a metric that is an object, "reward" for a metric that is a number,
"trialJobId", and with --intermediate a list of those in JSON, "intermediate".

HTML is the pages of the dashboard as one file, to send to somebody: it needs no
server and asks for nothing. Every trial is in it, with its attempts, its curve, and
the configuration as it was accepted; what trials wrote into their logs is not.

With --all every trial that has ended is there, failed, early-stopped and cancelled
ones too, with its state, the reason and its intermediates. The value of one that was
stopped early is its last intermediate, that of one that reported nothing null.`

// exportChoice is what export shall write, and where.
type exportChoice struct {
	format       exportFormat
	intermediate bool
	all          bool   // ended otherwise than with a final result, too
	file         string // empty: standard output
}

type exportFormat string

func (f *exportFormat) String() string { return string(*f) }

// Type is what help shows as the flag's value.
func (f *exportFormat) Type() string { return "json|csv|html" }

// Set takes the flag's value.
func (f *exportFormat) Set(value string) error {
	if value != "json" && value != "csv" && value != "html" {
		return fmt.Errorf("there are json, csv and html")
	}
	*f = exportFormat(value)
	return nil
}

func (w World) exportCommand() *cobra.Command {
	want := exportChoice{format: "json"}
	cmd := &cobra.Command{
		Use: "export [EXPERIMENT]", Short: "Write results as JSON or CSV, or the dashboard's pages as a file", Long: exportHelp,
		Example: examples("starter export k3v9x2ab --format csv --file results.csv", "starter export --intermediate",
			"starter export k3v9x2ab --format html --file k3v9x2ab.html",
			"starter export k3v9x2ab --all | jq '.[] | select(.state == \"EARLY_STOPPED\")'"),
		Args: atMost(1), ValidArgsFunction: w.completeExperiments,
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.read(cmd.Context(), func(r reader) error { return r.export(cmd.Context(), optional(args), want) })
		},
	}
	cmd.Flags().Var(&want.format, "format", "the form of the results")
	cmd.Flags().BoolVarP(&want.intermediate, "intermediate", "i", false, "add what trials reported on the way, the final result last")
	cmd.Flags().BoolVarP(&want.all, "all", "a", false, "every trial that ended, with its state, reason and intermediates")
	cmd.Flags().StringVarP(&want.file, "file", "f", "", "write to this file instead of standard output")
	complete(cmd, "format", "json", "csv", "html")
	return cmd
}

// results can be gone through as often as one likes.
type results = iter.Seq2[result, error]

// result is a trial as NNI exported it. Parameters and texts are the very bytes
// that the trial was given and sent.
type result struct {
	parameter    json.RawMessage
	value        string
	intermediate []string // nil where nobody asked for it
	reward       string   // the default metric, NaN and infinities too where it is no object; else empty
	trial        string
	state        trial.State // empty unless all were asked for
	reason       string
}

func (r reader) export(ctx context.Context, name string, want exportChoice) error {
	e, err := r.experiment(ctx, name, active)
	if err != nil {
		return err
	}
	results := r.results(ctx, e.ID, want)
	write := map[exportFormat]func(io.Writer) error{
		"json": func(out io.Writer) error { return writeJSON(out, results) },
		"csv":  func(out io.Writer) error { return writeCSV(out, results) },
		"html": func(out io.Writer) error { return dashboard.WriteStill(ctx, out, r.views(), e.ID) },
	}[want.format]
	if want.file == "" {
		return write(r.Out)
	}
	return r.replace(want.file, write)
}

// results are an experiment's as they are wanted, one after the other: there may be
// more than fit into memory.
func (r reader) results(ctx context.Context, id string, want exportChoice) results {
	return func(yield func(result, error) bool) {
		for row, err := range r.EachTrial(ctx, id) {
			if err == nil && row.Final == "" && !(want.all && row.Settled()) {
				continue
			}
			var found result
			if err == nil {
				found, err = r.result(ctx, row, want)
			}
			if !yield(found, err) || err != nil {
				return
			}
		}
	}
}

func (r reader) result(ctx context.Context, row record.Trial, want exportChoice) (found result, err error) {
	found = result{parameter: row.Parameters, value: row.Final, trial: row.ID}
	if want.intermediate || want.all {
		if found.intermediate, err = r.reported(ctx, row); err != nil {
			return found, err
		}
	}
	if want.all {
		found.state, found.reason = row.State, row.Reason.Text
	}
	if last := len(found.intermediate) - 1; row.State == trial.EarlyStopped && found.value == "" && last >= 0 {
		found.value = found.intermediate[last]
	}
	if value := views.Default(found.value); value != nil {
		found.reward = progress.Number(value)
	} else {
		found.reward = nonFinite(found.value)
	}
	return found, nil
}

// reported is all that the deciding attempt of a trial sent on the way, in its
// order, the deciding FINAL last.
func (r reader) reported(ctx context.Context, row record.Trial) ([]string, error) {
	lines, err := r.Metrics(ctx, row.Experiment, row.Sequence, 0)
	if err != nil {
		return nil, err
	}
	texts := []string{}
	for _, line := range lines {
		if line.Kind == string(metrics.Periodical) {
			texts = append(texts, line.Value)
		}
	}
	if row.Final != "" {
		texts = append(texts, row.Final)
	}
	return texts, nil
}

func writeJSON(out io.Writer, all results) error {
	text := bufio.NewWriter(out)
	between := "["
	for found, err := range all {
		if err != nil {
			return err
		}
		text.WriteString(between)
		found.writeJSON(text)
		between = ",\n "
	}
	if between == "[" {
		text.WriteString(between)
	}
	text.WriteString("]\n")
	return text.Flush()
}

// writeJSON writes NNI's object, with what else was asked for behind it. What failed to
// be written the writer's Flush tells.
func (r result) writeJSON(text *bufio.Writer) {
	fmt.Fprintf(text, `{"parameter": %s, "value": %s, "trialJobId": %s`, r.parameter, quoteOrNull(r.value), quote(r.trial))
	if r.intermediate != nil {
		quoted := make([]string, len(r.intermediate))
		for n, reported := range r.intermediate {
			quoted[n] = quote(reported)
		}
		text.WriteString(`, "intermediate": [` + strings.Join(quoted, ", ") + "]")
	}
	if r.state != "" {
		fmt.Fprintf(text, `, "state": %s, "reason": %s`, quote(string(r.state)), quote(r.reason))
	}
	text.WriteString("}")
}

func quote(text string) string {
	quoted, err := marshal(text)
	if err != nil {
		panic(err) // a string is always valid JSON
	}
	return string(quoted)
}

func quoteOrNull(text string) string {
	if text == "" {
		return "null"
	}
	return quote(text)
}

func writeCSV(out io.Writer, all results) error {
	table, err := newColumns(all)
	if err != nil {
		return err
	}
	writer := csv.NewWriter(out)
	writer.Write(table.heads()) // what failed to be written Error tells
	for found, err := range all {
		if err != nil {
			return err
		}
		if row, known := table.row(found); known {
			writer.Write(row)
		}
	}
	writer.Flush()
	return writer.Error()
}

// replace writes a file by way of another one beside it, so that a half-written
// one never stands under the name.
func (w World) replace(path string, write func(io.Writer) error) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".export-*")
	var refused *fs.PathError
	if errors.As(err, &refused) {
		err = refused.Err // the name beside it means nothing to anybody
	}
	if err != nil {
		return badInput("name a file in a directory that is there and can be written", "write %s: %w", path, err)
	}
	defer os.Remove(file.Name())
	if err := write(file); err != nil {
		file.Close()
		return badInput("", "write %s: %w", path, err)
	}
	if err := file.Close(); err != nil {
		return badInput("", "write %s: %w", path, err)
	}
	return os.Rename(file.Name(), path)
}
