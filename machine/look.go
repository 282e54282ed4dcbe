package machine

import (
	"context"
	"errors"
	"time"

	"github.com/perennial-ml/perennial/gpu"
)

// lateFor is how long an answer of the driver is good that came too late for
// somebody who waited for it: he comes again within strangerInterval, and then
// needs it for each step up to the run.
const lateFor = 2 * strangerInterval

// errSlow is what those are told who cannot wait for the driver any more.
var errSlow = errors.New("nvidia-smi of this machine is slow and is still being waited for " +
	"(persistence mode, nvidia-smi -pm 1, makes it quick)")

// question is one that the driver is asked, for all who want to know meanwhile. It
// outlives them: a driver that takes longer than each of them has would be asked
// for ever and never heard.
type question struct {
	began  time.Time
	trials map[int]bool // pids of trials then
	late   bool         // somebody could not wait any more
	done   chan struct{}
	err    error // when it is done
}

// look asks what GPUs there are, unless somebody did so since the given time or
// does so now. The caller has g.looking, which others may get meanwhile.
func (g *gpus) look(ctx context.Context, since time.Time, leases []gpu.Lease) error {
	if g.at.After(since) || time.Now().Before(g.good) {
		return nil
	}
	if g.asking == nil {
		// Before the driver is asked: a trial that ends meanwhile is no stranger.
		trials, err := families(leases)
		if err != nil {
			return err
		}
		g.asking = &question{began: time.Now(), trials: trials, done: make(chan struct{})}
		go g.ask(g.asking)
	}
	return g.await(ctx, g.asking)
}

// ask has the driver answer a question, however long anybody waits for it.
func (g *gpus) ask(asked *question) {
	ctx, cancel := context.WithTimeout(context.Background(), gpu.TextPatience)
	defer cancel()
	inventory, err := g.prober.Probe(ctx)
	g.looking.Lock()
	defer g.looking.Unlock()
	g.asking, asked.err = nil, err
	if err == nil {
		g.seen, g.trials, g.at = inventory, asked.trials, asked.began
	}
	if err == nil && asked.late {
		g.good = time.Now().Add(lateFor)
	}
	close(asked.done)
}

// await waits for an answer without g.looking.
func (g *gpus) await(ctx context.Context, asked *question) error {
	g.looking.Unlock()
	select {
	case <-asked.done:
	case <-ctx.Done():
	}
	g.looking.Lock()
	if g.asking == asked {
		asked.late = true
		return errSlow
	}
	return asked.err
}

// inventory is what GPUs there are, for the caller alone.
func (g *gpus) inventory(ctx context.Context, since time.Time, leases []gpu.Lease) (gpu.Inventory, error) {
	g.looking.Lock()
	defer g.looking.Unlock()
	if err := g.look(ctx, since, leases); err != nil {
		return gpu.Inventory{}, err
	}
	return g.seen.Without(nil), nil
}
