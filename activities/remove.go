package activities

import (
	"context"
	"errors"

	"github.com/perennial-ml/perennial/activities/poller"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// RemoveFiles removes what an experiment that is to be removed has left everywhere but
// in Temporal and on record: on its platforms, and in its directory on this host. All of
// it may be done again.
func (a *Activities) RemoveFiles(ctx context.Context, id string, removal trial.Removal) error {
	row, err := a.Record.Experiment(ctx, id)
	if errors.Is(err, record.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	config, err := a.config(row)
	if err != nil {
		return err
	}
	err = a.removeRemote(ctx, row, len(config.Platforms))
	if removal.LeaveRemote {
		err = nil // whoever asked knows that something stays
	}
	if err != nil {
		return err
	}
	return rundir.RemoveTree(a.home(config, id))
}

// removeRemote removes what an experiment has left on its platforms.
func (a *Activities) removeRemote(ctx context.Context, row record.Experiment, sections int) error {
	pending, err := a.Record.Pending(ctx, row.ID)
	if err != nil {
		return err
	}
	if pending {
		return errors.New("some of its runs have not been seen to end")
	}
	if err := cleanUp(ctx, a.Record, a.Sections, row.ID); err != nil {
		return err
	}
	var faults []error
	for index := range sections {
		faults = append(faults, a.removeSection(ctx, row.ID, index))
	}
	return errors.Join(faults...)
}

func (a *Activities) removeSection(ctx context.Context, id string, index int) error {
	section, err := a.Sections.Of(ctx, id, index)
	if err != nil {
		return err
	}
	removing, can := poller.Optional[platforms.WithRemoval](section.Platform)
	if !can {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cleanUpTimeout)
	defer cancel()
	return poller.Survive(a.Sections.Logger(), "remove", func() error { return removing.Remove(ctx) })
}
