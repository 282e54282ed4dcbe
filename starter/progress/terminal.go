package progress

import (
	"fmt"
	"io"
	"strings"

	"github.com/perennial-ml/perennial/dashboard/views"

	"charm.land/lipgloss/v2"
	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// Terminal is a Display that redraws one frame in place.
type Terminal struct {
	out    io.Writer
	width  func() int
	colour bool
	drawn  int // lines of the frame on the screen
	id     string
	last   *Snapshot
}

// NewTerminal returns a Display for a terminal of width() columns.
func NewTerminal(out io.Writer, width func() int) *Terminal {
	return &Terminal{out: out, width: width}
}

// Coloured lets the display use colours, and returns it.
func (t *Terminal) Coloured() *Terminal {
	t.colour = true
	return t
}

// Begin implements Display.
func (t *Terminal) Begin(start Start) {
	t.id = start.ID
	fmt.Fprint(t.out, greeting(start)+"\n")
}

// Show implements Display.
func (t *Terminal) Show(now Snapshot) {
	t.last = &now
	t.draw(t.frame(now))
}

// Failure implements Display.
func (t *Terminal) Failure(failed record.Trial, stderr string) { t.above(obituary(failed, stderr)) }

// Say implements Display.
func (t *Terminal) Say(_, text string) { t.above(text + "\n") }

// End implements Display.
func (t *Terminal) End(finished record.Experiment) {
	t.draw(nil)
	fmt.Fprint(t.out, farewell(finished))
}

// Detach implements Display.
func (t *Terminal) Detach(id string) {
	t.draw(nil)
	fmt.Fprint(t.out, parting(id))
}

// above prints text that stays, over the frame.
func (t *Terminal) above(text string) {
	t.draw(nil)
	fmt.Fprint(t.out, text)
	if t.last != nil {
		t.draw(t.frame(*t.last))
	}
}

// draw replaces the frame in one write, so that it does not flicker.
func (t *Terminal) draw(lines []string) {
	var screen strings.Builder
	if t.drawn > 0 {
		fmt.Fprintf(&screen, "\x1b[%dA\r\x1b[J", t.drawn)
	}
	for _, line := range lines {
		screen.WriteString(lipgloss.NewStyle().MaxWidth(max(t.width(), 20)).Render(line) + "\n")
	}
	t.drawn = len(lines)
	fmt.Fprint(t.out, screen.String())
}

func (t *Terminal) frame(now Snapshot) []string {
	e := now.Experiment
	lines := []string{t.bar(e), "  " + counts(e)}
	if parts := outlook(e); len(parts) > 0 {
		lines = append(lines, "  "+strings.Join(parts, "; "))
	}
	if rows := t.rows(now); len(rows) > 1 {
		table := Columns(rows)
		lines = append(append(lines, ""), t.bold(table[0]))
		lines = append(lines, table[1:]...)
	}
	if more := len(now.Open) - Rows; more > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more: starter trials %s", more, t.id))
	}
	return lines
}

func (t *Terminal) bold(line string) string {
	if t.colour {
		return Bold(line)
	}
	return line
}

// bar is how much is done, of trials or else of time.
func (t *Terminal) bar(e record.Experiment) string {
	fraction := 0.0
	switch {
	case e.MaxTrials > 0:
		fraction = float64(views.Settled(e)) / float64(e.MaxTrials)
	case e.MaxDuration > 0:
		fraction = float64(e.Driven) / float64(e.MaxDuration)
	}
	width := max(min(t.width()-30, 50), 10)
	full := int(min(fraction, 1) * float64(width))
	return fmt.Sprintf("  %s %s%s %s", e.Status, strings.Repeat("█", full), strings.Repeat("░", width-full), done(e))
}

func (t *Terminal) rows(now Snapshot) [][]string {
	rows := [][]string{{"  TRIAL", "ID", "STATE", "METRIC", "FOR", "ATTEMPT", "WHY"}}
	for _, open := range now.Open[:min(len(now.Open), Rows)] {
		since := open.Asked
		if open.State == trial.Running {
			since = open.Started
		}
		rows = append(rows, []string{fmt.Sprintf("  %d", open.Sequence), open.ID, string(open.State), reported(now, open),
			Span(now.Now.Sub(since)), fmt.Sprint(open.Attempts), words(open.Reason)})
	}
	return rows
}

// reported is what a trial reported last.
func reported(now Snapshot, open record.Trial) string {
	last, has := now.Reported[open.Sequence]
	if !has {
		return "-"
	}
	line := metrics.Record{Value: last.Value}
	if value, is := line.Default(); is {
		return AtStep(&value, last.Step)
	}
	return AtStep(nil, last.Step)
}
