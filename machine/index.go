package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// index knows the directory of every attempt. Claims lie in folders of the same
// names.
type index struct {
	rundir.Register[entry]
	claims string
}

const (
	indexFormat = 1
	indexSuffix = ".run"
	claimSuffix = ".claim"
)

type entry struct {
	Format    int       `json:"format"`
	Key       trial.Key `json:"key"`
	Directory string    `json:"directory"`
	// Made says that the directory was made before this was written. Entries of
	// older versions do not say so.
	Made bool `json:"made,omitempty"`
}

// Sound implements rundir.Entry.
func (e entry) Sound() bool { return e.Directory != "" }

// away tells what is wrong where the directory was there and is not: whatever was
// written in it is not undone.
func (e entry) away() error {
	_, err := os.Stat(e.Directory)
	if !e.Made || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("its directory %s is not there any more: is a file system not mounted? "+
		"if it is gone for good, give the trial up by starter kill --lost", e.Directory)
}

func newIndex(directory, claims string) index {
	return index{rundir.Register[entry]{Directory: directory, Suffix: indexSuffix, Format: indexFormat}, claims}
}

func (i index) claim(key trial.Key) string {
	return filepath.Join(i.claims, filepath.Base(key.Experiment), key.String()+claimSuffix)
}

func (i index) run(known entry) rundir.Run {
	return rundir.Run{Directory: known.Directory, Claim: i.claim(known.Key)}
}

// find returns os.ErrNotExist for an attempt nobody added.
func (i index) find(key trial.Key) (rundir.Run, error) {
	known, err := i.Find(key)
	return i.run(known), err
}

// add returns the attempt's run, in the given directory, which it makes, unless it
// was added before. One whose directory is away is an error.
func (i index) add(key trial.Key, directory string) (rundir.Run, error) {
	known, err := i.Find(key)
	if errors.Is(err, fs.ErrNotExist) {
		if err = rundir.MakeDirectory(directory); err == nil {
			known, err = i.Add(key, entry{Format: indexFormat, Key: key, Directory: directory, Made: true})
		}
	}
	if err == nil {
		err = known.away()
	}
	return i.run(known), err
}

// away is nil for an attempt nobody added, too.
func (i index) away(key trial.Key) error {
	known, err := i.Find(key)
	if err != nil {
		return nil
	}
	return known.away()
}
