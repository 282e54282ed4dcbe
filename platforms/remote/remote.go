// Package remote runs trials on machines that are reached by SSH, NNI's platform
// "remote".
//
// On each machine an agent, the runner's own binary, speaks for the runs there over
// one connection (package agent). It keeps nothing: when the link goes the runs go
// on, and the next connection starts another. Nothing is installed and no port is
// opened on either side.
//
// Which machine has which attempt is written down, durably, before anything is
// started there: so a repeated Submit goes to the same machine, and List needs none.
// A machine that cannot be reached makes its runs Unreachable and nothing else.
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perennial-ml/perennial/machine"
	"github.com/perennial-ml/perennial/machine/agent"
	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/machines"
	"github.com/perennial-ml/perennial/trial"
)

// Name is the platform's name in configurations and handles.
const Name = "remote"

// handleFormat is the number of Handle.Data, which is a placement.
const handleFormat = 1

// pollInterval is how often machines are asked, one round trip each.
const pollInterval = time.Second

// Options say what the platform stands on.
type Options struct {
	StateDirectory string // absolute, on a disk of this machine
	// Runner returns the runner's binary for a kind of machine, as Go names them.
	Runner func(system, processor string) ([]byte, error)
}

// kind is what all sections have in common: the machines, whoever names them, and
// where each attempt is.
type kind struct {
	Options
	placements placements
	ended      platforms.Ends
	life       atomic.Pointer[life]

	mutex  sync.Mutex
	opened int // sections
	hosts  map[Address]*host
	turns  int // of placement, for ties
}

// life is the time in which sections are open.
type life struct {
	ctx  context.Context
	stop context.CancelFunc
}

type platform struct {
	*kind
	section platforms.Section
	known   atomic.Pointer[section] // as it was read last
	ends    <-chan trial.Key
	close   func()
}

var (
	_ platforms.WithLogs    = (*platform)(nil)
	_ platforms.WithCleanup = (*platform)(nil)
	_ platforms.WithRemoval = (*platform)(nil)
	_ platforms.WithEnds    = (*platform)(nil)
)

// New returns the kind. It reaches nobody yet. One look at a run is definite, since a
// lock of the machine's kernel answers it.
func New(options Options) platforms.Kind {
	k := newKind(options)
	return platforms.Kind{
		Traits: platforms.Traits{Name: Name, HostBound: true, CopiesCode: true, KeepsIntent: true, PollInterval: pollInterval, Losable: 1},
		Check:  CheckOptions,
		Open:   func(section platforms.Section) platforms.Platform { return k.open(section) },
		Probe:  k.probe,
	}
}

func newKind(options Options) *kind {
	return &kind{Options: options, placements: newPlacements(filepath.Join(options.StateDirectory, "platforms", Name)), hosts: map[Address]*host{}}
}

func (k *kind) open(section platforms.Section) *platform {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.opened++; k.opened == 1 {
		ctx, stop := context.WithCancel(context.Background())
		k.life.Store(&life{ctx, stop})
	}
	p := &platform{kind: k, section: section}
	ends, stop := k.ended.Listen(section.Experiment)
	p.ends, p.close = ends, sync.OnceFunc(func() { stop(); k.release() })
	return p
}

// release closes the connections with the last section.
func (k *kind) release() {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.opened--; k.opened > 0 {
		return
	}
	k.life.Load().stop()
	for _, h := range k.hosts {
		h.close()
	}
}

// ctx ends when no section is open any more.
func (k *kind) ctx() context.Context { return k.life.Load().ctx }

// Ends implements platforms.WithEnds.
func (p *platform) Ends() <-chan trial.Key { return p.ends }

// Close implements platforms.Platform. The connections are closed with the last
// section.
func (p *platform) Close() error {
	p.close()
	return nil
}

// List implements platforms.Platform, from what was written down before anything
// was started.
func (p *platform) List(_ context.Context, keys ...trial.Key) ([]platforms.Handle, error) {
	all, err := p.placements.List(p.section.Experiment, keys...)
	if err != nil {
		return nil, machines.Fault("list", err)
	}
	var handles []platforms.Handle
	for _, placed := range all {
		handles = append(handles, placed.handle())
	}
	return handles, nil
}

