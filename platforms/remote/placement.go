package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

const (
	placementFormat = 1
	placementSuffix = ".placement"
)

// placement says which machine has an attempt. It is written once, before anything
// is started there, and never changed.
type placement struct {
	Format int       `json:"format"`
	Key    trial.Key `json:"key"`
	Address
	// Site and Boot are those of the machine when it was chosen.
	Site string `json:"site,omitempty"`
	Boot string `json:"boot,omitempty"`
	// Never is why the attempt is on no machine and never will be.
	Never *trial.Intent `json:"never,omitempty"`
}

func (p placement) handle() platforms.Handle {
	data, _ := json.Marshal(p) // plain data cannot fail
	return platforms.Handle{Format: handleFormat, Platform: Name, Key: p.Key, Data: data}
}

// placements keeps a small file for each attempt, in a folder for each experiment.
// The first to place an attempt wins, for ever.
type placements struct{ directory string }

func (p placements) experiment(id string) string {
	return filepath.Join(p.directory, filepath.Base(id))
}

func (p placements) path(key trial.Key) string {
	return filepath.Join(p.experiment(key.Experiment), key.String()+placementSuffix)
}

// find returns nil for an attempt nobody placed.
func (p placements) find(key trial.Key) (*placement, error) {
	placed, err := readPlacement(p.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return placed, err
}

// add places an attempt and returns where it is, which another may have decided
// before.
func (p placements) add(wanted placement) (*placement, error) {
	wanted.Format = placementFormat
	content, err := json.Marshal(wanted)
	if err != nil {
		return nil, err
	}
	if err := rundir.MakeDirectory(p.experiment(wanted.Key.Experiment)); err != nil {
		return nil, err
	}
	err = rundir.CreateFile(p.path(wanted.Key), append(content, '\n'), 0o600)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return readPlacement(p.path(wanted.Key))
}

func (p placements) list(experiment string) ([]placement, error) {
	files, err := os.ReadDir(p.experiment(experiment))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []placement
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), placementSuffix) {
			continue
		}
		placed, err := readPlacement(filepath.Join(p.experiment(experiment), file.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, *placed)
	}
	return all, err
}

func readPlacement(path string) (*placement, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	placed := &placement{}
	if err := json.Unmarshal(content, placed); err != nil || placed.Host == "" && placed.Never == nil {
		return nil, fmt.Errorf("%s is damaged: remove it if the attempt has ended", path)
	}
	if placed.Format > placementFormat {
		return nil, fmt.Errorf("%s has format %d: use the newer starter that wrote it", path, placed.Format)
	}
	return placed, nil
}
