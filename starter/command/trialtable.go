package command

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/perennial-ml/perennial/dashboard/views"

	"charm.land/lipgloss/v2"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/searchspace"
	"github.com/perennial-ml/perennial/starter/progress"
	"github.com/perennial-ml/perennial/trial"
)

// trialColumn is a column of the table of trials.
type trialColumn struct {
	head  string
	cells []string
	need  bool // it stays where the table is wider than the terminal
}

func (c trialColumn) width() int {
	widest := lipgloss.Width(c.head)
	for _, cell := range c.cells {
		widest = max(widest, lipgloss.Width(cell))
	}
	return widest
}

// printTrials prints the table of trials. Parameters that do not fit on a terminal are
// left out, and a line below names the way to them.
func (w World) printTrials(e record.Experiment, list []views.Trial, listing record.Listing) error {
	columns := w.trialColumns(list, parameterNames(e, list, listing.Parameter))
	columns, left := fit(columns, w.Width())
	if err := w.printRows(trialRows(columns, len(list))); err != nil {
		return err
	}
	w.sayLeftOut(e, len(list), left, listing)
	return nil
}

func trialRows(columns []trialColumn, count int) [][]string {
	rows := make([][]string, count+1)
	for _, column := range columns {
		rows[0] = append(rows[0], column.head)
		for i, cell := range column.cells {
			rows[i+1] = append(rows[i+1], cell)
		}
	}
	return rows
}

// sayLeftOut tells what the table does not show.
func (w World) sayLeftOut(e record.Experiment, shown, parameters int, listing record.Listing) {
	switch {
	case parameters == 1:
		fmt.Fprintf(w.Err, "1 more parameter: starter trials %s TRIAL, or --output json\n", e.ID)
	case parameters > 1:
		fmt.Fprintf(w.Err, "%d more parameters: starter trials %s TRIAL, or --output json\n", parameters, e.ID)
	}
	if plain := len(listing.States) == 0 && !listing.Measured; plain && shown == onScreen && e.Asked > shown {
		fmt.Fprintf(w.Err, "%d of %d trials; --limit 0 lists all\n", shown, e.Asked)
	}
}

func (w World) trialColumns(list []views.Trial, names []string) []trialColumn {
	of := func(head string, cell func(views.Trial) string) trialColumn {
		column := trialColumn{head: head, need: true}
		for _, row := range list {
			column.cells = append(column.cells, cell(row))
		}
		return column
	}
	columns := []trialColumn{
		of("TRIAL", func(t views.Trial) string { return fmt.Sprint(t.Sequence) }),
		of("ID", func(t views.Trial) string { return t.ID }),
		of("STATE", func(t views.Trial) string { return string(t.State) }),
		of("METRIC", metricCell),
	}
	for _, name := range names {
		column := of(strings.TrimSuffix(name, "/_name"), func(t views.Trial) string { return parameterCell(t.Parameters, name) })
		column.need = false
		columns = append(columns, column)
	}
	columns = append(columns, of("TOOK", func(t views.Trial) string { return w.took(t.Row) }))
	return append(columns, telling(
		of("ATTEMPTS", func(t views.Trial) string { return moreThanOne(t.Attempts) }),
		of("HOST", func(t views.Trial) string { return dash(t.Host) }),
		of("WHY", func(t views.Trial) string { return dash(t.Row.Reason.Text) }))...)
}

// telling are the columns in which something stands.
func telling(columns ...trialColumn) []trialColumn {
	return slices.DeleteFunc(columns, func(c trialColumn) bool {
		return !slices.ContainsFunc(c.cells, func(cell string) bool { return cell != "-" })
	})
}

func moreThanOne(attempts int) string {
	if attempts < 2 {
		return "-"
	}
	return fmt.Sprint(attempts)
}

// metricCell is a trial's result, or where there is none its last intermediate.
func metricCell(t views.Trial) string {
	if t.Metric != nil || t.Intermediate == nil {
		return progress.Short(t.Metric)
	}
	return progress.AtStep(t.Intermediate.Metric, t.Intermediate.Step)
}

