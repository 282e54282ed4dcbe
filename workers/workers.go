// Package workers says which task queues exist and what is registered where. Workers
// are everything of one host but its Temporal server and what observes its runs: the
// workers and the sweeper.
package workers

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
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
	// pollers of workflow tasks for each queue: two are too few for a hundred short
	// trials at once. Activities begin in the worker that asks for them, so only what
	// is tried again comes from a queue.
	pollers         = 8
	activityPollers = 2
	// experimentPollers for the queue of experiments, which have few and short tasks.
	experimentPollers = 4
	// verbPollers for the verbs of each platform, which are rare.
	verbPollers = 2
	// fewPollers for a platform that only experiments name which are over: the least
	// that the SDK takes.
	fewPollers = 2
	// atOnceWaiting is how many activities a queue takes: they mostly wait, and each
	// holds a slot as long as a trial or a round lasts.
	atOnceWaiting = 5000
)

// Options are what workers are made of.
type Options struct {
	Client      client.Client // its identity must be Identity(StateID, Nonce)
	Namespace   string
	Record      *record.Store
	Sections    *poller.Sections               // of the same record; whoever made them stops them
	Environment func(experiment string) string // the caller's environment file
	// Variables are those of whoever ran an experiment; see activities.Activities.
	Variables func(experiment string) []string
	StateID   string // of the state directory
	Seat      string // names this host in queues; see record.Store.Seat
	Nonce     string // of this process
	// Led says that the record has proved every other host to be out of its place,
	// whatever its state directory.
	Led bool
	// Keep is as in activities.Activities.
	Keep func(ctx context.Context, experiment string) error
	// Fetch is as in activities.Activities.
	Fetch func(ctx context.Context, experiment string) error
	// StateDirectory is the absolute path of the state directory.
	StateDirectory string
	Logger         *slog.Logger
	// BuildID names this build in the record's Worker Deployment; empty where
	// there is none, as with an embedded server.
	BuildID string
	// SearchAttributes are registered where that is allowed.
	SearchAttributes SearchAttributes
	// Rest is told when nothing has been needed for a while, and when something is
	// again; it may be nil.
	Rest func(resting bool)
}

// Identity is the identity that this host's Temporal clients must carry, so that
// the next host can tell its activities from live ones.
func Identity(stateID, nonce string) string { return stateID + "/" + nonce }

// Workers are the running parts of a host.
type Workers struct {
	options  Options
	queues   workflows.Queues
	version  worker.DeploymentOptions
	arrivals arrivals
	learned  time.Time // when Temporal knows the search attributes everywhere
	serving  *serving

	experiments worker.Worker // nil until it begins
	acting      *activities.Activities
	cancel      context.CancelFunc
	running     sync.WaitGroup
}

// Start waits for a Temporal that is away, fails what an earlier host of this
// state directory left undone, or any where Led, and then begins to work. Stop ends it.
// Where a copy of the record is worked on elsewhere it returns a SharedError.
func Start(starting context.Context, options Options) (*Workers, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(starting))
	w := &Workers{options: options, queues: workflows.Queues{Record: options.Record.ID(), Share: options.Record.Share()}, cancel: cancel}
	w.serving = newServing(parts{
		named: options.Record.Platforms, needed: w.needed, start: w.serve, rest: w.rest, spare: spare, logger: options.Logger,
	})
	activities := w.activities()
	w.acting = activities
	sweeps := sweeper.New(sweeper.Sweeper{
		Record: options.Record, Workflows: w.Workflows(), Sections: options.Sections, RemoveFiles: activities.RemoveFiles,
		Namespace: options.Namespace, Logger: options.Logger,
	})
	activities.Sweep = sweeps.Soon
	left, err := w.begin(starting)
	if err != nil {
		w.Stop()
		return nil, err
	}
	w.running.Go(func() { w.takeOver(ctx, left) })
	w.running.Go(func() { sweeps.Run(ctx, sweeper.Every) })
	w.running.Go(func() { w.recoverLost(ctx) })
	return w, nil
}

// begin does what needs Temporal, in an order: no experiment is driven before the
// orphans of the last host are failed. Those of trials are left to do; it returns
// the trials' workflows.
func (w *Workers) begin(ctx context.Context) (trials []string, err error) {
	if err := w.awaitTemporal(ctx); err != nil {
		return nil, err
	}
	if !w.options.Led {
		if err := Alone(ctx, w.options.Client, w.options.Record.ID(), w.options.StateID); err != nil {
			return nil, err
		}
	}
	experiments, trials, err := w.driven(ctx)
	if err != nil {
		return nil, err
	}
	w.failOrphans(ctx, experiments)
	added, err := w.options.SearchAttributes.Register(ctx, w.options.Client, w.options.Namespace)
	if err != nil {
		w.options.Logger.Warn("working without search attributes; starter doctor prints how to add them", "error", err)
	}
	if added {
		w.learned = time.Now().Add(learning)
	}
	w.version = w.deploy(ctx)
	w.experiments = w.worker(w.queues.Experiment(), worker.Options{MaxConcurrentWorkflowTaskPollers: experimentPollers})
	w.experiments.RegisterWorkflowWithOptions(workflows.Experiment, workflow.RegisterOptions{Name: workflows.ExperimentType})
	w.serving.begin()
	return trials, w.experiments.Start()
}

