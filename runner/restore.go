package runner

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// keptFile is a small file that the trial could not do without.
type keptFile struct {
	path    string
	content []byte
	mode    os.FileMode
}

// keepFiles remembers what the submitter wrote into the directory. What cannot be
// read now is missed by nobody later.
func (a *attempt) keepFiles() {
	system := a.spec.Directories.System
	for _, path := range []string{a.run.Path(rundir.JobFile), filepath.Join(system, trial.ParameterFile), filepath.Join(system, trial.ParametersFile)} {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		if content, err := os.ReadFile(path); err == nil {
			a.files = append(a.files, keptFile{path, content, info.Mode().Perm()})
		}
	}
}

// restore makes the directory what it was, but for the journal, after the trial
// removed it.
func (a *attempt) restore(collector *collector) {
	if !collector.removed.Swap(false) {
		return
	}
	a.process.Removed = time.Now()
	err := a.run.MakeDirectory()
	if err == nil {
		err = errors.Join(a.run.WriteProcess(a.process), a.prepareDirectories(), a.writeFiles(), a.run.Reserve())
	}
	a.log.open(a.run)
	if err != nil {
		a.log.sayOnce("cannot bring back all of the directory, which was removed: %v", err)
		return
	}
	a.log.say("the directory was removed: metrics, output and parameters are there again")
}

func (a *attempt) writeFiles() error {
	var faults []error
	for _, file := range a.files {
		if _, err := os.Stat(file.path); err != nil {
			faults = append(faults, rundir.ReplaceFile(file.path, file.content, file.mode))
		}
	}
	if a.spec.LostAfter > 0 {
		faults = append(faults, a.run.ExpectContact())
	}
	return errors.Join(faults...)
}
