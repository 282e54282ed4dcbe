package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/activities/poller"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/starter/host"
)

// adoptEvery is how often a worker looks for shares of others that are gone.
const adoptEvery = 1500 * time.Millisecond

// keptIdle is how long a share is driven at least, unless its own worker wants it: what was
// submitted to that one may come to light late.
const keptIdle = time.Hour

// adoption drives, beside a worker's own share of the record, those of workers that are
// gone: until all is done, or until a share's own worker is back and wants it.
type adoption struct {
	*observation
	running  host.Running
	temporal client.Client
	vigil    record.Vigil
	missed   map[string]string // shares that cannot be driven here → what was said about it
	said     string            // what went wrong at the last look
}

// adopted is a share that is driven meanwhile.
type adopted struct {
	*observation
	since time.Time
	whole bool          // its own worker is gone for good: what ran on that one's machine is, too
	lost  chan struct{} // closed once another drives it
	stop  func()
}

// adopt begins to look, and returns what ends it and hands back what was adopted.
func (e *engine) adopt(running host.Running, own *observation, temporal client.Client) (stop func()) {
	if e.external == nil || !own.store.Shared() {
		return func() {}
	}
	a := &adoption{observation: own, running: running, temporal: temporal, missed: map[string]string{}}
	ctx, cancel := context.WithCancel(own.asked)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.run(ctx)
	}()
	return func() { cancel(); <-ended }
}

func (a *adoption) run(ctx context.Context) {
	ticker := time.NewTicker(adoptEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			a.handBack(func(*adopted) bool { return true })
			return
		case <-ticker.C:
		}
		a.handBack(func(share *adopted) bool { return share.over(ctx) })
		a.complain(ctx, a.look(ctx))
	}
}

// complain says what goes wrong, once.
func (a *adoption) complain(ctx context.Context, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != a.said && ctx.Err() == nil {
		a.log.Warn("look for experiments whose worker is gone; trying again", "error", text)
	}
	a.said = text
}

// over tells whether this worker should not drive a share any longer.
func (s *adopted) over(ctx context.Context) bool {
	select {
	case <-s.lost:
		return true
	default:
	}
	wanted, err := s.store.Wanted(ctx)
	if wanted || err != nil {
		return wanted
	}
	if deserted, err := s.store.Deserted(ctx, s.store.Share()); deserted && err == nil && !s.whole {
		return true // to be adopted whole
	}
	if time.Since(s.since) < keptIdle {
		return false
	}
	idle, err := s.store.Idle(ctx)
	return idle && err == nil
}

// handBack stops driving some shares, all at once: each takes as long as its activities do.
func (a *adoption) handBack(which func(*adopted) bool) {
	var ending sync.WaitGroup
	for name, share := range a.adopted.all() {
		if which(share) {
			ending.Go(share.stop)
			a.adopted.remove(name)
			a.log.Info("handed back the experiments of another worker", "share", name)
		}
	}
	ending.Wait()
}

// look adopts what nobody drives.
func (a *adoption) look(ctx context.Context) error {
	orphaned, err := a.store.Orphaned(ctx, &a.vigil)
	for _, name := range orphaned {
		if _, here := a.adopted.all()[name]; here || name == a.store.Share() {
			continue // it would take its own place
		}
		closed, failed := a.closed(ctx, name)
		if closed || failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		err = errors.Join(err, a.begin(ctx, name))
	}
	return err
}

// closed tells whether a share's last worker has sealed with a key that is not here. It is
// said once.
func (a *adoption) closed(ctx context.Context, share string) (bool, error) {
	all, err := a.store.Workers(ctx)
	present, wrong := a.present()
	if err = errors.Join(err, wrong); err != nil {
		return false, err
	}
	for _, last := range all {
		if key := missingKey(present(), last); key != "" && slices.Contains(last.Shares, share) {
			if a.missed[share] != key {
				a.log.Warn("experiments of a worker that is gone wait: copy the key from keys/ of its state directory into that of this one",
					"machine", last.Machine, "key", key)
			}
			a.missed[share] = key
			return true, nil
		}
	}
	return false, nil
}

// missingKey is the key that one worker seals with and another has not, empty where it has.
func missingKey(here record.Presence, there record.Worker) string {
	if len(there.Keys) == 0 {
		return ""
	}
	if key := there.Keys[len(there.Keys)-1]; !slices.Contains(here.Keys, key) {
		return key
	}
	return ""
}

// begin drives a share, unless another worker was quicker.
func (a *adoption) begin(ctx context.Context, name string) error {
	whole, err := a.store.Deserted(ctx, name)
	if err != nil {
		return err
	}
	store, err := record.Open(a.record.Location)
	if err != nil {
		return err
	}
	only := a.only
	if !whole {
		only = a.anywhere()
	}
	share := &adopted{since: time.Now(), whole: whole, lost: make(chan struct{}),
		observation: &observation{engine: a.engine, dir: a.dir, log: a.log, asked: ctx, only: only, kinds: a.kinds, store: store}}
	share.stop = func() { store.Close() }
	err = a.drive(ctx, name, share)
	if err != nil {
		share.stop()
	}
	var living *record.HeldError
	if errors.As(err, &living) {
		return nil
	}
	return err
}

// anywhere are the platforms that this worker can act on as well as the one that is gone: what runs
// on that one's machine, that one alone can tell of. It is never empty, which would mean all.
func (a *adoption) anywhere() []string {
	names := []string{""}
	for name, kind := range a.kinds {
		if !kind.Traits.RunsHere && (len(a.only) == 0 || slices.Contains(a.only, name)) {
			names = append(names, name)
		}
	}
	return names
}

func (a *adoption) drive(ctx context.Context, name string, share *adopted) error {
	about := a.store.Leader()
	err := share.store.Lead(ctx, record.Leader{Directory: about.Directory, Machine: about.Machine,
		Wants: record.Wish{Share: name, Meanwhile: !share.whole}, Lost: func(error) { close(share.lost) }})
	if err != nil {
		return err
	}
	if err := share.unpack(ctx, a.log); err != nil {
		return err
	}
	share.sections = poller.Observe(poller.Options{
		Registry: a.kinds, Only: share.only, Sections: activities.SectionsOf(share.store, share.kept()), Record: share.store, Logger: a.log,
	})
	share.stop = func() { share.sections.Stop(); share.store.Close() }
	started, err := a.startWorkers(ctx, a.running, share.observation, a.temporal)
	if err != nil {
		return err
	}
	share.stop = func() { started.Stop(); share.sections.Stop(); share.store.Close() }
	a.adopted.add(name, share)
	a.log.Info("drives the experiments of a worker that is gone", "share", name)
	return nil
}

// adoptions are the shares that a worker drives beside its own.
type adoptions struct {
	mutex  sync.Mutex
	shares map[string]*adopted
}

func (a *adoptions) all() map[string]*adopted {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return maps.Clone(a.shares)
}

func (a *adoptions) add(name string, share *adopted) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.shares == nil {
		a.shares = map[string]*adopted{}
	}
	a.shares[name] = share
}

func (a *adoptions) remove(name string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	delete(a.shares, name)
}

// names are the shares' names, in order.
func (a *adoptions) names() []string { return slices.Sorted(maps.Keys(a.all())) }
