package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/codedir"
	"github.com/perennial-ml/perennial/runner/rundir"
)

// codeOf returns the directory that the command of a run works in: the workspace
// itself, or the run's own copy of a snapshot, in the shared directory where it has
// one. The code was there when the
// experiment began, so a mount that is away, or a right that was taken, is waited
// for: it must not fail every trial that comes meanwhile.
func codeOf(ctx context.Context, run rundir.Run, job launching, shared string) (string, error) {
	workspace := job.Workspace
	if err := CheckCode(workspace.Directory); err != nil {
		return "", Errorf(Transient, "submit", "%w", err)
	}
	if shared == "" && (workspace.Hash == "" || job.SharedCode) {
		return workspace.Directory, nil
	}
	copied := filepath.Join(cmp.Or(shared, run.Directory), "code")
	return copied, copyWhole(ctx, workspace.Directory, copied)
}

// copyWhole copies a snapshot, which somebody may be removing. Whoever does so takes
// its name away first: what still has it was whole all the while.
func copyWhole(ctx context.Context, from, to string) error {
	before, err := os.Stat(from)
	if err != nil {
		return err
	}
	if err := codedir.Copy(ctx, from, to); err != nil {
		return err
	}
	after, err := os.Stat(from)
	if err == nil && os.SameFile(before, after) {
		return nil
	}
	gone := fmt.Errorf("the code in %s was removed while it was copied", from)
	return errors.Join(gone, rundir.RemoveTree(to))
}

// CheckCode tells what is wrong with a directory that commands shall run in.
func CheckCode(directory string) error {
	info, err := os.Stat(directory)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("trialCodeDirectory %s does not exist", directory)
	}
	if err != nil {
		return fmt.Errorf("trialCodeDirectory cannot be read: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("trialCodeDirectory %s is not a directory", directory)
	}
	if err := unix.Access(directory, unix.R_OK|unix.X_OK); err != nil {
		return fmt.Errorf("trialCodeDirectory %s cannot be read, give its user the right to: %w", directory, err)
	}
	return nil
}
