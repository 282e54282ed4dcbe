package rundir

import (
	"errors"
	"os"
	"time"

	"github.com/perennial-ml/perennial/trial"
)

// ExitRecord says how the attempt ended. It is the last thing the runner writes,
// after the journal is durable and no process of the attempt is left.
type ExitRecord struct {
	Format  int        `json:"format"`
	Exit    trial.Exit `json:"exit"`
	Started time.Time  `json:"started,omitzero"` // of the command; zero if it never was
	Ended   time.Time  `json:"ended"`
	// Intent is the one that the runner acted on. It is nil where the command ended
	// by itself, even if an intent was noted since: the end stands.
	Intent *trial.Intent `json:"intent,omitempty"`
}

// WriteExit writes the exit record durably.
func (r Run) WriteExit(exit ExitRecord) error {
	exit.Format = Format
	return writeJSON(r.Path(ExitFile), exit)
}

// ReadExit returns the exit record, nil where there is none. An empty or broken
// one counts as none. Ask Held first: a run that is not held has written all it
// ever will.
func (r Run) ReadExit() (*ExitRecord, error) {
	var exit ExitRecord
	err := readJSON(r.Path(ExitFile), &exit)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, errBroken) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &exit, nil
}
