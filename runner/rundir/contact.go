package rundir

import (
	"errors"
	"os"
	"time"
)

// ExpectContact makes the file by which the runner learns that somebody still
// asks about the run. Without it Contact does nothing.
func (r Run) ExpectContact() error {
	file, err := os.OpenFile(r.Path(ContactFile), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

// Contact tells the runner that somebody asks about the run.
func (r Run) Contact() {
	now := time.Now()
	// A run that expects no contact has no such file, and one that cannot be
	// told is asked again soon.
	os.Chtimes(r.Path(ContactFile), now, now)
}

// LastContact is when somebody last asked about the run by the clock of its disk,
// zero if nobody is expected to.
func (r Run) LastContact() (time.Time, error) {
	info, err := os.Stat(r.Path(ContactFile))
	if errors.Is(err, os.ErrNotExist) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}
