package machine

import (
	"context"
	"errors"
	"time"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/trial"
)

// reservedFor is how long Reserve keeps GPUs for a run that nobody submits.
const reservedFor = 30 * time.Second

// offerPatience is how long an Offer may wait for the driver: whoever compares
// machines gives each of them seconds, and must be told the reason within them.
const offerPatience = 3 * time.Second

// Offer is what a machine could give a request at present.
type Offer struct {
	Free   int    `json:"free"`             // GPUs that could be had now
	Reason string `json:"reason,omitempty"` // why these are too few
}

// Offer tells what could be had now, and keeps nothing. It is Exhausted where the
// driver is slow; what that answers meanwhile serves the next Offer or Reserve.
func (m *Machine) Offer(ctx context.Context, request gpu.Request) (Offer, error) {
	asked := time.Now()
	ctx, cancel := context.WithTimeout(ctx, offerPatience)
	defer cancel()
	m.gpus.looking.Lock()
	defer m.gpus.looking.Unlock()
	leases, err := m.gpus.leases(ctx, trial.Key{})
	if err == nil {
		err = m.gpus.crowded(request, leases)
	}
	if err == nil {
		err = m.gpus.look(ctx, asked, leases)
	}
	if err != nil {
		return tooFew(err)
	}
	if err := request.Fits(m.gpus.seen); err != nil {
		return Offer{Reason: err.Error()}, nil
	}
	return m.gpus.offer(ctx, request)
}

// tooFew is the offer of a machine without enough room, or why it makes none.
func tooFew(err error) (Offer, error) {
	if few := (*gpu.NoRoom)(nil); errors.As(err, &few) {
		return Offer{Free: few.Free, Reason: few.Error()}, nil
	}
	return Offer{}, exhausted(err, strangerInterval)
}

func (g *gpus) offer(ctx context.Context, request gpu.Request) (Offer, error) {
	_, err := g.allocate(ctx, trial.Key{}, request)
	if err != nil {
		return tooFew(err)
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
func GPURequest(job Job, terms Terms) (request gpu.Request, ok bool) {
	if job.GPUs == nil || *job.GPUs == 0 {
		return gpu.Request{}, false
	}
	request = terms.GPU
	request.Experiment, request.Count, request.Share = job.Key.Experiment, *job.GPUs, max(request.Share, 1)
	return request, true
}
