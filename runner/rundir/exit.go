package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/trial"
)

// ExitRecord says how the attempt ended. The runner writes it when the journal
// holds what the command reported, and once more, whole, when no process of the
// attempt is left: that is the last thing it does.
type ExitRecord struct {
	Format  int        `json:"format"`
	Exit    trial.Exit `json:"exit"`
	Started time.Time  `json:"started,omitzero"` // of the command; zero if it never was
	Ended   time.Time  `json:"ended"`
	// Intent is the one that the runner acted on. It is nil where the command ended
	// by itself, even if an intent was noted since: the end stands.
	Intent *trial.Intent `json:"intent,omitempty"`
	// Unread is set while processes that the command left may still live and
	// report, see Reconcile.
	Unread *Unread `json:"unread,omitempty"`
}

// Unread is where what a command's leftovers report begins: all before it is in
// the journal.
type Unread struct {
	Stdout int64 `json:"stdout"` // byte of Stdout
	Frames int64 `json:"frames"` // byte of MetricsFile
	Step   int64 `json:"step"`   // metrics.Lines.Step
	Next   int64 `json:"next"`   // the number of the journal's next record
}

// reserved is what Reserve takes, in bytes: many times an exit record.
const reserved = 64 << 10

// Reserve takes the disk blocks that the exit record will need. A file system that
// cannot promise blocks is no reason not to run; one that has none left is.
func (r Run) Reserve() error {
	file, err := os.OpenFile(r.Path(ReserveFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	err = unix.Fallocate(int(file.Fd()), 0, 0, reserved)
	if err == nil || err == unix.EOPNOTSUPP || err == unix.ENOSYS {
		return nil
	}
	return &os.PathError{Op: "fallocate", Path: file.Name(), Err: err}
}

// NoteExit writes an exit record that WriteExit will replace: durably, and not into
// what was reserved, which is the last one's.
func (r Run) NoteExit(exit ExitRecord) error {
	exit.Format = Format
	return writeJSON(r.Path(ExitFile), exit)
}

// WriteExit writes the exit record durably, into what was reserved where that is
// still there.
func (r Run) WriteExit(exit ExitRecord) error {
	exit.Format = Format
	content, err := json.Marshal(exit)
	if err != nil {
		return fmt.Errorf("encode %s: %w", r.Path(ExitFile), err)
	}
	content = append(content, '\n')
	written, _ := os.ReadFile(r.Path(ExitFile)) // by a try that failed after it
	if bytes.Equal(written, content) || r.fillReserve(content) == nil {
		return SyncDirectory(r.Directory)
	}
	os.Remove(r.Path(ReserveFile)) // its blocks may be what is missing
	return WriteFile(r.Path(ExitFile), content, 0o600)
}

// fillReserve makes what was reserved the exit record: no other file is made, and
// none deleted, which would make the next ones dear.
func (r Run) fillReserve(content []byte) error {
	file, err := os.OpenFile(r.Path(ReserveFile), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	err = errors.Join(err, file.Truncate(int64(len(content))), file.Sync(), file.Close())
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), r.Path(ExitFile))
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
