package command

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/dashboard/views"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/starter/progress"
	"github.com/perennial-ml/perennial/trial"
)

const (
	attemptsShown = 10 // in the table of one trial, the newest
	sparkWidth    = 48
)

// namesTrial tells whether arguments name a trial: two of them do, and one that is no
// more than a small number.
func namesTrial(args []string) bool {
	if len(args) == 2 {
		return true
	}
	word := optional(args)
	_, err := strconv.Atoi(word)
	return err == nil && len(word) < len("k3v9x2ab")
}

// showTrial tells all there is about one trial.
func (r reader) showTrial(ctx context.Context, as format, args []string) error {
	e, number, err := r.trialOf(ctx, args)
	if err != nil {
		return err
	}
	list, err := r.list(ctx, e, record.Listing{Numbers: []int{number}})
	if err != nil {
		return err
	}
	view, attempts, err := r.views().Whole(ctx, e, list[0])
	if err != nil {
		return err
	}
	return r.print(as, view, func() [][]string { return r.oneTrial(e, view, attempts) })
}

func (w World) oneTrial(e record.Experiment, view views.WholeTrial, attempts []record.Attempt) [][]string {
	rows := [][]string{
		{"trial", fmt.Sprintf("%d (%s) of experiment %s", view.Sequence, view.ID, strings.TrimSpace(e.ID+" "+e.Name))},
		{"state", string(view.State) + toldWhy(view.Row)},
	}
	rows = append(rows, resultRows(view)...)
	rows = append(rows, block("parameters", parameterLines(view.Parameters))...)
	rows = append(rows, block("reported", w.reportedLines(view.Intermediates))...)
	rows = append(rows, block("attempts", w.attemptLines(view.Tries, attempts))...)
	if len(attempts) == 0 {
		return rows
	}
	newest := view.Tries[len(view.Tries)-1]
	if newest.URL != "" {
		rows = append(rows, []string{"page", newest.URL})
	}
	if newest.TensorBoard != "" {
		rows = append(rows, []string{"tensorboard", newest.TensorBoard})
	}
	if directory := attempts[len(attempts)-1].Output; directory != "" {
		rows = append(rows, []string{"files", directory})
	}
	return append(rows, []string{"logs", fmt.Sprintf("starter logs %s %d", e.ID, view.Sequence)})
}

func toldWhy(row record.Trial) string {
	if text := row.Reason.Text; text != "" {
		return ": " + text
	}
	return ""
}

// resultRows are a trial's result, and the text of it where that says more.
func resultRows(view views.WholeTrial) [][]string {
	var rows [][]string
	if view.Metric != nil {
		rows = append(rows, []string{"metric", progress.Number(view.Metric)})
	}
	if view.Final != nil && strings.HasPrefix(strings.TrimSpace(*view.Final), "{") {
		rows = append(rows, []string{"final", printable([]byte(*view.Final))})
	}
	return rows
}

// block is rows below one name.
func block(name string, lines []string) [][]string {
	var rows [][]string
	for _, line := range lines {
		rows = append(rows, []string{name, line})
		name = ""
	}
	return rows
}

func parameterLines(parameters trial.Parameters) []string {
	var rows [][]string
	for _, f := range flatten(json.RawMessage(parameters)) {
		rows = append(rows, []string{strings.TrimSuffix(f.name, "/_name"), printable([]byte(f.text))})
	}
	return progress.Columns(rows)
}

// reportedLines are the intermediates in one line of words and one that shows their
// course.
func (w World) reportedLines(all []views.Intermediate) []string {
	if len(all) == 0 {
		return nil
	}
	var values []float64
	for _, one := range all {
		if one.Metric != nil {
			values = append(values, *one.Metric)
		}
	}
	last := all[len(all)-1]
	words := fmt.Sprintf("%d intermediates, the last %s at step %d", len(all), cut(printable([]byte(last.Value)), 2*narrow), last.Step)
	if len(all) == views.IntermediatesShown {
		words = "the newest " + words
	}
	if len(values) < 2 {
		return []string{words}
	}
	least, greatest := slices.Min(values), slices.Max(values)
	return []string{words, fmt.Sprintf("%s  %s to %s", progress.Spark(values, sparkWidth), progress.Short(&least), progress.Short(&greatest))}
}

func (w World) attemptLines(tries []views.Attempt, attempts []record.Attempt) []string {
	first := max(len(tries)-attemptsShown, 0)
	var rows [][]string
	for i, tried := range tries[first:] {
		where := tried.Platform
		if tried.Host != "" {
			where += " on " + tried.Host
		}
		rows = append(rows, []string{fmt.Sprint(tried.Number), where, w.attemptTook(attempts[first+i]), turnedOut(tried)})
	}
	return progress.Columns(rows)
}

func (w World) attemptTook(a record.Attempt) string {
	end := a.Ended
	if a.Started.IsZero() {
		return "-"
	}
	if end.IsZero() {
		end = w.Now()
	}
	return progress.Span(end.Sub(a.Started).Round(time.Second))
}

// turnedOut is how an attempt ended, or how it is.
func turnedOut(a views.Attempt) string {
	words := string(a.Outcome)
	if a.Outcome == "" {
		words = dash(a.Phase)
	}
	if a.Exit != nil && a.Exit.Signal == "" && !a.Exit.Outside {
		words += fmt.Sprintf(", exit code %d", a.Exit.Code)
	} else if a.Exit != nil && a.Exit.Signal != "" {
		words += ", " + a.Exit.Signal
	}
	if a.Reason.Text != "" {
		words += ": " + a.Reason.Text
	}
	return words
}
