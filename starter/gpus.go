package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	"sync"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/gpu/nvml"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/all"
	"github.com/perennial-ml/perennial/runner/binary"
)

// gpus knows this machine's GPUs: by NVML where that works, else by the words of
// nvidia-smi and the kernel.
var gpus = sync.OnceValue(func() gpu.Prober {
	library, err := nvml.New()
	if err != nil {
		return gpu.Text{}
	}
	return gpu.First{library, gpu.Text{}}
})

// GPUs implements command.Engine.
func (e *engine) GPUs(ctx context.Context, platform, experiment string, options json.RawMessage) ([]gpu.Host, error) {
	runner, _ := binary.Install(filepath.Join(e.home, "runner")) // only remote hosts need it
	construct, known := all.All(e.stand(runner, nil))[platform]
	if !known {
		return nil, nil
	}
	made := construct()
	defer made.Close()
	telling, can := made.(platforms.WithGPUs)
	if !can {
		return nil, nil
	}
	// Of an experiment that is not yet run the references lead into this environment.
	resolved, err := e.secrets(experiment, options)
	if err != nil {
		return nil, err
	}
	return telling.GPUs(ctx, resolved)
}
