package main

import (
	"context"
	"errors"
	"maps"
	"os"
	"time"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/starter/command"
	"github.com/perennial-ml/perennial/starter/host"
	"github.com/perennial-ml/perennial/workers"
	"github.com/perennial-ml/perennial/workers/codec"
	"github.com/perennial-ml/perennial/workflows"
	"go.temporal.io/sdk/client"
)

// present returns what tells the other workers of this one: its keys may change.
func (o *observation) present() (func() record.Presence, error) {
	info, _, err := host.Find(o.dir)
	if err != nil {
		return nil, err
	}
	about, err := presenceOf(info, o.dir.StateID())
	about.Platforms = o.only
	return func() record.Presence {
		told := about
		if o.store != nil && o.store.Led() {
			told.Shares = append([]string{o.store.Share()}, o.adopted.names()...)
		}
		if ring, err := codec.Read(o.dir.Keys()); err == nil {
			told.Keys = ring.IDs()
		}
		return told
	}, err
}

func presenceOf(info host.Info, directory string) (record.Presence, error) {
	machine, err := os.Hostname()
	return record.Presence{Identity: workers.Identity(directory, info.Nonce), Directory: directory, Machine: machine,
		Process: info.PID, Version: info.Version, Since: info.Started}, err
}

// Workers implements command.Engine.
func (e *engine) Workers(ctx context.Context) (command.Workers, error) {
	found := command.Workers{Home: host.IDOf(e.home)}
	store, err := e.readRecord()
	switch {
	case err == nil:
		defer store.Close()
		found.All, err = store.Workers(ctx)
	case errors.Is(err, record.ErrNotFound):
		err = nil
	}
	if err == nil && (store == nil || !store.Shared()) {
		found.All, err = e.onlyWorker()
	}
	if err != nil || e.external == nil || store == nil {
		return found, err
	}
	found.Polled, found.Temporal = e.polled(ctx, store.ID(), found.All)
	return found, nil
}

// onlyWorker is the host of a state directory that has its own record.
func (e *engine) onlyWorker() ([]record.Worker, error) {
	if _, err := e.Find(context.Background()); err != nil {
		if errors.Is(err, command.ErrNoHost) {
			err = nil
		}
		return nil, err
	}
	dir, err := host.Open(e.home)
	if err != nil {
		return nil, err
	}
	info, _, err := host.Find(dir)
	if err != nil {
		return nil, err
	}
	about, err := presenceOf(info, dir.StateID())
	return []record.Worker{{Presence: about, Heard: time.Now()}}, err
}

// polled tells when each worker last asked Temporal for an experiment's work.
func (e *engine) polled(ctx context.Context, id string, all []record.Worker) (last map[string]time.Time, err error) {
	last = map[string]time.Time{}
	return last, e.external.with(ctx, func(ctx context.Context, temporal client.Client) error {
		for _, worker := range all {
			if len(worker.Shares) == 0 || worker.Silent {
				continue
			}
			polled, err := workers.Polled(ctx, temporal, workflows.Queues{Record: id, Share: worker.Shares[0]}.Experiment())
			if err != nil {
				return err
			}
			maps.Copy(last, polled)
		}
		return nil
	})
}
