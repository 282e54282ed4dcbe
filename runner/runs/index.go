package runs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// index knows the directory of every attempt: a small file for each, in a folder
// for each experiment. The first to name a directory wins, for ever. Claims lie in
// folders of the same names.
type index struct{ directory, claims string }

const (
	indexFormat = 1
	indexSuffix = ".run"
	claimSuffix = ".claim"
)

type entry struct {
	Format    int       `json:"format"`
	Key       trial.Key `json:"key"`
	Directory string    `json:"directory"`
}

func (i index) experiment(id string) string { return filepath.Join(i.directory, filepath.Base(id)) }

func (i index) path(key trial.Key) string {
	return filepath.Join(i.experiment(key.Experiment), key.String()+indexSuffix)
}

func (i index) claim(key trial.Key) string {
	return filepath.Join(i.claims, filepath.Base(key.Experiment), key.String()+claimSuffix)
}

func (i index) run(known entry) rundir.Run {
	return rundir.Run{Directory: known.Directory, Claim: i.claim(known.Key)}
}

// find returns os.ErrNotExist for an attempt nobody added.
func (i index) find(key trial.Key) (rundir.Run, error) {
	known, err := readEntry(i.path(key))
	return i.run(known), err
}

// add returns the attempt's run, in the given directory unless it was added
// before.
func (i index) add(key trial.Key, directory string) (rundir.Run, error) {
	run, err := i.find(key)
	if !errors.Is(err, fs.ErrNotExist) {
		return run, err
	}
	content, err := json.Marshal(entry{indexFormat, key, directory})
	if err != nil {
		return rundir.Run{}, err
	}
	if err := rundir.MakeDirectory(i.experiment(key.Experiment)); err != nil {
		return rundir.Run{}, err
	}
	err = rundir.CreateFile(i.path(key), append(content, '\n'), 0o600)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return rundir.Run{}, err
	}
	return i.find(key)
}

func (i index) list(experiment string) ([]entry, error) {
	files, err := os.ReadDir(i.experiment(experiment))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var entries []entry
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), indexSuffix) {
			continue
		}
		known, err := readEntry(filepath.Join(i.experiment(experiment), file.Name()))
		if err != nil {
			return nil, err
		}
		entries = append(entries, known)
	}
	return entries, err
}

func readEntry(path string) (entry, error) {
	var known entry
	content, err := os.ReadFile(path)
	if err != nil {
		return known, err
	}
	if err := json.Unmarshal(content, &known); err != nil || known.Directory == "" {
		return known, fmt.Errorf("%s is damaged: remove it if the attempt has ended", path)
	}
	if known.Format > indexFormat {
		return known, fmt.Errorf("%s has format %d: use the newer starter that wrote it", path, known.Format)
	}
	return known, nil
}
