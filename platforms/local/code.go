package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/codedir"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/rundir"
)

// Prepare implements platforms.Platform. Code runs in place, as with NNI and
// without limits, or from an immutable copy that is named by its content.
func (p *platform) Prepare(_ context.Context, bundle platforms.Bundle) (platforms.Workspace, error) {
	if err := checkCode("prepare", bundle.CodeDirectory); err != nil {
		return platforms.Workspace{}, err
	}
	if !bundle.Snapshot {
		return platforms.Workspace{Directory: bundle.CodeDirectory}, nil
	}
	workspace, err := p.snapshot(bundle)
	return workspace, codeFault(err)
}

func (p *platform) snapshot(bundle platforms.Bundle) (platforms.Workspace, error) {
	tree, err := codedir.Scan(bundle.CodeDirectory, codedir.DefaultLimits())
	if err != nil {
		return platforms.Workspace{}, err
	}
	hash, err := tree.Hash()
	if err != nil {
		return platforms.Workspace{}, err
	}
	if err := rundir.MakeDirectory(p.snapshots(bundle.Experiment)); err != nil {
		return platforms.Workspace{}, err
	}
	directory, err := tree.Snapshot(p.snapshots(bundle.Experiment))
	return platforms.Workspace{Directory: directory, Hash: hash}, err
}

// codeFault tells what a person must mend in the code from what passes by itself.
func codeFault(err error) error {
	if errors.Is(err, codedir.ErrTooLarge) || errors.Is(err, codedir.ErrLinkLeaves) {
		return platforms.Errorf(platforms.Invalid, "prepare", "%w", err)
	}
	return fault("prepare", err)
}

func (p *platform) snapshots(experiment string) string {
	return filepath.Join(p.index.experiment(experiment), "code")
}

// CleanUp implements platforms.WithCleanup. Attempts keep their own copies.
func (p *platform) CleanUp(_ context.Context, experiment string) error {
	return fault("clean up", os.RemoveAll(p.snapshots(experiment)))
}

// codeOf returns the directory that the command of a run works in: the workspace
// itself, or the run's own copy of a snapshot. The code was there when the
// experiment began, so a mount that is away, or a right that was taken, is waited
// for: it must not fail every trial that comes meanwhile.
func codeOf(ctx context.Context, run rundir.Run, workspace platforms.Workspace) (string, error) {
	if err := checkCode("submit", workspace.Directory); err != nil {
		return "", platforms.Errorf(platforms.Transient, "submit", "%w", errors.Unwrap(err))
	}
	if workspace.Hash == "" {
		return workspace.Directory, nil
	}
	return run.Path("code"), codedir.Copy(ctx, workspace.Directory, run.Path("code"))
}

// checkCode tells what is wrong with a directory that commands shall run in.
func checkCode(verb, directory string) error {
	info, err := os.Stat(directory)
	if errors.Is(err, fs.ErrNotExist) {
		return platforms.Errorf(platforms.Invalid, verb, "trialCodeDirectory %s does not exist", directory)
	}
	if err != nil {
		return platforms.Errorf(platforms.Invalid, verb, "trialCodeDirectory cannot be read: %w", err)
	}
	if !info.IsDir() {
		return platforms.Errorf(platforms.Invalid, verb, "trialCodeDirectory %s is not a directory", directory)
	}
	if err := unix.Access(directory, unix.R_OK|unix.X_OK); err != nil {
		return platforms.Errorf(platforms.Invalid, verb, "trialCodeDirectory %s cannot be read, give its user the right to: %w", directory, err)
	}
	return nil
}
