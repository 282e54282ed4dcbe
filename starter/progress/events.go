package progress

import (
	"encoding/json"
	"io"
	"time"

	"github.com/perennial-ml/perennial/dashboard/views"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// Events is a Display for scripts: one JSON object a line, each with "event" and
// the experiment's "id", the last one "finished" unless the program detached.
type Events struct {
	out    io.Writer
	id     string
	summed time.Time
}

// NewEvents returns a Display that writes JSON lines.
func NewEvents(out io.Writer) *Events { return &Events{out: out} }

type event struct {
	Event     string          `json:"event"`
	ID        string          `json:"id"`
	Name      string          `json:"name,omitempty"`
	Dashboard string          `json:"dashboard,omitempty"`
	WebUI     string          `json:"webUI,omitempty"`
	Status    record.Status   `json:"status,omitempty"`
	Reason    *trial.Reason   `json:"reason,omitempty"`
	Trial     *views.Standing `json:"trial,omitempty"`
	Trials    *views.Counts   `json:"trials,omitempty"`
	Best      *views.Best     `json:"best,omitempty"`
	Stderr    *string         `json:"stderr,omitempty"`
	Code      string          `json:"code,omitempty"`
	Text      string          `json:"text,omitempty"`
}

func (e *Events) write(happened event) {
	happened.ID = e.id
	encoder := json.NewEncoder(e.out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(happened) // a reader that went away is no reason to stop
}

// Begin implements Display.
func (e *Events) Begin(start Start) {
	e.id = start.ID
	name := "started"
	if start.Resumed {
		name = "resumed"
	}
	e.write(event{Event: name, Name: start.Name, Dashboard: start.Dashboard, WebUI: start.WebUI})
}

// Show implements Display.
func (e *Events) Show(now Snapshot) {
	for _, changed := range now.Changed {
		seen := views.StandingOf(changed)
		e.write(event{Event: "trial", Trial: &seen})
	}
	if now.Now.Sub(e.summed) >= quiet {
		e.summed = now.Now
		e.write(e.status("progress", now.Experiment))
	}
}

func (e *Events) status(name string, now record.Experiment) event {
	trials := views.Counts(now.Counts)
	status := event{Event: name, Status: now.Status, Trials: &trials, Best: views.BestOf(now)}
	if !now.Reason.Zero() {
		status.Reason = &now.Reason
	}
	return status
}

// Failure implements Display.
func (e *Events) Failure(failed record.Trial, stderr string) {
	seen := views.StandingOf(failed)
	e.write(event{Event: "first-failure", Trial: &seen, Stderr: &stderr})
}

// Say implements Display.
func (e *Events) Say(code, text string) { e.write(event{Event: "notice", Code: code, Text: text}) }

// End implements Display.
func (e *Events) End(finished record.Experiment) {
	e.id = finished.ID
	e.write(e.status("finished", finished))
}

// Detach implements Display.
func (e *Events) Detach(id string) {
	e.id = id
	e.write(event{Event: "detached"})
}
