package progress

import (
	"bytes"
	"encoding/json"
	"io"
	"time"

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

// Trial is a trial as scripts see it.
type Trial struct {
	ID       string       `json:"id"`
	Sequence int          `json:"sequence"`
	State    trial.State  `json:"state"`
	Reason   trial.Reason `json:"reason"`
	Attempts int          `json:"attempts"`
	Start    *string      `json:"start"` // RFC 3339 in UTC, or null
	End      *string      `json:"end"`
	Metric   *float64     `json:"metric"`
}

// TrialOf returns a trial's row as scripts see it.
func TrialOf(row record.Trial) Trial {
	return Trial{ID: row.ID, Sequence: row.Sequence, State: row.State, Reason: row.Reason,
		Attempts: row.Attempts, Start: Stamp(row.Started), End: Stamp(row.Ended), Metric: row.Value}
}

// Best is the best result so far as scripts see it.
type Best struct {
	ID       string  `json:"id"`
	Sequence int     `json:"sequence"`
	Metric   float64 `json:"metric"`
}

// BestOf returns an experiment's best result, nil where there is none.
func BestOf(e record.Experiment) *Best {
	if e.Best == nil {
		return nil
	}
	return &Best{ID: e.Best.TrialID, Sequence: e.Best.Sequence, Metric: e.Best.Value}
}

// Counts are trials by state. As JSON all of NNI's states are there, zeros too,
// so that scripts need not ask whether one is.
type Counts map[trial.State]int

// MarshalJSON writes the states in a fixed order, the good end first.
func (c Counts) MarshalJSON() ([]byte, error) {
	order := []trial.State{trial.Succeeded, trial.Failed, trial.EarlyStopped, trial.UserCanceled,
		trial.SysCanceled, trial.Running, trial.Waiting, trial.Unknown}
	var text bytes.Buffer
	for i, state := range order {
		text.WriteByte("{,"[min(i, 1)])
		count, _ := json.Marshal(c[state]) // an int is always valid JSON
		text.WriteString(`"` + string(state) + `":` + string(count))
	}
	text.WriteByte('}')
	return text.Bytes(), nil
}

// Stamp is a time as scripts read it: RFC 3339 in UTC, or null.
func Stamp(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := t.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano)
	return &text
}

type event struct {
	Event  string        `json:"event"`
	ID     string        `json:"id"`
	Name   string        `json:"name,omitempty"`
	WebUI  string        `json:"webUI,omitempty"`
	Status record.Status `json:"status,omitempty"`
	Reason *trial.Reason `json:"reason,omitempty"`
	Trial  *Trial        `json:"trial,omitempty"`
	Trials *Counts       `json:"trials,omitempty"`
	Best   *Best         `json:"best,omitempty"`
	Stderr *string       `json:"stderr,omitempty"`
	Code   string        `json:"code,omitempty"`
	Text   string        `json:"text,omitempty"`
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
	e.write(event{Event: name, Name: start.Name, WebUI: start.WebUI})
}

// Show implements Display.
func (e *Events) Show(now Snapshot) {
	for _, changed := range now.Changed {
		seen := TrialOf(changed)
		e.write(event{Event: "trial", Trial: &seen})
	}
	if now.Now.Sub(e.summed) >= quiet {
		e.summed = now.Now
		e.write(e.status("progress", now.Experiment))
	}
}

func (e *Events) status(name string, now record.Experiment) event {
	trials := Counts(now.Counts)
	status := event{Event: name, Status: now.Status, Trials: &trials, Best: BestOf(now)}
	if !now.Reason.Zero() {
		status.Reason = &now.Reason
	}
	return status
}

// Failure implements Display.
func (e *Events) Failure(failed record.Trial, stderr string) {
	seen := TrialOf(failed)
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
