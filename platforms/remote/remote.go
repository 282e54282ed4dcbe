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
	"path/filepath"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/agent"
	"github.com/perennial-ml/perennial/runner/runs"
	"github.com/perennial-ml/perennial/trial"
)

// Name is the platform's name in configurations and handles.
const Name = "remote"

// handleFormat is the number of Handle.Data, which is a placement.
const handleFormat = 1

// pollInterval is how often machines are asked, one round trip each.
const pollInterval = time.Second

// endsKept is how many ends wait to be heard of.
const endsKept = 1024

// Options say what the platform stands on.
type Options struct {
	StateDirectory string // absolute, on a disk of this machine
	// Runner returns the runner's binary for a kind of machine, as Go names them.
	Runner func(system, processor string) ([]byte, error)
	// Sections returns every section of this platform in an experiment, secrets
	// resolved. They are kept in memory only.
	Sections func(experiment string) ([]json.RawMessage, error)
	// LookupEnv finds variables of whoever ran the experiment: SSH_AUTH_SOCK.
	LookupEnv func(experiment, name string) (string, bool)
}

type platform struct {
	Options
	placements placements
	journals   journals
	limits     sync.Map // experiment → hostLostAfter
	ends       chan trial.Key
	ctx        context.Context // ends with Close
	stop       context.CancelFunc

	mutex sync.Mutex
	hosts map[Address]*host
	turns int // of placement, for ties
}

var (
	_ platforms.WithLogs    = (*platform)(nil)
	_ platforms.WithCleanup = (*platform)(nil)
	_ platforms.WithProbe   = (*platform)(nil)
	_ platforms.WithEnds    = (*platform)(nil)
)

// New returns the platform. It reaches nobody yet.
func New(options Options) platforms.Platform {
	if options.LookupEnv == nil {
		options.LookupEnv = func(string, string) (string, bool) { return "", false }
	}
	p := &platform{
		Options: options, placements: newPlacements(filepath.Join(options.StateDirectory, "platforms", Name)),
		ends: make(chan trial.Key, endsKept), hosts: map[Address]*host{},
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// Traits implements platforms.Platform. One look is definite, since a lock of the
// machine's kernel answers it.
func (p *platform) Traits() platforms.Traits {
	return platforms.Traits{Name: Name, NNIPlatform: "remote", HostBound: true, CopiesCode: true, PollInterval: pollInterval, Losable: 1}
}

// Ends implements platforms.WithEnds.
func (p *platform) Ends() <-chan trial.Key { return p.ends }

func (p *platform) tellEnd(key trial.Key) {
	select {
	case p.ends <- key:
	default:
	}
}

// Close implements platforms.Platform. It closes the connections.
func (p *platform) Close() error {
	p.stop()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, h := range p.hosts {
		h.close()
	}
	return nil
}

// List implements platforms.Platform, from what was written down before anything
// was started.
func (p *platform) List(_ context.Context, experiment string) ([]platforms.Handle, error) {
	all, err := p.placements.List(experiment)
	if err != nil {
		return nil, runs.Fault("list", err)
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
		return runs.Fault("cancel", err)
	}
	// Of a machine that was given up the runner has ended the run by itself, or
	// supersedeOn does when it comes back: nobody may wait for that.
	if placed.Never != nil || p.lost(*placed) {
		return nil
	}
	return p.on(ctx, *placed, "cancel", func(client *agent.Client) error {
		return client.Cancel(ctx, runs.Ref{Key: handle.Key}, intent)
	})
}

// on does something with the agent of the machine that has a run.
func (p *platform) on(ctx context.Context, placed placement, verb string, do func(*agent.Client) error) error {
	host, err := p.hostOf(placed.Key.Experiment, placed.Address)
	if err == nil {
		err = host.doFor(ctx, placed, do)
	}
	return faultAt(verb, placed.Address, err)
}

// Collect implements platforms.Platform. What came along with the last Poll is not
// asked for again.
func (p *platform) Collect(ctx context.Context, handle platforms.Handle, after platforms.Cursor) (records []metrics.Record, next platforms.Cursor, err error) {
	placed, err := p.located(handle)
	if err != nil || placed == nil || placed.Never != nil {
		return nil, after, runs.Fault("collect", err)
	}
	if found, known := p.journals.take(handle.Key, after); known {
		return found.records, found.next, nil
	}
	if p.lost(*placed) {
		return nil, after, platforms.Errorf(platforms.NotFound, "collect", "%s was given up, and the journal with it", placed.Address)
	}
	err = p.on(ctx, *placed, "collect", func(client *agent.Client) error {
		records, next, err = client.Collect(ctx, runs.Ref{Key: handle.Key}, after)
		return err
	})
	if err != nil {
		return nil, after, err
	}
	p.journals.reached(handle.Key, next)
	return records, next, nil
}

// CleanUp implements platforms.WithCleanup, on every machine that can be reached.
func (p *platform) CleanUp(ctx context.Context, experiment string) error {
	machines, err := p.machines(experiment)
	if err != nil {
		return runs.Fault("clean up", err)
	}
	var faults []error
	for _, m := range machines {
		err := p.host(m, experiment).do(ctx, func(up *link) error { return up.client.CleanUp(ctx, experiment) })
		faults = append(faults, faultAt("clean up", m.Address, err))
	}
	return errors.Join(append(faults, p.archives(experiment).remove())...)
}

// Probe implements platforms.WithProbe, as far as it can be told without an
// experiment's machines.
func (p *platform) Probe(context.Context) []trial.Reason {
	if _, err := p.Runner("linux", "amd64"); err != nil {
		return []trial.Reason{{Code: "runner-missing", Text: err.Error()}}
	}
	return nil
}
