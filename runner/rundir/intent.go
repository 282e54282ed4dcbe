package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/perennial-ml/perennial/trial"
)

type intentRecord struct {
	Format int `json:"format"`
	trial.Intent
}

// WriteIntent notes durably that the attempt shall end and returns the first
// intent that anybody noted, which need not be this one. The runner looks for it
// (ReadIntent, between writing Process and starting the command, and several
// times a second from then on) and does the rest; no signal is needed.
func (r Run) WriteIntent(intent trial.Intent) (trial.Intent, error) {
	if err := r.MakeDirectory(); err != nil {
		return trial.Intent{}, err
	}
	content, err := json.Marshal(intentRecord{Format, intent})
	if err != nil {
		return trial.Intent{}, fmt.Errorf("encode intent: %w", err)
	}
	err = CreateFile(r.Path(IntentFile), append(content, '\n'), 0o600)
	if err != nil && !errors.Is(err, os.ErrExist) {
		return trial.Intent{}, err
	}
	first, err := r.ReadIntent()
	if err != nil {
		return trial.Intent{}, err
	}
	return *first, nil
}

// ReadIntent returns the first intent, nil if nobody has any.
func (r Run) ReadIntent() (*trial.Intent, error) {
	var record intentRecord
	err := readJSON(r.Path(IntentFile), &record)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &record.Intent, nil
}
