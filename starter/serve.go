package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/activities/poller"
	"github.com/perennial-ml/perennial/experiment/secrets"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/runner/binary"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/starter/command"
	"github.com/perennial-ml/perennial/starter/host"
	"github.com/perennial-ml/perennial/telemetry"
	"github.com/perennial-ml/perennial/workers"
	"github.com/perennial-ml/perennial/workers/codec"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
)

// Serve implements command.Engine.
func (e *engine) Serve(ctx context.Context, how command.Serving) error {
	dir, err := host.Open(e.home)
	if err != nil {
		return err
	}
	if err := known(how.Platforms); err != nil {
		return err
	}
	limit, err := idleLimitOf(how.Background, os.Getenv(idleVariable))
	if err != nil {
		return err
	}
	worker.SetBinaryChecksum(command.Version) // else each start reads and hashes the whole program
	ctx, replaced := context.WithCancelCause(ctx)
	defer replaced(nil)
	observed := &observation{engine: e, dir: dir, asked: ctx, replaced: replaced, waiting: how.Waiting, only: how.Platforms, listen: how.Listen}
	config := host.Config{Dir: dir, Version: command.Version, Before: observed.begin, After: observed.end, Dashboard: observed.pages.address, Service: e.service(how, limit, observed)}
	if e.external != nil {
		if err := e.external.serve(&config); err != nil {
			return err
		}
	}
	hostLog, err := dir.OpenLog()
	if err != nil {
		return err
	}
	defer hostLog.Close()
	if how.Background {
		if err := hostLog.Capture(); err != nil {
			return err
		}
	}
	config.Log = hostLog
	return errors.Join(host.Serve(ctx, config), placeTaken(ctx))
}

// placeTaken is why a host ended that nobody asked to.
func placeTaken(ctx context.Context) error {
	if err := context.Cause(ctx); errors.Is(err, record.ErrFenced) {
		return err
	}
	return nil
}

// observation is the record of a host and what observes for it, which does not
// wait for the server.
type observation struct {
	*engine
	dir      host.Dir
	log      *slog.Logger
	asked    context.Context         // ends when the host is asked to
	replaced context.CancelCauseFunc // ends the host whose place another has taken
	waiting  func(holder string)     // see command.Serving
	only     []string
	kinds    platforms.Registry
	store    *record.Store // leads a share of the record
	sections *poller.Sections
	adopted  adoptions
	pages    dashboardServer
	listen   command.Listening
	beyond   listening
	metrics  monitoring
}

func (o *observation) begin(log *slog.Logger) error {
	runner, err := binary.Install(filepath.Join(o.home, "runner"))
	if err != nil {
		return err
	}
	if err := o.open(log); err != nil {
		return err
	}
	if err := o.pages.start(o.engine, o.store); err != nil {
		return err
	}
	o.pages.nni.reopen(func(err error) { log.Warn("not opened again", "error", err) })
	if err := o.beyond.start(o.listen, o.home, &o.pages, log); err != nil {
		return err
	}
	if err := o.metrics.start(os.Getenv(metricsVariable), o.dir, o.store); err != nil {
		return err
	}
	o.kinds = o.registry(runner)
	o.sections = poller.Observe(poller.Options{
		Registry: o.kinds, Only: o.only, Sections: activities.SectionsOf(o.store, o.kept()), Record: o.store, Logger: log,
	})
	return nil
}

// open opens the record, as the only one who works on it or, with a Temporal that others
// share, on a part of its experiments.
func (o *observation) open(log *slog.Logger) error {
	if o.homeless != nil {
		return o.homeless
	}
	o.log = log
	var err error
	if o.store, err = record.Open(o.record.Location); err != nil {
		return err
	}
	present, err := o.present()
	if err != nil {
		return errors.Join(err, o.store.Close())
	}
	about := present()
	leader := record.Leader{Directory: about.Directory, Machine: about.Machine, Present: present, Lost: func(lost error) {
		log.Error("host ends", "error", lost)
		o.replaced(lost)
	}, Wants: record.Wish{Own: o.external != nil}}
	if o.waiting != nil {
		leader.Waiting = func(living *record.HeldError) { o.waiting(living.Holder) }
	}
	if err := o.store.Lead(o.asked, leader); err != nil {
		return errors.Join(err, o.store.Close())
	}
	if err := o.record.Keep(o.dir); err != nil {
		return err
	}
	if !o.store.Shared() {
		return nil
	}
	if o.external == nil {
		if err := o.undivided(); err != nil {
			return err
		}
	}
	// The keys are there from the beginning, to be copied to other machines.
	if _, err := codec.Open(o.dir.Keys()); err != nil {
		return err
	}
	if err := o.store.Appear(o.asked); err != nil {
		return err
	}
	return o.unpack(o.asked, log)
}

