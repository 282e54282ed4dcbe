package command

import (
	"context"
	"fmt"

	"golang.org/x/mod/semver"

	"github.com/perennial-ml/perennial/experiment"
)

// handOver gives a worker on another machine what an experiment needs of this one, unless
// it might not know all that the experiment asks for.
func (w World) handOver(ctx context.Context, to Host, id string, config *experiment.Experiment) error {
	if err := outdated(to, Version); err != nil {
		return err
	}
	return w.Engine.Deposit(ctx, id, config)
}

// outdated refuses a worker of an older release. What a newer one is told it reads as all
// that older ones wrote, and versions that are no releases have no order.
func outdated(worker Host, version string) error {
	if !semver.IsValid(worker.Version) || !semver.IsValid(version) || semver.Compare(worker.Version, version) >= 0 {
		return nil
	}
	return fmt.Errorf("it is of version %s, older than this starter (%s), and may not know all that the experiment asks for: "+
		"update it, or submit with a starter of its version", worker.Version, version)
}
