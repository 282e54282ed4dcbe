package command

import (
	"context"
	"encoding/json"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
)

// whereabouts are where an attempt runs or ran.
type whereabouts struct {
	Host string `json:"host"` // the machine; empty where its platform names none, or has not chosen yet
	URL  string `json:"url"`  // where its platform shows it; empty where that has no pages
}

// ranOn is where a trial's newest attempt runs or ran.
func (r reader) ranOn(ctx context.Context, row record.Trial) (whereabouts, error) {
	newest, err := r.NewestAttempts(ctx, row.Experiment, []int{row.Sequence})
	if err != nil {
		return whereabouts{}, err
	}
	return whereaboutsOf(newest[row.Sequence])
}

func whereaboutsOf(attempt record.Attempt) (whereabouts, error) {
	if attempt.Handle == nil {
		return whereabouts{}, nil
	}
	var handle platforms.Handle
	err := json.Unmarshal(attempt.Handle, &handle)
	return whereabouts{handle.Host, handle.URL}, err
}
