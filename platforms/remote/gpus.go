package remote

import (
	"context"
	"sync"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/platforms"
)

var _ platforms.WithGPUs = (*platform)(nil)

// GPUs implements platforms.WithGPUs: it asks every machine of the section.
func (p *platform) GPUs(ctx context.Context) ([]gpu.Host, error) {
	s, err := p.read(ctx, "gpus")
	if err != nil {
		return nil, err
	}
	hosts := make([]gpu.Host, len(s.Machines))
	var group sync.WaitGroup
	for i, m := range s.Machines {
		group.Go(func() { hosts[i] = p.host(m).gpus(ctx, m) })
	}
	group.Wait()
	return hosts, nil
}

func (h *host) gpus(ctx context.Context, m machineEntry) gpu.Host {
	host := gpu.Host{}
	err := h.do(ctx, func(up *link) (err error) {
		host, err = up.client.GPUs(ctx)
		return err
	})
	if err != nil {
		host.Fault = err.Error()
	}
	host.Name, host.Indices = m.Address.String(), m.GPUIndices
	return host
}
