package local

import (
	"context"
	"encoding/json"
	"time"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/machine"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/machines"
)

// gpuPatience is how long a trial that waits for a GPU waits in one go: long, since
// it is told at once when one becomes free, and well below the submit's timeout.
const gpuPatience = 20 * time.Second

// gpuOptions are the platform's keys about GPUs, by NNI's names.
type gpuOptions struct {
	UseActive bool  `json:"useActiveGpu"`
	Share     int   `json:"maxTrialNumberPerGpu"`
	Indices   []int `json:"gpuIndices"`
}

func (p *platform) gpuOptions(ctx context.Context, verb string) (gpuOptions, error) {
	var options gpuOptions
	section, err := p.section.Options(ctx)
	if err != nil || len(section) == 0 {
		return options, err
	}
	if err := json.Unmarshal(section, &options); err != nil {
		return options, platforms.Errorf(platforms.Invalid, verb, "read the platform's section: %w", err)
	}
	return options, nil
}

// terms are what a job runs on. One that asks for no GPU runs whatever the section
// says about them.
func (p *platform) terms(ctx context.Context, job platforms.Job) (machine.Terms, error) {
	if job.GPUs == nil {
		return machine.Terms{}, nil
	}
	options, err := p.gpuOptions(ctx, "submit")
	if err != nil {
		return machine.Terms{}, err
	}
	request := gpu.Request{UseActive: options.UseActive, Share: options.Share, Indices: options.Indices}
	return machine.Terms{GPU: request}, nil
}

// GPUs implements platforms.WithGPUs.
func (p *platform) GPUs(ctx context.Context) ([]gpu.Host, error) {
	options, err := p.gpuOptions(ctx, "gpus")
	if err != nil {
		return nil, err
	}
	host, err := p.machine.GPUs(ctx)
	if err != nil {
		return nil, machines.Fault("gpus", err)
	}
	host.Indices = options.Indices
	return []gpu.Host{host}, nil
}
