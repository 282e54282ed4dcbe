package command

import (
	"context"
	"encoding/json"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
)

// ranOn is the machine that a trial's newest attempt runs or ran on; empty where its
// platform names none, or has not chosen yet.
func (r reader) ranOn(ctx context.Context, row record.Trial) (string, error) {
	newest, err := r.NewestAttempts(ctx, row.Experiment, []int{row.Sequence})
	if err != nil {
		return "", err
	}
	return machineOf(newest[row.Sequence])
}

// machineOf is the machine of an attempt, empty where there is none to name.
func machineOf(attempt record.Attempt) (string, error) {
	if attempt.Handle == nil {
		return "", nil
	}
	var handle platforms.Handle
	if err := json.Unmarshal(attempt.Handle, &handle); err != nil {
		return "", err
	}
	return handle.Host, nil
}
