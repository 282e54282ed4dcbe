package workers

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/activities/poller"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
)

// Observers put on record what runs on a host's platforms, one for each. They do
// not wait for Temporal: what ended while no host was there is seen at once.
type Observers struct {
	all     []platforms.Platform
	served  map[string]activities.Platform // those that are observed and worked for
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// Observe begins to observe. only names the platforms to work for; empty means
// all. The others' trials wait for a worker that does. Stop ends it.
func Observe(store *record.Store, all []platforms.Platform, only []string, logger *slog.Logger) *Observers {
	ctx, cancel := context.WithCancel(context.Background())
	o := &Observers{all: all, served: map[string]activities.Platform{}, cancel: cancel}
	for _, platform := range all {
		name := platform.Traits().Name
		if len(only) > 0 && !slices.Contains(only, name) {
			continue
		}
		observer := poller.New(platform, store, logger)
		o.served[name] = activities.Platform{Platform: platform, Poller: observer}
		o.running.Go(func() {
			if err := observer.Run(ctx); err != nil && ctx.Err() == nil {
				logger.Error("poller ended", "platform", name, "error", err)
			}
		})
	}
	return o
}

// Stop ends observation and leaves every run alone.
func (o *Observers) Stop() {
	o.cancel()
	o.running.Wait()
}
