// Package views is what programs are told of experiments, trials and GPUs: the
// JSON of the command line's --output json and of the API, made in one place.
package views

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// Reader makes views of what is on record.
type Reader struct {
	*record.Store
	// Idle tells why nobody works on an experiment, zero where somebody does.
	Idle func(context.Context, record.Experiment) trial.Reason
}

// Best is the best result so far.
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

// Stamp is a time as programs read it: RFC 3339 in UTC, or null.
func Stamp(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := t.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano)
	return &text
}
