package machine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

const (
	// strangerInterval is how soon it is worth asking again for a GPU on which
	// somebody else computes: nobody tells when he is done.
	strangerInterval = 5 * time.Second
	// roomInterval is the pause between two looks while Submit waits for a GPU that
	// a trial of another process has.
	roomInterval = time.Second
	// newsInterval bounds how often a Submit that waits returns only to tell who has
	// the GPUs now.
	newsInterval = 5 * time.Second
	// sweepPatience is how long a submission waits for what dead runs left to end. A
	// killed process can hang in the driver for hours, and keeps only its own GPUs.
	sweepPatience = time.Second
	// knownFor is how long it is believed that GPUs are what they were: broken, say.
	knownFor = time.Minute
)

// gpus proposes this machine's GPUs to runs. What it remembers is only to spare
// its own submissions from proposing the same GPU at the same time; who gets one
// is for the ledger to say.
type gpus struct {
	prober  gpu.Prober
	ledger  gpu.Ledger
	patient time.Duration

	looking  sync.Mutex    // never while the driver is asked
	asking   *question     // what the driver is asked now; nil: nothing
	seen     gpu.Inventory // the last one
	trials   map[int]bool  // pids of trials when it was asked for
	at       time.Time     // when it was asked for; zero: never
	good     time.Time     // until then it need not be asked for again
	proposed map[trial.Key][]gpu.Lease

	sweeping sync.Mutex

	mu   sync.Mutex
	told map[trial.Key]telling // why a submission had to wait, the last time
	news chan struct{}         // closed when a GPU may have become free
}

// telling is what somebody was told, and when.
type telling struct {
	reason string
	at     time.Time
}

func newGPUs(options Options) *gpus {
	g := &gpus{prober: options.GPUs, ledger: gpu.Shared(), patient: options.GPUPatience,
		proposed: map[trial.Key][]gpu.Lease{}, told: map[trial.Key]telling{}, news: make(chan struct{})}
	if g.prober == nil {
		g.prober = gpu.Text{}
	}
	if options.GPULedger != "" {
		g.ledger = gpu.Ledger{Directory: options.GPULedger}
	}
	return g
}

// proposeGPUs finds GPUs for a job that asks for some. It comes before the claim,
// so that a job that waits looks to nobody like one that starts. given must be
// called when the run was begun, or will not be.
func (m *Machine) proposeGPUs(ctx context.Context, run rundir.Run, job Job, terms Terms) (lease *rundir.GPULease, given func(), err error) {
	nothing := func() {}
	request, wanted := GPURequest(job, terms)
	if !wanted {
		return nil, nothing, nil
	}
	if begun, err := settled(run); begun || err != nil {
		return nil, nothing, err
	}
	// The GPUs of an earlier attempt are free when nothing of it is left.
	if err := m.endEarlier(ctx, job.Key); err != nil {
		return nil, nothing, err
	}
	unwanted := func() (bool, error) { return settled(run) }
	slots, err := m.gpus.propose(ctx, job.Key, request, unwanted)
	if err != nil {
		return nil, nothing, err
	}
	lease = &rundir.GPULease{Ledger: m.gpus.ledger.Directory, Request: request, Slots: slots}
	return lease, func() { m.gpus.forget(job.Key) }, nil
}

// propose finds slots. Where there is no room it says so at once, so that people
// can be told, and waits when it is asked again: whoever waits here is told the
// moment a GPU becomes free. A run that became unwanted meanwhile gets none.
func (g *gpus) propose(ctx context.Context, key trial.Key, request gpu.Request, unwanted func() (bool, error)) ([]gpu.Slot, error) {
	deadline := time.Now().Add(g.patient)
	for {
		news := g.awaited()
		slots, err := g.try(ctx, key, request)
		if err == nil || CodeOf(err) != Exhausted || g.isNews(key, err) || time.Now().After(deadline) {
			return slots, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-news:
		case <-time.After(roomInterval):
		}
		if over, err := unwanted(); over || err != nil {
			return nil, err
		}
	}
}

// awaited returns the channel that is closed at the next news.
func (g *gpus) awaited() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.news
}

// tell wakes up whoever waits for a GPU.
func (g *gpus) tell() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.news)
	g.news = make(chan struct{})
}

// isNews tells whether the caller should hear this reason now: the first one at
// once, another one after a while.
func (g *gpus) isNews(key trial.Key, reason error) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	before, told := g.told[key]
	if told && (before.reason == reason.Error() || time.Since(before.at) < newsInterval) {
		return false
	}
	g.told[key] = telling{reason.Error(), time.Now()}
	return true
}

func (g *gpus) forget(key trial.Key) {
	g.looking.Lock()
	delete(g.proposed, key)
	g.looking.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.told, key)
}

