package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/perennial-ml/perennial/runner/rundir"
)

// sweepPatience is how long processes may take to die of a KILL.
const sweepPatience = 30 * time.Second

// ErrAlive is returned by Sweep where the attempt's runner still lives.
var ErrAlive = errors.New("its runner is alive: cancel the trial instead")

// Sweep kills what a dead runner left of the attempt in directory, and gives back
// the room it had reserved.
func Sweep(directory string) error {
	run, spec, err := open(directory)
	if err != nil {
		return err
	}
	held, err := run.Held()
	if err != nil {
		return err
	}
	if held {
		return fmt.Errorf("sweep %s: %w", run.Directory, ErrAlive)
	}
	ctx, cancel := context.WithTimeout(context.Background(), sweepPatience)
	defer cancel()
	if err := run.Sweep(ctx, spec.Key); err != nil {
		return err
	}
	err = os.Remove(run.Path(rundir.ReserveFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
