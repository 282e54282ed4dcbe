package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/all"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/runner/binary"
	"github.com/perennial-ml/perennial/starter/command"
	"github.com/perennial-ml/perennial/starter/host"
	"github.com/perennial-ml/perennial/workers"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
)

// Serve implements command.Engine.
func (e *engine) Serve(ctx context.Context, how command.Serving) error {
	dir, err := host.Open(e.home)
	if err != nil {
		return err
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
	return host.Serve(ctx, host.Config{Dir: dir, Version: command.Version, Log: hostLog, Service: e.service(how)})
}

// service is what runs beside the server: the workers on this state directory.
func (e *engine) service(how command.Serving) host.Service {
	return func(ctx context.Context, running host.Running) error {
		store, err := record.Open(command.RecordFile(e.home))
		if err != nil {
			return err
		}
		stop, err := e.work(ctx, running, store)
		if err != nil {
			return errors.Join(err, store.Close())
		}
		if found, err := e.Find(ctx); err == nil {
			how.Ready(found)
		}
		<-ctx.Done()
		stop()
		return store.Close()
	}
}

// work starts the workers and returns what stops them.
func (e *engine) work(ctx context.Context, running host.Running, store *record.Store) (stop func(), err error) {
	runner, err := binary.Install(filepath.Join(e.home, "runner"))
	if err != nil {
		return nil, err
	}
	options := running.Client
	options.Identity = workers.Identity(running.Dir.StateID(), running.Nonce)
	options.Logger = log.NewStructuredLogger(running.Log)
	temporal, err := client.DialContext(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("reach Temporal: %w", err)
	}
	started, err := workers.Start(ctx, workers.Options{
		Client: temporal, Namespace: options.Namespace, Record: store, Platforms: here(runner, e.home),
		Environment: e.environment, StateID: running.Dir.StateID(), Nonce: running.Nonce, Logger: running.Log,
	})
	if err != nil {
		temporal.Close()
		return nil, err
	}
	return func() { started.Stop(); temporal.Close() }, nil
}

// here are the platforms of this host.
func here(runner, home string) []platforms.Platform {
	var list []platforms.Platform
	for _, construct := range all.All(all.Options{Runner: runner, StateDirectory: home}) {
		list = append(list, construct())
	}
	return list
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