// undivided refuses a record with experiments of several workers: one with a Temporal of its own
// is alone, and nobody would drive those of the others.
func (o *observation) undivided() error {
	divided, err := o.store.Divided(o.asked)
	if err == nil && divided {
		err = errors.New("experiments of several workers are under way on this record: go on with the Temporal that they share " +
			"(TEMPORAL_ADDRESS), or stop them there before a host with a Temporal of its own works on it")
	}
	return err
}

// idle tells whether there is nothing to do and nobody looks.
func (o *observation) idle(ctx context.Context) (bool, error) {
	idle, err := o.store.Idle(ctx)
	return idle && len(o.adopted.all()) == 0 && !o.pages.visited(), err
}

func (o *observation) end() {
	o.beyond.stop()
	o.pages.stop()
	o.metrics.stop()
	if o.sections != nil {
		o.sections.Stop()
	}
	if o.store != nil {
		o.store.Close()
	}
}

// service is what runs beside the server: the workers on this state directory.
func (e *engine) service(how command.Serving, limit time.Duration, observed *observation) host.Service {
	return func(ctx context.Context, running host.Running) error {
		ctx, end := untilIdle(ctx, limit, observed.idle, func() {
			running.Log.Info("nothing to do: the next command that needs a host starts one", "for", limit)
		})
		defer end()
		stop, err := e.work(ctx, running, observed)
		if err != nil {
			return err
		}
		if found, err := e.Find(ctx); err == nil {
			how.Ready(found)
		}
		<-ctx.Done()
		stop()
		return nil
	}
}

// work starts the workers and returns what stops them.
func (e *engine) work(ctx context.Context, running host.Running, observed *observation) (stop func(), err error) {
	temporal, disconnect, err := connect(running)
	if err != nil {
		return nil, err
	}
	started, err := e.startWorkers(ctx, running, observed, temporal)
	if err != nil {
		disconnect()
		return nil, err
	}
	observed.metrics.begun(temporal)
	giveUp := e.adopt(running, observed, temporal)
	return func() {
		var ending sync.WaitGroup
		ending.Go(giveUp)
		started.Stop()
		ending.Wait()
		disconnect()
	}, nil
}

// connect makes a client that connects when it is first used: workers wait for a Temporal
// that is away.
func connect(running host.Running) (temporal client.Client, disconnect func(), err error) {
	options := running.Client
	options.Identity = workers.Identity(running.Dir.StateID(), running.Nonce)
	options.Logger = log.NewStructuredLogger(running.Log)
	options, flush, err := telemetry.Instrument(options, os.Getenv)
	if err != nil {
		return nil, nil, err
	}
	temporal, err = client.NewLazyClient(options)
	if err != nil {
		flush()
		return nil, nil, fmt.Errorf("reach Temporal: %w", err)
	}
	return temporal, func() { temporal.Close(); flush() }, nil
}

func (e *engine) startWorkers(ctx context.Context, running host.Running, observed *observation, temporal client.Client) (*workers.Workers, error) {
	seat, err := observed.store.Seat(ctx, observed.store.Share(), running.Dir.StateID())
	if err != nil {
		return nil, err
	}
	return workers.Start(ctx, workers.Options{
		Client: temporal, Namespace: running.Client.Namespace, Record: observed.store, Sections: observed.sections,
		Environment: e.environment, Variables: e.variables, StateID: running.Dir.StateID(), Seat: seat, Keep: observed.keep, Fetch: observed.fetch, StateDirectory: e.home, Nonce: running.Nonce, Logger: running.Log,
		Led: observed.store.Led(), BuildID: e.buildID(), SearchAttributes: e.attributes(), Rest: observed.rest(),
	})
}

// rest is how this process rests; it never does where it may drive several shares.
func (o *observation) rest() func(resting bool) {
	if o.store.Shared() {
		return nil
	}
	return rest
}

// buildID names this build in a Worker Deployment. The embedded server has one
// worker at a time, whose workflows go on with whatever comes next.
func (e *engine) buildID() string {
	if e.external == nil {
		return ""
	}
	return command.Version
}

// attributes are the search attributes to register; the embedded server has them.
func (e *engine) attributes() workers.SearchAttributes {
	if e.external == nil {
		return nil
	}
	return attributes()
}

// secrets resolves what a platform's section refers to, by the secret file and the
// environment that were kept when the experiment was run.
func (e *engine) secrets(experiment string, options json.RawMessage) (json.RawMessage, error) {
	return secrets.Resolve(options, secrets.Sources{
		File:      command.SecretsFile(e.home, experiment),
		LookupEnv: func(name string) (string, bool) { return e.lookupEnv(experiment, name) },
	})
}

// variables are those of whoever ran an experiment, as far as this host knows them.
func (e *engine) variables(experiment string) []string {
	kept, err := rundir.ReadEnvironment(command.EnvironmentFile(e.home, experiment))
	if err != nil {
		return os.Environ()
	}
	return kept.Variables
}

// environment is the file with the environment of whoever ran an experiment,
// empty where there is none.
func (e *engine) environment(experiment string) string {
	path := command.EnvironmentFile(e.home, experiment)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}