// try makes one proposal.
func (g *gpus) try(ctx context.Context, key trial.Key, request gpu.Request) ([]gpu.Slot, error) {
	asked := time.Now()
	g.sweep(ctx)
	g.looking.Lock()
	defer g.looking.Unlock()
	leases, err := g.leases(ctx, key)
	if err != nil {
		return nil, err
	}
	// Where trials alone leave no room there is no need to wake up every GPU.
	if err := g.crowded(request, leases); err != nil {
		return nil, exhausted(err, roomInterval)
	}
	if err := g.look(ctx, asked, leases); err != nil {
		return nil, exhausted(err, strangerInterval)
	}
	slots, err := g.allocate(ctx, key, request)
	if err != nil {
		return nil, exhausted(err, strangerInterval)
	}
	g.proposed[key] = proposal(key, request, slots)
	return slots, nil
}

// sweep frees what dead runs keep, as far as that is quick. What it cannot free
// counts as a lease and so says itself why there is no room: one run that cannot
// be cleared up must not keep all others from the other GPUs.
func (g *gpus) sweep(ctx context.Context) {
	if !g.sweeping.TryLock() {
		return // somebody does so already
	}
	defer g.sweeping.Unlock()
	ctx, cancel := context.WithTimeout(ctx, sweepPatience)
	defer cancel()
	_ = rundir.SweepLeases(ctx, g.ledger)
}

// leases returns those that count, and what was proposed to others.
func (g *gpus) leases(ctx context.Context, key trial.Key) ([]gpu.Lease, error) {
	leases, err := g.ledger.Counting(ctx, rundir.LeaseCounts)
	return g.withProposed(key, leases), err
}

// crowded tells whether there is no room whatever strangers do, as far as the GPUs
// are known.
func (g *gpus) crowded(request gpu.Request, leases []gpu.Lease) error {
	if time.Since(g.at) > knownFor {
		return nil
	}
	_, err := gpu.Allocate(request, gpu.State{Inventory: g.seen.Idle(), Leases: leases})
	if busy := (*gpu.NoRoom)(nil); errors.As(err, &busy) {
		return busy
	}
	return nil
}

// exhausted is an error that asks to come again: also where a GPU that was there
// when the experiment began is gone, since it may come back.
func exhausted(err error, after time.Duration) error {
	return &Error{Code: Exhausted, Verb: "submit", After: after, Err: err}
}

// allocate finds slots by the last inventory and the ledger as it is now.
func (g *gpus) allocate(ctx context.Context, key trial.Key, request gpu.Request) ([]gpu.Slot, error) {
	leases, err := g.leases(ctx, key)
	if err != nil {
		return nil, err
	}
	trials, err := families(leases)
	if err != nil {
		return nil, err
	}
	maps.Copy(trials, g.trials)
	return gpu.Allocate(request, gpu.State{Inventory: g.seen.Without(trials), Leases: leases})
}

// families are the pids of all trials that have GPUs.
func families(leases []gpu.Lease) (map[int]bool, error) {
	pids := map[int]bool{}
	for _, lease := range leases {
		family, err := rundir.LeaseFamily(lease)
		if err != nil {
			return nil, err
		}
		for _, pid := range family {
			pids[pid] = true
		}
	}
	return pids, nil
}

func proposal(key trial.Key, request gpu.Request, slots []gpu.Slot) []gpu.Lease {
	var leases []gpu.Lease
	for _, slot := range slots {
		leases = append(leases, gpu.Lease{Slot: slot, Share: request.Share, Experiment: key.Experiment,
			Trial: key.TrialID(), Sequence: key.Sequence, Attempt: key.Attempt})
	}
	return leases
}

// withProposed adds what was proposed to others than key and is not in the ledger
// yet.
func (g *gpus) withProposed(key trial.Key, leases []gpu.Lease) []gpu.Lease {
	all := slices.Clone(leases)
	for other, proposed := range g.proposed {
		for _, lease := range proposed {
			inLedger := slices.ContainsFunc(leases, func(l gpu.Lease) bool { return l.UUID == lease.UUID && l.Number == lease.Number })
			if !inLedger && other != key {
				all = append(all, lease)
			}
		}
	}
	return all
}

// outrun tells whether a runner gave up because another trial took its GPU first.
func outrun(said string) bool { return strings.Contains(said, gpu.ErrTaken.Error()) }

// GPUs returns this machine's GPUs, with the leases that count. Where nobody can
// tell, that is the host's Fault.
func (m *Machine) GPUs(ctx context.Context) (gpu.Host, error) {
	name, err := os.Hostname()
	if err != nil {
		return gpu.Host{}, err
	}
	host := gpu.Host{Name: name}
	asked := time.Now()
	if host.Leases, err = m.gpus.ledger.Counting(ctx, rundir.LeaseCounts); err != nil {
		return host, err
	}
	if host.Inventory, err = m.gpus.inventory(ctx, asked, host.Leases); err != nil {
		host.Fault = err.Error()
	}
	return host, nameTrials(host)
}

// nameTrials tells which processes belong to trials.
func nameTrials(host gpu.Host) error {
	for _, lease := range host.Leases {
		family, err := rundir.LeaseFamily(lease)
		if err != nil {
			return err
		}
		for _, g := range host.Inventory.GPUs {
			for i, process := range g.Processes {
				if slices.Contains(family, process.PID) {
					g.Processes[i].Trial = fmt.Sprintf("%s/%d", lease.Experiment, lease.Sequence)
				}
			}
		}
	}
	return nil
}