// located finds where a handle's run is, also where it has no Data; nil where
// nobody ever placed it.
func (p *platform) located(handle platforms.Handle) (*placement, error) {
	if handle.Format > handleFormat {
		return nil, errors.New("the handle was made by a newer version: use that one")
	}
	if len(handle.Data) == 0 {
		return p.placements.find(handle.Key)
	}
	placed := &placement{}
	err := json.Unmarshal(handle.Data, placed)
	placed.Key = handle.Key
	return placed, err
}

// Cancel implements platforms.Platform. A run that nobody placed is kept from ever
// starting by a placement that says so.
func (p *platform) Cancel(ctx context.Context, handle platforms.Handle, intent trial.Intent) error {
	placed, err := p.located(handle)
	if err == nil && placed == nil {
		placed, err = p.placements.add(placement{Key: handle.Key, Never: &intent})
	}
	if err != nil {
		return machines.Fault("cancel", err)
	}
	// Of a machine that was given up the runner has ended the run by itself, or
	// supersedeOn does when it comes back: nobody may wait for that.
	if placed.Never != nil || p.lost(*placed) {
		return nil
	}
	return p.on(ctx, *placed, "cancel", func(client *agent.Client) error {
		return client.Cancel(ctx, machine.Ref{Key: handle.Key}, intent)
	})
}

// on does something with the agent of the machine that has a run.
func (p *platform) on(ctx context.Context, placed placement, verb string, do func(*agent.Client) error) error {
	host, err := p.hostOf(ctx, placed.Address)
	if err == nil {
		err = host.doFor(ctx, placed, do)
	}
	return faultAt(verb, placed.Address, err)
}

// Collect implements platforms.Platform.
func (p *platform) Collect(ctx context.Context, handle platforms.Handle, after platforms.Cursor) (records []metrics.Record, next platforms.Cursor, err error) {
	placed, err := p.located(handle)
	if err != nil || placed == nil || placed.Never != nil {
		return nil, after, machines.Fault("collect", err)
	}
	if p.lost(*placed) {
		return nil, after, platforms.Errorf(platforms.NotFound, "collect", "%s was given up, and the journal with it", placed.Address)
	}
	var read machine.Cursor
	err = p.on(ctx, *placed, "collect", func(client *agent.Client) error {
		records, read, err = client.Collect(ctx, machine.Ref{Key: handle.Key}, machine.Cursor(after))
		return err
	})
	if err != nil {
		return nil, after, err
	}
	return records, platforms.Cursor(read), nil
}

// CleanUp implements platforms.WithCleanup, on every machine of the section. The
// packed code stays here: the experiment may be resumed, and runs what it began with.
func (p *platform) CleanUp(ctx context.Context) error {
	return p.everywhere(ctx, "clean up", func(client *agent.Client) error { return client.CleanUp(ctx, p.section.Experiment) })
}

// Remove implements platforms.WithRemoval, on every machine of the section.
func (p *platform) Remove(ctx context.Context) error {
	err := p.everywhere(ctx, "remove", func(client *agent.Client) error { return client.Remove(ctx, p.section.Experiment) })
	if err != nil {
		return err
	}
	return os.RemoveAll(p.placements.Folder(p.section.Experiment))
}

// everywhere has all machines of the section do something.
func (p *platform) everywhere(ctx context.Context, verb string, do func(*agent.Client) error) error {
	s, err := p.read(ctx, verb)
	if err != nil {
		return err
	}
	faults := make([]error, len(s.Machines))
	var group sync.WaitGroup
	for i, m := range s.Machines {
		group.Go(func() {
			faults[i] = faultAt(verb, m.Address, p.host(m).do(ctx, func(up *link) error { return do(up.client) }))
		})
	}
	group.Wait()
	return errors.Join(faults...)
}

// read returns the section as it is now.
func (p *platform) read(ctx context.Context, verb string) (section, error) {
	options, err := p.section.Options(ctx)
	if err != nil {
		return section{}, err
	}
	s, err := parse(options)
	if err != nil {
		return s, platforms.Errorf(platforms.Invalid, verb, "%w", err)
	}
	p.known.Store(&s)
	return s, nil
}

// probe looks for what every section needs of this machine.
func (k *kind) probe(context.Context) []trial.Reason {
	if _, err := k.Runner("linux", "amd64"); err != nil {
		return []trial.Reason{{Code: "runner-missing", Text: err.Error()}}
	}
	return nil
}
