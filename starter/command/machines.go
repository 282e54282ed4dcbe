package command

import (
	"context"
	"encoding/json"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// machines are those of trials, in their order.
func (r reader) machines(ctx context.Context, rows []record.Trial) ([]string, error) {
	names := make([]string, len(rows))
	for i, row := range rows {
		name, err := r.ranOn(ctx, row)
		if err != nil {
			return nil, err
		}
		names[i] = name
	}
	return names, nil
}

// ranOn is the machine that a trial's newest attempt runs or ran on; empty where its
// platform names none, or has not chosen yet.
func (r reader) ranOn(ctx context.Context, row record.Trial) (string, error) {
	if row.Attempts == 0 {
		return "", nil
	}
	attempt, err := r.Attempt(ctx, trial.Key{Experiment: row.Experiment, Sequence: row.Sequence, Attempt: row.Attempts})
	if err != nil || attempt.Handle == nil {
		return "", err
	}
	var handle platforms.Handle
	if err := json.Unmarshal(attempt.Handle, &handle); err != nil {
		return "", err
	}
	return handle.Host(), nil
}
