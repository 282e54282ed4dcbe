package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/starter/host"
)

// staff are the workers of a record that several may share, those that live and wait for
// nothing.
type staff struct {
	store   *record.Store
	working []record.Worker
	here    *record.Worker // that of this state directory, nil where there is none
}

// consult asks who works on the record. It asks nobody where the record is for one worker, or
// is not there yet.
func (e *engine) consult(ctx context.Context, ask func(staff) error) error {
	if e.external == nil || !record.InPostgres(e.record.Location) {
		return nil
	}
	store, err := e.readRecord()
	if errors.Is(err, record.ErrNotFound) || errors.Is(err, record.ErrOlder) {
		return nil // a host of this version makes it, or brings it up to date
	}
	if err != nil {
		return err
	}
	defer store.Close()
	all, err := store.Workers(ctx)
	if err != nil {
		return err
	}
	found := staff{store: store, working: slices.DeleteFunc(all, func(w record.Worker) bool { return w.Waits || w.Silent || len(w.Shares) == 0 })}
	machine, _ := os.Hostname() // without a name it is nobody's
	for i, w := range found.working {
		if w.Directory == host.IDOf(e.home) && w.Machine == machine {
			found.here = &found.working[i]
		}
	}
	return ask(found)
}

// elsewhere returns the worker that is to drive what is submitted here, where that is none of
// this state directory: once chosen the same for as long as it lives, else the one with the
// fewest experiments. It is nil where there is none.
func (e *engine) elsewhere(ctx context.Context) (worker *record.Worker, err error) {
	return worker, e.consult(ctx, func(s staff) (err error) {
		worker, err = e.choose(ctx, s)
		return err
	})
}

func (e *engine) choose(ctx context.Context, s staff) (*record.Worker, error) {
	if s.here != nil || len(s.working) == 0 {
		return nil, nil
	}
	loads, err := s.store.Loads(ctx)
	if err != nil {
		return nil, err
	}
	experiments := func(w record.Worker) (all int) {
		for _, share := range w.Shares {
			all += loads[share].Experiments
		}
		return all
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if !slices.ContainsFunc(s.working, func(w record.Worker) bool { return w.Identity == e.chosen.Identity }) {
		e.chosen = slices.MinFunc(s.working, func(a, b record.Worker) int { return cmp.Compare(experiments(a), experiments(b)) })
	}
	chosen := e.chosen
	return &chosen, nil
}

// shareOf names the share of an experiment, and for a new one that of the worker which is to
// drive it.
func (e *engine) shareOf(ctx context.Context, experiment string) (share string, err error) {
	return share, e.consult(ctx, func(s staff) (err error) {
		if share, err = s.store.ShareOf(ctx, experiment); errors.Is(err, record.ErrNotFound) {
			share, err = e.newShare(ctx, s)
		}
		return err
	})
}

// newShare names the share of what is submitted here.
func (e *engine) newShare(ctx context.Context, s staff) (string, error) {
	if s.here != nil {
		return s.here.Shares[0], nil
	}
	worker, err := e.choose(ctx, s)
	if worker == nil {
		return "", err
	}
	return worker.Shares[0], nil
}

// driver returns the worker of an experiment, nil where none lives; for an empty id that of
// those which are submitted here.
func (e *engine) driver(ctx context.Context, experiment string) (worker *record.Worker, err error) {
	share, err := e.shareOf(ctx, experiment)
	if err != nil {
		return nil, err
	}
	return worker, e.consult(ctx, func(s staff) error {
		for i, w := range s.working {
			if slices.Contains(w.Shares, share) {
				worker = &s.working[i]
			}
		}
		return nil
	})
}
