package local

import (
	"context"
	"encoding/json"
	"time"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/runs"
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

func readGPUOptions(verb string, section json.RawMessage) (gpuOptions, error) {
	var options gpuOptions
	if len(section) == 0 {
		return options, nil
	}
	if err := json.Unmarshal(section, &options); err != nil {
		return options, platforms.Errorf(platforms.Invalid, verb, "read the platform's section: %w", err)
	}
	return options, nil
}

// termsOf are the terms that a job runs on.
func termsOf(job platforms.Job) (runs.Terms, error) {
	options, err := readGPUOptions("submit", job.Options)
	if err != nil || job.GPUs == nil {
		return runs.Terms{}, err
	}
	request := gpu.Request{UseActive: options.UseActive, Share: options.Share, Indices: options.Indices}
	return runs.Terms{GPU: request}, nil
}

// GPUs implements platforms.WithGPUs.
func (p *platform) GPUs(ctx context.Context, section json.RawMessage) ([]gpu.Host, error) {
	options, err := readGPUOptions("gpus", section)
	if err != nil {
		return nil, err
	}
	host, err := p.machine.GPUs(ctx)
	if err != nil {
		return nil, runs.Fault("gpus", err)
	}
	host.Indices = options.Indices
	return []gpu.Host{host}, nil
}