// The room that words have, and that a parameter has, where a table must be cut to its
// terminal.
const (
	narrow   = 24
	narrower = 12
	gap      = 2 // between columns
)

// fit makes parameters narrower and then leaves them out, the last first, until the
// table fits, and cuts the last column to what is left. It returns how many parameters
// were left out.
func fit(columns []trialColumn, width int) (kept []trialColumn, left int) {
	if width == 0 || len(columns) == 0 || len(columns[0].cells) == 0 {
		return columns, 0
	}
	if total(columns) > width {
		squeeze(columns)
	}
	for total(columns) > width {
		last := lastParameter(columns)
		if last < 0 {
			break
		}
		columns, left = slices.Delete(columns, last, last+1), left+1
	}
	final := &columns[len(columns)-1]
	room := width - total(columns[:len(columns)-1]) - gap
	for i, cell := range final.cells {
		final.cells[i] = cut(cell, max(room, narrow))
	}
	return columns, left
}

func squeeze(columns []trialColumn) {
	for i, column := range columns {
		if column.need {
			continue
		}
		columns[i].head = cut(column.head, narrower)
		for n, cell := range column.cells {
			column.cells[n] = cut(cell, narrower)
		}
	}
}

// total is the width of a table, of its last column what it cannot do without.
func total(columns []trialColumn) int {
	sum := 0
	for i, column := range columns {
		width := column.width()
		if i == len(columns)-1 && column.head == "WHY" {
			width = min(width, narrow)
		}
		sum += width + gap
	}
	return sum - gap
}

func lastParameter(columns []trialColumn) int {
	for i := len(columns) - 1; i >= 0; i-- {
		if !columns[i].need {
			return i
		}
	}
	return -1
}

// cut shortens text to a width.
func cut(text string, width int) string {
	if lipgloss.Width(text) <= width {
		return text
	}
	letters := []rune(text)
	for len(letters) > 0 && lipgloss.Width(string(letters)) > width-1 {
		letters = letters[:len(letters)-1]
	}
	return string(letters) + "…"
}

// parameterNames are the parameters that have a column: those that differ, or may,
// and first the one that the trials are sorted by.
func parameterNames(e record.Experiment, list []views.Trial, sorted string) []string {
	var names []string
	texts := map[string][]string{}
	for _, row := range list {
		for _, f := range flatten(row.Parameters) {
			if texts[f.name] == nil {
				names = append(names, f.name)
			}
			texts[f.name] = append(texts[f.name], f.text)
		}
	}
	may := varying(e.SearchSpace)
	names = slices.DeleteFunc(names, func(name string) bool {
		outer, _, _ := strings.Cut(name, "/")
		inAll := len(texts[name]) == len(list) && len(slices.Compact(slices.Clone(texts[name]))) == 1
		return name == "" || len(list) > 1 && inAll && !may[name] && !may[outer] && name != sorted
	})
	if at := slices.IndexFunc(names, func(name string) bool { return name == sorted || name == sorted+"/_name" }); at > 0 {
		first := names[at]
		names = slices.Insert(slices.Delete(names, at, at+1), 0, first)
	}
	return names
}

// varying are the parameters that a search space does not fix, empty where it is none
// of ours.
func varying(raw json.RawMessage) map[string]bool {
	names := map[string]bool{}
	space, err := searchspace.Parse(raw)
	if err != nil {
		return names
	}
	for _, dimension := range space.Dimensions {
		if dimension.Size != 1 {
			names[dimension.Name] = true
		}
	}
	return names
}

// parameterCell is one parameter of a trial, in as little room as says what it is.
func parameterCell(parameters trial.Parameters, name string) string {
	for _, f := range flatten(parameters) {
		if f.name != name {
			continue
		}
		if value, err := strconv.ParseFloat(f.text, 64); err == nil && len(f.text) > 8 {
			return progress.Short(&value)
		}
		return cut(dash(f.text), narrow)
	}
	return "-"
}

func (w World) took(row record.Trial) string {
	end := row.Ended
	if end.IsZero() {
		end = w.Now()
	}
	if row.Started.IsZero() {
		return "-"
	}
	return progress.Span(end.Sub(row.Started))
}
