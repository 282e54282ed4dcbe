package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/perennial-ml/perennial/record"
	"golang.org/x/sys/unix"
)

// draft is the directory of an experiment that is being submitted: what must be there
// before anybody knows of it. A file in it says so, locked as long as its run lives.
type draft struct {
	directory string
	lock      *os.File
}

// errUnasked says that the engine was not asked for anything.
var errUnasked = errors.New("nothing was asked of it")

const draftFile = "submitting"

// swept is how old a draft must be that nobody holds, and the record does not know,
// before it is taken for left behind: whoever was asked to accept it has answered by then.
const swept = time.Hour

// newDraft makes an experiment's directory.
func newDraft(directory string) (*draft, error) {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(directory, draftFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return &draft{directory, lock}, unix.Flock(int(lock.Fd()), unix.LOCK_EX)
}

// settle ends the draft, by how its submission turned out: it became an experiment, or
// it never was one. Where nobody knows it stays, and a later run sweeps it.
func (d *draft) settle(err error) {
	defer d.lock.Close()
	switch {
	case err == nil:
		os.Remove(d.lock.Name())
	case errors.Is(err, errUnasked) || codeOf(err) == ExitBadInput:
		// Where the file is gone another run has had the same id accepted meanwhile.
		if os.Remove(d.lock.Name()) == nil {
			os.RemoveAll(d.directory)
		}
	}
}

// sweepDrafts removes what runs left behind that were killed before they had asked.
func (w World) sweepDrafts(ctx context.Context, store *record.Store) {
	files, err := filepath.Glob(filepath.Join(w.Home, "experiments", "*", draftFile))
	if err != nil {
		return // of a bad pattern only
	}
	for _, file := range files {
		w.sweepDraft(ctx, store, file)
	}
}

func (w World) sweepDraft(ctx context.Context, store *record.Store, file string) {
	lock, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer lock.Close()
	info, err := lock.Stat()
	if err != nil || w.Now().Sub(info.ModTime()) < swept || unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	directory := filepath.Dir(file)
	switch _, err := store.Experiment(ctx, filepath.Base(directory)); {
	case err == nil:
		os.Remove(file)
	case errors.Is(err, record.ErrNotFound):
		os.RemoveAll(directory)
	}
}
