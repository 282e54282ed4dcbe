package local

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/perennial-ml/perennial/codedir"
	"github.com/perennial-ml/perennial/machine"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/machines"
	"github.com/perennial-ml/perennial/runner/rundir"
)

// Prepare implements platforms.Platform. Code runs in place, as with NNI and
// without limits, or from an immutable copy that is named by its content.
func (p *platform) Prepare(_ context.Context, bundle platforms.Bundle) (platforms.Workspace, error) {
	if err := machine.CheckCode(bundle.CodeDirectory); err != nil {
		return platforms.Workspace{}, platforms.Errorf(platforms.Invalid, "prepare", "%w", err)
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
	if err := rundir.MakeDirectory(p.snapshots()); err != nil {
		return platforms.Workspace{}, err
	}
	directory, err := tree.Snapshot(p.snapshots())
	return platforms.Workspace{Directory: directory, Hash: hash}, err
}

// codeFault tells what a person must mend in the code from what passes by itself.
func codeFault(err error) error {
	if errors.Is(err, codedir.ErrTooLarge) || errors.Is(err, codedir.ErrLinkLeaves) {
		return platforms.Errorf(platforms.Invalid, "prepare", "%w", err)
	}
	return machines.Fault("prepare", err)
}

// snapshots is where those of the experiment are. They stay when it is over: it may
// be resumed, and runs the code it began with.
func (p *platform) snapshots() string {
	return filepath.Join(p.machine.Index, filepath.Base(p.section.Experiment), "code")
}
