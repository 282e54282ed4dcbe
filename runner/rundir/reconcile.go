package rundir

import (
	"context"
	"time"

	"github.com/perennial-ml/perennial/trial"
)

const (
	// LeftoverGrace is what processes get that the command left behind: enough for
	// the tee of a process substitution to write its last line.
	LeftoverGrace = time.Second
	// lostPatience is how long whoever finds a dead runner waits for what it left to
	// die: killed processes take some milliseconds, unless the kernel holds them.
	lostPatience = time.Second
)

// Reconcile is Observe, and does what the runner should have done and cannot: where
// it died, everything that it left is killed, and what the leftovers of an ended
// command reported comes into the journal; where it is frozen, what shall end does.
// Repeated, it goes on.
func (r Run) Reconcile(key trial.Key) (Observation, error) {
	seen, err := r.Observe()
	if err != nil || seen.Process == nil || seen.Process.Elsewhere() {
		return seen, err
	}
	switch {
	case seen.Held:
		if seen.Frozen = seen.Process.Frozen(); seen.Frozen {
			err = r.thaw(key, &seen)
		}
		return seen, err
	case seen.Exit == nil:
		// Whoever starts the next attempt insists that nothing is left.
		_ = r.sweepBriefly(key)
		return seen, nil
	case seen.Ending():
		return r.finish(key, seen)
	}
	return seen, nil
}

func (r Run) sweepBriefly(key trial.Key) error {
	ctx, cancel := context.WithTimeout(context.Background(), lostPatience)
	defer cancel()
	return r.Sweep(ctx, key)
}
