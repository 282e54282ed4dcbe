package main

import (
	"context"
	"path/filepath"
	"sync"

	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/gpu/nvml"
	"github.com/perennial-ml/perennial/platforms"
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
func (e *engine) GPUs(ctx context.Context, id string, platform experiment.Platform) ([]gpu.Host, error) {
	runner, _ := binary.Install(filepath.Join(e.home, "runner")) // only remote hosts need it
	section, known := e.open(runner, id, platform)
	if !known {
		return nil, nil
	}
	defer section.Close()
	telling, can := section.(platforms.WithGPUs)
	if !can {
		return nil, nil
	}
	return telling.GPUs(ctx)
}
