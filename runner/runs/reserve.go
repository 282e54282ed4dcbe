package runs

import (
	"context"
	"errors"
	"time"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/trial"
)

// reservedFor is how long Reserve keeps GPUs for a run that nobody submits.
const reservedFor = 30 * time.Second

// Offer is what a machine could give a request at present.
type Offer struct {
	Free   int    `json:"free"`             // GPUs that could be had now
	Reason string `json:"reason,omitempty"` // why these are too few
}

// Offer tells what could be had now, and keeps nothing.
func (m *Machine) Offer(ctx context.Context, request gpu.Request) (Offer, error) {
	asked := time.Now()
	m.gpus.looking.Lock()
	defer m.gpus.looking.Unlock()
	leases, err := m.gpus.leases(ctx, trial.Key{})
	if err == nil {
		err = m.gpus.look(ctx, asked, leases)
	}
	if err != nil {
		return Offer{}, exhausted(err, strangerInterval)
	}
	if err := request.Fits(m.gpus.seen); err != nil {
		return Offer{Reason: err.Error()}, nil
	}
	return m.gpus.offer(ctx, request)
}

func (g *gpus) offer(ctx context.Context, request gpu.Request) (Offer, error) {
	_, err := g.allocate(ctx, trial.Key{}, request)
	if few := (*gpu.NoRoom)(nil); errors.As(err, &few) {
		return Offer{Free: few.Free, Reason: few.Error()}, nil
	}
	if err != nil {
		return Offer{}, exhausted(err, strangerInterval)
	}
	more := request
	for err == nil {
		more.Count++
		_, err = g.allocate(ctx, trial.Key{}, more)
	}
	return Offer{Free: more.Count - 1}, nil
}

// Reserve keeps the GPUs of a request for a run that is to be submitted here soon,
// or is Exhausted. Other submissions of this Machine leave them alone meanwhile;
// what other processes do is for the ledger to say.
func (m *Machine) Reserve(ctx context.Context, key trial.Key, request gpu.Request) error {
	if _, err := m.gpus.try(ctx, key, request); err != nil {
		return fault("submit", err)
	}
	time.AfterFunc(reservedFor, func() { m.gpus.forget(key) })
	return nil
}

// GPURequest is what a job asks for on these terms; ok is false where it asks for
// no GPU.
func GPURequest(job platforms.Job, terms Terms) (request gpu.Request, ok bool) {
	if job.GPUs == nil || *job.GPUs == 0 {
		return gpu.Request{}, false
	}
	request = terms.GPU
	request.Experiment, request.Count, request.Share = job.Key.Experiment, *job.GPUs, max(request.Share, 1)
	return request, true
}
