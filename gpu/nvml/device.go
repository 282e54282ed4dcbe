//go:build linux && cgo

package nvml

import (
	"fmt"
	"math"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/perennial-ml/perennial/gpu"
)

// describe reads what a GPU and a MIG device have in common.
func (p *prober) describe(device nvml.Device, index int) (gpu.GPU, error) {
	g := gpu.GPU{Index: index, Vendor: gpu.NVIDIA}
	var ret nvml.Return
	if g.UUID, ret = device.GetUUID(); ret != nvml.SUCCESS {
		return g, fmt.Errorf("NVML does not tell the UUID of GPU %d: %w", index, ret)
	}
	if g.Name, ret = device.GetName(); ret != nvml.SUCCESS {
		g.Name = "unknown"
	}
	if ret := p.memory(device, &g); ret == nvml.ERROR_GPU_IS_LOST || ret == nvml.ERROR_RESET_REQUIRED {
		g.Failed = text(ret)
	}
	if rates, ret := device.GetUtilizationRates(); ret == nvml.SUCCESS {
		percent := int(rates.Gpu)
		g.Utilisation = &percent
	}
	p.processes(device, &g)
	return g, nil
}

// memory prefers the newer call: the older one counts what the driver keeps for
// itself as used.
func (p *prober) memory(device nvml.Device, g *gpu.GPU) nvml.Return {
	if p.knows("nvmlDeviceGetMemoryInfo_v2") {
		if memory, ret := device.GetMemoryInfo_v2(); ret == nvml.SUCCESS {
			g.Memory, g.Used = &memory.Total, &memory.Used
			return ret
		}
	}
	memory, ret := device.GetMemoryInfo()
	if ret == nvml.SUCCESS {
		g.Memory, g.Used = &memory.Total, &memory.Used
	}
	return ret
}

// knows tells whether the driver's library has a function. To call one that it
// does not have would kill the process.
func (p *prober) knows(function string) bool {
	return p.library.Extensions().LookupSymbol(function) == nil
}

func (p *prober) processes(device nvml.Device, g *gpu.GPU) {
	running, ret := device.GetComputeRunningProcesses()
	if ret != nvml.SUCCESS {
		g.Unknown = text(ret)
		return
	}
	for _, process := range running {
		used := process.UsedGpuMemory
		if used == math.MaxUint64 { // the driver does not know
			used = 0
		}
		g.Processes = append(g.Processes, gpu.LookUp(int(process.Pid), used))
	}
}

// instances returns the MIG devices of a GPU, nil where it is not divided.
func (p *prober) instances(device nvml.Device, whole gpu.GPU) ([]gpu.GPU, error) {
	if !p.knows("nvmlDeviceGetMigMode") {
		return nil, nil
	}
	mode, _, ret := device.GetMigMode()
	if ret != nvml.SUCCESS || mode != nvml.DEVICE_MIG_ENABLE {
		return nil, nil
	}
	most, ret := device.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("NVML cannot count the MIG devices of GPU %d: %w", whole.Index, ret)
	}
	instances := []gpu.GPU{}
	for n := range most {
		part, ret := device.GetMigDeviceHandleByIndex(n)
		if ret != nvml.SUCCESS {
			continue // fewer are made than there could be
		}
		instance, err := p.describe(part, whole.Index)
		if err != nil {
			return nil, err
		}
		instance.Parent, instance.Failed = whole.UUID, whole.Failed
		instances = append(instances, instance)
	}
	return instances, nil
}

func text(ret nvml.Return) string { return "NVML says " + ret.Error() }
