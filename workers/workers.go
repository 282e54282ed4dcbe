// Package workers says which task queues exist and what is registered where. A
// Workers is everything of one host but its Temporal server: the workers, the
// pollers that observe what runs, and the sweeper.
package workers

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/activities/poller"
	"github.com/perennial-ml/perennial/assessors"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/tuners"
	"github.com/perennial-ml/perennial/workers/sweeper"
	"github.com/perennial-ml/perennial/workflows"
)

const (
	// workerStopTimeout lets long activities say that they stop, so that the next
	// host takes them up at once.
	workerStopTimeout = 3 * time.Second
	// pollers for each queue: two are too few for a hundred short trials at once.
	pollers = 8
)

// Options are what workers are made of.
type Options struct {
	Client      client.Client // its identity must be Identity(StateID, Nonce)
	Namespace   string
	Record      *record.Store
	Platforms   []platforms.Platform
	Environment func(experiment string) string // the caller's environment file
	StateID     string                         // of the state directory; names this host in queues
	Nonce       string                         // of this process
	Logger      *slog.Logger
}

// Identity is the identity that this host's Temporal clients must carry, so that
// the next host can tell its activities from live ones.
func Identity(stateID, nonce string) string { return stateID + "/" + nonce }

// Workers are the running parts of a host.
type Workers struct {
	options Options
	queues  workflows.Queues
	workers []worker.Worker
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// Start observes what runs, fails what an earlier host of this state directory
// left undone, and then begins to work. Stop ends it.
func Start(ctx context.Context, options Options) (*Workers, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &Workers{options: options, queues: workflows.Queues{Record: options.Record.ID()}, cancel: cancel}
	activities := w.activities()
	// Observation does not wait for Temporal.
	for _, platform := range activities.Platforms {
		w.running.Go(func() { w.observe(ctx, platform) })
	}
	if err := w.failOrphans(ctx); err != nil {
		options.Logger.Warn("fail orphaned activities", "error", err)
	}
	if err := w.work(activities); err != nil {
		w.Stop()
		return nil, err
	}
	sweeps := &sweeper.Sweeper{
		Record: options.Record, Workflows: w.Workflows(), Platforms: activities.Platforms, Logger: options.Logger,
	}
	w.running.Go(func() { sweeps.Run(ctx, sweeper.Every) })
	return w, nil
}

// Workflows returns a client of this host's workflows.
func (w *Workers) Workflows() workflows.Client {
	return workflows.Client{Temporal: w.options.Client, Queues: w.queues}
}

// Stop ends the workers in order and leaves every trial alone.
func (w *Workers) Stop() {
	for _, worker := range w.workers {
		worker.Stop()
	}
	w.cancel()
	w.running.Wait()
}

func (w *Workers) observe(ctx context.Context, platform activities.Platform) {
	if err := platform.Poller.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		w.options.Logger.Error("poller ended", "platform", platform.Traits().Name, "error", err)
	}
}

func (w *Workers) activities() *activities.Activities {
	all := map[string]activities.Platform{}
	for _, platform := range w.options.Platforms {
		all[platform.Traits().Name] = activities.Platform{
			Platform: platform, Poller: poller.New(platform, w.options.Record, w.options.Logger),
		}
	}
	return &activities.Activities{
		Record: w.options.Record, Platforms: all, Tuners: tuners.New, Assessors: assessors.New,
		Signaler: w.Workflows(), Environment: w.options.Environment, Queue: w.platformQueue(all), Logger: w.options.Logger,
	}
}

// platformQueue names the queue of a platform: of this very host where only it
// can act.
func (w *Workers) platformQueue(all map[string]activities.Platform) func(string) string {
	return func(name string) string {
		host := ""
		if platform, ok := all[name]; ok && platform.Traits().HostBound {
			host = w.options.StateID
		}
		return w.queues.Platform(name, host)
	}
}

// work starts one worker for each queue. Experiments have a queue of their own,
// or a parent would wait behind its children.
func (w *Workers) work(a *activities.Activities) error {
	w.add(w.queues.Experiment(), worker.Options{}, func(r worker.Worker) {
		r.RegisterWorkflowWithOptions(workflows.Experiment, workflow.RegisterOptions{Name: workflows.ExperimentType})
		r.RegisterActivity(a)
	})
	w.add(w.queues.Trial(), worker.Options{}, func(r worker.Worker) {
		r.RegisterWorkflowWithOptions(workflows.Trial, workflow.RegisterOptions{Name: workflows.TrialType})
		r.RegisterActivity(a)
	})
	w.add(w.queues.Tuner(), waiting(), func(r worker.Worker) { r.RegisterActivity(a) })
	for name := range a.Platforms {
		w.add(a.Queue(name), waiting(), func(r worker.Worker) { r.RegisterActivity(a) })
	}
	for _, worker := range w.workers {
		if err := worker.Start(); err != nil {
			return err
		}
	}
	return nil
}

// waiting are the options of a queue whose activities mostly wait: each holds a
// slot as long as a trial lasts.
func waiting() worker.Options {
	return worker.Options{MaxConcurrentActivityExecutionSize: 5000, DisableWorkflowWorker: true}
}

func (w *Workers) add(queue string, options worker.Options, register func(worker.Worker)) {
	options.Identity = Identity(w.options.StateID, w.options.Nonce)
	options.WorkerStopTimeout = workerStopTimeout
	options.MaxConcurrentWorkflowTaskPollers, options.MaxConcurrentActivityTaskPollers = pollers, pollers
	worker := worker.New(w.options.Client, queue, options)
	register(worker)
	w.workers = append(w.workers, worker)
}
