package progress

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/dashboard/views"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// quiet is how long Lines and Events sum nothing up after they did.
const quiet = 10 * time.Second

// Lines is a Display for pipes and log files: a line for every change of a
// trial's state, and at most every ten seconds a summary, where it says anything new.
type Lines struct {
	out    io.Writer
	summed time.Time
	sum    string // the last summary, but for the time that is left
}

// NewLines returns a Display that writes plain lines.
func NewLines(out io.Writer) *Lines { return &Lines{out: out} }

// Begin implements Display.
func (l *Lines) Begin(start Start) { fmt.Fprint(l.out, greeting(start)) }

// Show implements Display.
func (l *Lines) Show(now Snapshot) {
	for _, changed := range now.Changed {
		fmt.Fprintln(l.out, describe(changed))
	}
	if now.Now.Sub(l.summed) >= quiet {
		l.sumUp(now)
	}
}

func (l *Lines) sumUp(now Snapshot) {
	timeless := now
	timeless.Experiment.Driven = 0 // the time that is left changes with it, and is no news
	if sum := summary(timeless); sum != l.sum {
		l.sum, l.summed = sum, now.Now
		fmt.Fprintln(l.out, summary(now))
	}
}

// Failure implements Display.
func (l *Lines) Failure(failed record.Trial, stderr string) {
	fmt.Fprint(l.out, obituary(failed, stderr))
}

// Say implements Display.
func (l *Lines) Say(_, text string) { fmt.Fprintln(l.out, text) }

// End implements Display.
func (l *Lines) End(finished record.Experiment) { fmt.Fprint(l.out, farewell(finished)) }

// Detach implements Display.
func (l *Lines) Detach(id string) { fmt.Fprint(l.out, parting(id)) }

func greeting(start Start) string {
	var text strings.Builder
	title := "experiment " + start.ID
	if start.Name != "" {
		title += " (" + start.Name + ")"
	}
	if start.Resumed {
		title += ", resumed"
	}
	fmt.Fprintln(&text, title)
	if start.Dashboard != "" {
		fmt.Fprintln(&text, "  watch   "+start.Dashboard)
	}
	if start.WebUI != "" {
		fmt.Fprintln(&text, "  Web UI  "+start.WebUI)
	}
	if start.Leaving {
		return text.String() + waysOn(start.ID)
	}
	fmt.Fprintf(&text, "  detach  Ctrl-C; the experiment goes on\n")
	fmt.Fprintf(&text, "  resume  starter resume %s\n", start.ID)
	fmt.Fprintf(&text, "  stop    starter stop %s\n", start.ID)
	return text.String()
}

func summary(now Snapshot) string {
	e := now.Experiment
	parts := append([]string{done(e) + " done", counts(e)}, outlook(e)...)
	if e.Counts[trial.Running] == 0 {
		parts = append(parts, waits(now.Open)...)
	}
	return strings.Join(parts, "; ")
}

// waits is why the first trial waits that says why.
func waits(open []record.Trial) []string {
	for _, t := range open {
		if t.State == trial.Waiting && !t.Reason.Zero() {
			return []string{fmt.Sprintf("trial %d waits: %s", t.Sequence, words(t.Reason))}
		}
	}
	return nil
}

// outlook is what is worth knowing beside counts: the best result, how long it
// still takes, and why nothing starts.
func outlook(e record.Experiment) []string {
	var parts []string
	if text := best(e); text != "" {
		parts = append(parts, text)
	}
	if left, known := views.Remaining(e); known && e.Status.Active() {
		parts = append(parts, "about "+Span(left)+" left")
	}
	if e.Paused {
		parts = append(parts, "paused")
	} else if !e.Reason.Zero() {
		parts = append(parts, words(e.Reason))
	}
	return parts
}

func obituary(failed record.Trial, stderr string) string {
	command := fmt.Sprintf("starter logs %s %d --stderr", failed.Experiment, failed.Sequence)
	if stderr == "" {
		return fmt.Sprintf("trial %d (%s) is the first that FAILED; it wrote nothing to stderr\n", failed.Sequence, failed.ID)
	}
	indented := "  | " + strings.ReplaceAll(strings.TrimRight(stderr, "\n"), "\n", "\n  | ")
	return fmt.Sprintf("trial %d (%s) is the first that FAILED; the end of its stderr:\n%s\n  all of it: %s\n",
		failed.Sequence, failed.ID, indented, command)
}

func farewell(e record.Experiment) string {
	text := fmt.Sprintf("experiment %s is %s: %s", e.ID, e.Status, counts(e))
	if found := best(e); found != "" {
		text += "; " + found
	} else if e.Counts[trial.Succeeded] > 0 {
		text += "; none reported a final number"
	}
	if !e.Reason.Zero() {
		text += "; " + words(e.Reason)
	}
	text += "\n"
	if e.Status == record.Stopped {
		return text + fmt.Sprintf("  go on    starter resume %s\n", e.ID)
	}
	return text + fmt.Sprintf("  results  starter trials %s\n  export   starter export %s --format csv\n", e.ID, e.ID)
}

func parting(id string) string {
	return fmt.Sprintf("detached; experiment %s goes on\n", id) + waysOn(id)
}

// waysOn are what can be done about an experiment that nobody follows.
func waysOn(id string) string {
	return fmt.Sprintf("  look    starter show %s\n  follow  starter resume %s\n  stop    starter stop %s\n", id, id, id)
}
