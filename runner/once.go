package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/runner/rundir"
)

// RunOnce is Run for whoever has no claim to hand over, such as a batch system on
// another machine, which may start the same command twice: the first one to make
// rundir.StartedFile runs the attempt, for ever, and any other gets ErrBegun. The
// directory may lie on a network file system. Whether the attempt lives is for the
// batch system to say.
func RunOnce(directory string) error {
	run, spec, err := open(directory)
	if err != nil {
		return err
	}
	if err := markStarted(run); err != nil {
		return err
	}
	if err := run.Own(rundir.JournalFile, rundir.ReserveFile, rundir.RunnerLog); err != nil {
		return err
	}
	claim, err := run.Acquire()
	if err != nil && !lacksLocks(err) {
		return err
	}
	if claim != nil {
		defer claim.Close()
	}
	return live(run, spec)
}

// markStarted makes the mark by a call of which one alone can succeed, also where
// several machines make it at once.
func markStarted(run rundir.Run) error {
	err := os.Mkdir(run.Path(rundir.StartedFile), 0o700)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %w", run.Directory, ErrBegun)
	}
	return err
}

// lacksLocks tells whether a file system has no locks, which the mark can do without.
func lacksLocks(err error) bool {
	return errors.Is(err, unix.ENOLCK) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS)
}