// Workflows returns a client of this host's workflows.
func (w *Workers) Workflows() workflows.Client {
	return workflows.Client{Temporal: w.options.Client, Queues: w.queues}
}

// Stop ends the workers in order and leaves every trial alone.
func (w *Workers) Stop() {
	if w.experiments != nil {
		w.experiments.Stop()
	}
	w.serving.end()
	w.cancel()
	activities.EndAlgorithms(w.acting, "")
	w.running.Wait()
}

func (w *Workers) activities() *activities.Activities {
	return &activities.Activities{
		Record: w.options.Record, Sections: w.options.Sections, Tuners: tuners.New, Assessors: assessors.New,
		Workflows: w.Workflows(), Environment: w.options.Environment, Variables: w.options.Variables,
		Queue: w.queue, Logger: w.options.Logger,
		Named: w.serving.want, Searchable: w.searchable, StateDirectory: w.options.StateDirectory, Keep: w.options.Keep, Fetch: w.options.Fetch,
	}
}

// searchable tells whether workflows can set their search attributes. A server
// that does not say so would fail them for it.
func (w *Workers) searchable(ctx context.Context) bool {
	if time.Now().Before(w.learned) {
		return false
	}
	missing, err := SearchAttributes(workflows.SearchAttributes()).Missing(ctx, w.options.Client, w.options.Namespace)
	return err == nil && len(missing) == 0
}

// PlatformQueue names the queue of each platform: of this very host where only it
// can act, and in a share of a record that others work on, too.
func PlatformQueue(queues workflows.Queues, registry platforms.Registry, seat string) func(name string) string {
	return func(name string) string {
		if registry[name].Traits.HostBound || queues.Share != "" {
			return queues.Platform(name, seat)
		}
		return queues.Platform(name, "")
	}
}

func (w *Workers) queue(platform string) string {
	return PlatformQueue(w.queues, w.options.Sections.Registry(), w.options.Seat)(platform)
}

// serve starts the workers of a platform's queues. Experiments have a queue of their
// own, or a parent would wait behind its children. What a workflow waits for is on its
// own queue, so that the worker that asks for it is given it at once. Trials of a
// platform that is served elsewhere can still be ended: that is in the record. Verbs
// that end by themselves have a queue of their own, which running attempts cannot fill.
func (w *Workers) serve(platform string, whole bool) (stop func(), err error) {
	if _, known := w.options.Sections.Registry()[platform]; !known {
		return func() {}, nil
	}
	started := w.trials(platform, whole)
	for i, worker := range started {
		if err := worker.Start(); err != nil {
			stopAll(started[:i])
			return nil, err
		}
	}
	return func() { stopAll(started) }, nil
}

// trials returns the workers of a platform's trials.
func (w *Workers) trials(platform string, whole bool) []worker.Worker {
	serves := whole && w.options.Sections.Serves(platform)
	options := worker.Options{LocalActivityWorkerOnly: !serves}
	if !whole {
		options.MaxConcurrentWorkflowTaskPollers = fewPollers
	}
	queue := w.queue(platform)
	trials := w.worker(queue, options)
	trials.RegisterWorkflowWithOptions(workflows.Trial, workflow.RegisterOptions{Name: workflows.TrialType})
	if !serves {
		return []worker.Worker{trials}
	}
	verbs := worker.Options{DisableWorkflowWorker: true, MaxConcurrentActivityTaskPollers: verbPollers}
	return []worker.Worker{trials, w.worker(workflows.Verbs(queue), verbs)}
}

func (w *Workers) rest(resting bool) {
	if w.options.Rest != nil {
		w.options.Rest(resting)
	}
}

func stopAll(workers []worker.Worker) {
	for _, worker := range workers {
		worker.Stop()
	}
}

// worker returns the worker of a queue, with the options that every worker has.
func (w *Workers) worker(queue string, options worker.Options) worker.Worker {
	options.Identity, options.DeploymentOptions = Identity(w.options.StateID, w.options.Nonce), w.version
	options.Interceptors, options.WorkerStopTimeout = []interceptor.WorkerInterceptor{&w.arrivals}, workerStopTimeout
	options.MaxConcurrentWorkflowTaskPollers = cmp.Or(options.MaxConcurrentWorkflowTaskPollers, pollers)
	options.MaxConcurrentActivityTaskPollers = cmp.Or(options.MaxConcurrentActivityTaskPollers, activityPollers)
	options.MaxConcurrentActivityExecutionSize = atOnceWaiting
	worker := worker.New(w.options.Client, queue, options)
	worker.RegisterActivity(w.acting)
	return worker
}
