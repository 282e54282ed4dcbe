package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// Cancel notes durably that a run shall end; its runner finds the intent by itself.
// An attempt that nobody submitted gets a directory and the intent, so that no
// later Submit starts it: Report then calls it Exited with code -1, never started.
func (m *Machine) Cancel(ctx context.Context, ref Ref, intent trial.Intent) error {
	run, err := m.find(ref)
	if errors.Is(err, fs.ErrNotExist) {
		run, err = m.index.add(ref.Key, m.defaultDirectory(ref.Key))
	}
	if err != nil {
		return fault("cancel", err)
	}
	seen, err := m.observe(run, ref.Key)
	if err != nil {
		return fault("cancel", err)
	}
	if seen.Exit != nil {
		return nil
	}
	if seen.Over() {
		// Its runner died; what it left behind must not outlive the cancel.
		return fault("cancel", sweep(ctx, run, ref.Key))
	}
	_, err = run.WriteIntent(intent)
	return fault("cancel", err)
}

// Supersede returns when a run is over and has left nothing, for good: by an
// intent of that cause where it still ran, and swept. A run nobody knows is over.
func (m *Machine) Supersede(ctx context.Context, key trial.Key) error {
	run, err := m.index.find(key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = endAttempt(ctx, run, key)
	}
	return fault("supersede", err)
}

// endEarlier makes sure that no earlier attempt of the trial runs, leaves
// processes or is ever started.
func (m *Machine) endEarlier(ctx context.Context, key trial.Key) error {
	for attempt := 1; attempt < key.Attempt; attempt++ {
		earlier := key
		earlier.Attempt = attempt
		if err := m.Supersede(ctx, earlier); err != nil {
			return fmt.Errorf("end attempt %d before attempt %d: %w", attempt, key.Attempt, err)
		}
	}
	return nil
}

func endAttempt(ctx context.Context, run rundir.Run, key trial.Key) error {
	for {
		seen, err := run.Reconcile(key)
		if err != nil {
			return err
		}
		if seen.Over() {
			return sweep(ctx, run, key)
		}
		if _, err := run.WriteIntent(trial.Intent{Cause: trial.CauseSuperseded}); err != nil {
			return err
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// sweep clears what a run that is over left behind: processes, and the room its
// runner had reserved.
func sweep(ctx context.Context, run rundir.Run, key trial.Key) error {
	if err := run.Sweep(ctx, key); err != nil {
		return err
	}
	return removeIfThere(run.Path(rundir.ReserveFile))
}
