package progress

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/dashboard/views"

	"charm.land/lipgloss/v2"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// Columns lays rows out in columns two blanks apart, by the width that cells take
// on a terminal.
func Columns(rows [][]string) []string {
	var widths []int
	for _, row := range rows {
		for column, cell := range row {
			if column == len(widths) {
				widths = append(widths, 0)
			}
			widths[column] = max(widths[column], lipgloss.Width(cell))
		}
	}
	lines := make([]string, len(rows))
	for i, row := range rows {
		lines[i] = layOut(row, widths)
	}
	return lines
}

// Broken breaks the last cells of rows into lines, so that they fit a terminal of this
// width; 0 is as wide as needed.
func Broken(rows [][]string, width int) [][]string {
	const least = 20
	if width == 0 {
		return rows
	}
	taken := before(rows)
	var broken [][]string
	for _, row := range rows {
		last := len(row) - 1
		lines := strings.Split(lipgloss.Wrap(row[last], max(width-taken, least), ""), "\n")
		for _, line := range lines {
			broken = append(broken, append(slices.Clone(row[:last]), line))
			row = make([]string, len(row))
		}
	}
	return broken
}

// before is the room that all columns but the last take.
func before(rows [][]string) int {
	var widths []int
	for _, row := range rows {
		for column, cell := range row[:len(row)-1] {
			if column == len(widths) {
				widths = append(widths, 0)
			}
			widths[column] = max(widths[column], lipgloss.Width(cell)+2)
		}
	}
	sum := 0
	for _, width := range widths {
		sum += width
	}
	return sum
}

func layOut(row []string, widths []int) string {
	var line strings.Builder
	for column, cell := range row {
		line.WriteString(cell)
		line.WriteString(strings.Repeat(" ", widths[column]-lipgloss.Width(cell)+2))
	}
	return strings.TrimRight(line.String(), " ")
}

// Bold is text in bold.
func Bold(text string) string { return "\x1b[1m" + text + "\x1b[0m" }

// Span is a duration in its two largest units.
func Span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(max(d, 0).Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm %ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh %dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd %dh", int(d.Hours())/24, int(d.Hours())%24)
}

// Number is a metric with as many digits as it has.
func Number(value *float64) string {
	if value == nil {
		return "-"
	}
	return strconv.FormatFloat(*value, 'g', -1, 64)
}

// Short is a metric in a column, where six digits tell enough.
func Short(value *float64) string {
	full := Number(value)
	switch {
	case value == nil || len(full) <= 8:
		return full
	case *value == math.Trunc(*value) && math.Abs(*value) < 1e9:
		return strconv.FormatFloat(*value, 'f', 0, 64)
	}
	return strconv.FormatFloat(*value, 'g', 6, 64)
}

// AtStep is the last intermediate of a trial without a result, in a column.
func AtStep(value *float64, step int64) string {
	return fmt.Sprintf("%s (step %d)", Short(value), step)
}

// counts is how many trials there are in each state, as words.
func counts(e record.Experiment) string {
	var words []string
	for _, state := range trial.States() {
		if n := e.Counts[state]; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, state))
		}
	}
	if len(words) == 0 {
		return "no trial yet"
	}
	return strings.Join(words, ", ")
}

// done is how far the experiment is, "12 of 40" or "12".
func done(e record.Experiment) string {
	if e.MaxTrials == 0 {
		return strconv.Itoa(views.Settled(e))
	}
	return fmt.Sprintf("%d of %d", views.Settled(e), e.MaxTrials)
}

// best is the best result as words, empty if there is none.
func best(e record.Experiment) string {
	if e.Best == nil {
		return ""
	}
	return fmt.Sprintf("best %s by trial %d (%s)", Number(&e.Best.Value), e.Best.Sequence, e.Best.TrialID)
}

// describe is one trial's state in words: "trial 3 (abcde) FAILED: reason".
func describe(t record.Trial) string {
	text := fmt.Sprintf("trial %d (%s) %s", t.Sequence, t.ID, t.State)
	if t.Attempts > 1 {
		text += fmt.Sprintf(", attempt %d", t.Attempts)
	}
	if t.Value != nil {
		text += ", " + Number(t.Value)
	}
	if !t.Reason.Zero() {
		text += ": " + words(t.Reason)
	}
	return text
}

// words is a reason as a person reads it.
func words(reason trial.Reason) string {
	if reason.Text == "" {
		return reason.Code
	}
	return reason.Sentence()
}
