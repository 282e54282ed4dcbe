package remote

import (
	"context"
	"fmt"
	"sync"

	"github.com/perennial-ml/perennial/machine/agent"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/trial"
)

var _ platforms.WithHosts = (*platform)(nil)

// Try implements platforms.WithHosts. It brings the runner where it is missing.
func (p *platform) Try(ctx context.Context) ([]platforms.HostState, error) {
	s, err := p.read(ctx, "try")
	if err != nil {
		return nil, err
	}
	states := make([]platforms.HostState, len(s.Machines))
	var group sync.WaitGroup
	for i, m := range s.Machines {
		group.Go(func() { states[i] = p.host(m).state(ctx) })
	}
	group.Wait()
	return states, nil
}

func (h *host) state(ctx context.Context) platforms.HostState {
	state := platforms.HostState{Name: h.address.String()}
	var facts agent.Facts
	err := h.do(ctx, func(up *link) (err error) {
		facts, err = up.client.Facts(ctx)
		return err
	})
	if err != nil {
		state.Problems = []trial.Reason{{Code: "cannot-reach", Text: err.Error()}}
		return state
	}
	state.Text = fmt.Sprintf("%s: %d cores, load %.1f, %d of %d GiB of memory free, %d GiB of disk free",
		facts.Name, facts.Cores, facts.Load, facts.Free>>30, facts.Memory>>30, facts.DiskFree>>30)
	state.Problems = facts.Problems
	return state
}
