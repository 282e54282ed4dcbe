package machine

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/perennial-ml/perennial/runner/rundir"
)

// Remove removes all that is here of an experiment that is over: what its trials wrote,
// and what its runs are known by, that last of all, so that it can be done again. A run
// that lives is Transient.
func (m *Machine) Remove(experiment string) error {
	entries, err := m.index.List(experiment)
	for _, known := range entries {
		err = errors.Join(err, m.removeRun(known))
	}
	if err == nil {
		err = rundir.RemoveTree(filepath.Join(m.Experiments, filepath.Base(experiment)))
	}
	for _, register := range []string{m.Claims, m.Index} {
		if err == nil {
			err = os.RemoveAll(filepath.Join(register, filepath.Base(experiment)))
		}
	}
	return fault("remove", err)
}

// removeRun removes an attempt's directory, and those above it that were made for it and
// hold nothing else: of the trial, of all trials, of the experiment.
func (m *Machine) removeRun(known entry) error {
	held, err := m.index.run(known).Held()
	if err != nil {
		return err
	}
	if held {
		return Errorf(Transient, "remove", "%s still runs in %s", known.Key, known.Directory)
	}
	if known.away() != nil {
		return Errorf(Transient, "remove", "the directory %s is not there: is a file system not mounted? "+
			"if it is gone for good, starter rm --leave-remote goes on without it", known.Directory)
	}
	if err := rundir.RemoveTree(known.Directory); err != nil {
		return err
	}
	// What is not there the next time was not removed by us.
	if err := removeIfThere(filepath.Join(m.index.Folder(known.Key.Experiment), known.Key.String()+indexSuffix)); err != nil {
		return err
	}
	above := known.Directory
	for range 3 {
		above = filepath.Dir(above)
		os.Remove(above)
	}
	return nil
}
