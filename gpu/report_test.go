package gpu_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/testsuite/gputest"
)

// report is what the script prints on a host where nvidia-smi says these things.
func report(gpus, processes, list string) []byte {
	return []byte("Welcome to the cluster!\n== perennial-gpu 1\n== gpus " + gpus + "\n== processes " + processes +
		"\n== list " + list + "\n== users 0\n4242 bob python\n== end 0\n")
}

func parse(t *testing.T, text []byte) gpu.Inventory {
	inventory, err := gpu.ParseReport(text)
	require.NoError(t, err)
	return inventory
}

const twoA100 = `0
0, GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77, NVIDIA A100-SXM4-40GB, 00000000:07:00.0, 40960, 1500, 35, Disabled
1, GPU-aaaaa0d6-d33d-2b2c-524d-9e3d8d2b8a77, NVIDIA A100-SXM4-40GB, 00000000:0F:00.0, 40960, [N/A], [N/A], [N/A]`

func TestNVIDIAsWordsAreUnderstood(t *testing.T) {
	inventory := parse(t, report(twoA100, "0\nGPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77, 4242, 1490, /opt/a, b/bin/python", "0"))
	require.Len(t, inventory.GPUs, 2)
	first, second := inventory.GPUs[0], inventory.GPUs[1]
	require.Equal(t, "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77", first.UUID)
	require.Equal(t, "NVIDIA A100-SXM4-40GB", first.Name)
	require.Equal(t, "00000000:07:00.0", first.PCI)
	require.EqualValues(t, 40960<<20, *first.Memory)
	require.EqualValues(t, 1500<<20, *first.Used)
	require.Equal(t, 35, *first.Utilisation)
	require.Equal(t, []gpu.Process{{PID: 4242, Name: "python", User: "bob", Used: 1490 << 20}}, first.Processes)
	require.Nil(t, second.Used, "what is not available is not 0")
	require.Nil(t, second.Utilisation)
	require.Empty(t, second.Failed+second.Unknown)
	require.Equal(t, 1, second.Index)
}

func TestADriverFromBeforeMIGIsUnderstood(t *testing.T) {
	inventory := parse(t, report("0\n0, GPU-1, Tesla K80, 00000000:07:00.0, 11441, 0, 0", "0", "0"))
	require.False(t, inventory.GPUs[0].Divided)
}

func TestAGPUThatFailsIsNotGivenAway(t *testing.T) {
	for _, word := range []string{"ERR!", "[GPU requires reset]", "[Unknown Error]", "[GPU is lost]"} {
		inventory := parse(t, report("0\n0, GPU-1, Tesla, 00000000:07:00.0, 11441, "+word+", 0, [N/A]", "0", "0"))
		require.Contains(t, inventory.GPUs[0].Failed, word)
		_, err := gpu.Allocate(gpu.Request{Count: 1, Share: 1, UseActive: true}, gpu.State{Inventory: inventory})
		require.ErrorContains(t, err, "GPU 0 does not work (nvidia-smi says "+word+")")
	}
}

func TestUseThatCannotBeToldCountsAsBusy(t *testing.T) {
	for _, processes := range []string{"9\nFailed to query", "0\nGPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77, [N/A], [N/A], [N/A]", "0\nwhatever"} {
		inventory := parse(t, report(twoA100, processes, "0"))
		_, err := gpu.Allocate(gpu.Request{Count: 1, Share: 1}, gpu.State{Inventory: inventory})
		require.ErrorContains(t, err, "its processes cannot be seen", processes)
		_, err = gpu.Allocate(gpu.Request{Count: 1, Share: 1, UseActive: true}, gpu.State{Inventory: inventory})
		require.NoError(t, err)
	}
}

func TestMIGDevicesStandForTheirGPU(t *testing.T) {
	const listed = `0
0, GPU-1, NVIDIA A100, 00000000:07:00.0, 40960, 20, [N/A], Enabled
1, GPU-2, NVIDIA A100, 00000000:0F:00.0, 40960, 0, 0, Disabled`
	const list = `0
GPU 0: NVIDIA A100 (UUID: GPU-1)
  MIG 3g.20gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)
  MIG 1g.5gb      Device  1: (UUID: MIG-d6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)
GPU 1: NVIDIA A100 (UUID: GPU-2)`
	inventory := parse(t, report(listed, "0", list))
	require.Len(t, inventory.GPUs, 4)
	require.True(t, inventory.GPUs[0].Divided)
	require.Equal(t, "MIG device 3g.20gb of GPU 0", inventory.GPUs[1].String())
	require.Equal(t, "GPU-1", inventory.GPUs[1].Parent)

	slots, err := gpu.Allocate(gpu.Request{Count: 1, Share: 1}, gpu.State{Inventory: inventory})
	require.NoError(t, err)
	require.Equal(t, "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f", slots[0].UUID)
	require.ErrorContains(t, gpu.Request{Count: 2, Share: 1}.Fits(inventory), "only 1 can be given to it",
		"CUDA shows a program one MIG device at most")

	busy := parse(t, report(listed, "0\nGPU-1, 4242, 10, python", list))
	slots, err = gpu.Allocate(gpu.Request{Count: 1, Share: 1}, gpu.State{Inventory: busy})
	require.NoError(t, err)
	require.Equal(t, "GPU-2", slots[0].UUID, "nobody knows on which MIG device the process is")
}

func TestAHostWithoutAGPUSaysSo(t *testing.T) {
	for said, status := range map[string]string{
		"No devices were found": "6", "No devices were found ": "0",
		"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.": "9",
	} {
		inventory := parse(t, report(status+"\n"+said, "9\n"+said, "9\n"+said))
		require.Empty(t, inventory.GPUs)
		require.Contains(t, inventory.None, strings.TrimSpace(said))
		require.ErrorContains(t, gpu.Request{Count: 1}.Fits(inventory), "no GPU")
	}
}

func TestADriverThatCannotTellIsAnError(t *testing.T) {
	_, err := gpu.ParseReport(report("18\nFailed to initialize NVML: Driver/library version mismatch", "18", "18"))
	require.ErrorContains(t, err, "Driver/library version mismatch")
	_, err = gpu.ParseReport(report("0\nnew, words", "0", "0"))
	require.ErrorContains(t, err, "does not understand")
	whole := report(twoA100, "0", "0")
	_, err = gpu.ParseReport(whole[:len(whole)-len("== end 0\n")])
	require.ErrorContains(t, err, "not whole")
	_, err = gpu.ParseReport(nil)
	require.Error(t, err)
}

func TestTheScriptAsksNvidiaSmiOnPath(t *testing.T) {
	driver := gputest.NewDriver(t, gputest.Some(2)...)
	t.Setenv("PATH", driver.Smi()+":"+os.Getenv("PATH"))
	gpus := gputest.Some(3)
	gpus[1].Processes = []int{os.Getpid(), 1}
	gpus[2].MIG = []string{"MIG-1", "MIG-2"}
	driver.Set(gpus...)
	inventory, err := gpu.Text{}.Probe(t.Context())
	require.NoError(t, err)
	require.Len(t, inventory.GPUs, 5)
	require.Equal(t, "nvidia-smi", inventory.Source)
	require.Equal(t, gputest.UUID(0), inventory.GPUs[0].UUID)
	process := inventory.GPUs[1].Processes[0]
	require.Equal(t, gpu.LookUp(os.Getpid(), 100<<20), process, "its name and user come from the host")
	require.True(t, inventory.GPUs[2].Divided)
	require.Equal(t, "MIG-2", inventory.GPUs[4].UUID)
	driver.Set()
	inventory, err = gpu.Text{}.Probe(t.Context())
	require.NoError(t, err)
	require.Contains(t, inventory.None, "No devices were found")
}

func TestTheScriptRunsInAPlainShellWithoutAnyGPU(t *testing.T) {
	for _, shell := range []string{"/bin/sh", "/bin/bash"} {
		command := exec.Command(shell)
		command.Stdin = strings.NewReader(gpu.Script)
		command.Env = []string{"PATH=/usr/bin:/bin"}
		output, err := command.CombinedOutput()
		require.NoError(t, err, "%s", output)
		_, err = gpu.ParseReport(output)
		require.NoError(t, err)
	}
}

func TestADriverThatHangsIsGivenUp(t *testing.T) {
	directory := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(directory, "nvidia-smi"), []byte("#!/bin/sh\nexec sleep 600\n"), 0o755))
	t.Setenv("PATH", directory+":"+os.Getenv("PATH"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := gpu.Text{}.Probe(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

// amd makes what the kernel shows of an AMD GPU.
func amd(t *testing.T, sys, node, unique, pids string) {
	minor := "12" + node
	for name, content := range map[string]string{
		"class/kfd/kfd/topology/nodes/" + node + "/gpu_id":          "5" + node,
		"class/kfd/kfd/topology/nodes/" + node + "/properties":      "simd_count 304\ndrm_render_minor " + minor + "\nunique_id " + unique + "\n",
		"class/drm/renderD" + minor + "/device/mem_info_vram_total": "68702699520",
		"class/drm/renderD" + minor + "/device/mem_info_vram_used":  "10485760",
		"class/drm/renderD" + minor + "/device/gpu_busy_percent":    "7",
		"class/kfd/kfd/proc/" + pids + "/vram_5" + node:             "4096",
	} {
		path := filepath.Join(sys, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content+"\n"), 0o644))
	}
}

func TestAMDsGPUsAreReadFromTheKernel(t *testing.T) {
	sys := t.TempDir()
	amd(t, sys, "1", "3915361737360231792", "4242")
	amd(t, sys, "2", "0", "4243")
	cpu := filepath.Join(sys, "class/kfd/kfd/topology/nodes/0")
	require.NoError(t, os.MkdirAll(cpu, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(cpu, "gpu_id"), []byte("0\n"), 0o644))
	script := strings.Replace(gpu.Script, "sys=/sys", "sys="+sys, 1)
	output, err := exec.Command("/bin/sh", "-c", script).Output()
	require.NoError(t, err)
	inventory := parse(t, output)
	require.Len(t, inventory.GPUs, 2)
	first := inventory.GPUs[0]
	require.Equal(t, gpu.AMD, first.Vendor)
	require.Equal(t, "GPU-365628c172834d70", first.UUID)
	require.EqualValues(t, 68702699520, *first.Memory)
	require.Equal(t, 7, *first.Utilisation)
	require.Equal(t, []gpu.Process{{PID: 4242, Used: 4096}}, first.Processes)

	slots := []gpu.Slot{{UUID: first.UUID, Vendor: gpu.AMD}, {UUID: inventory.GPUs[1].UUID, Index: 1, Vendor: gpu.AMD}}
	variables := gpu.Variables(slots)
	require.Equal(t, "GPU-365628c172834d70,1", variables["ROCR_VISIBLE_DEVICES"])
	require.Equal(t, "0,1", variables["HIP_VISIBLE_DEVICES"], "whatever the caller's says, it counts among those")
	require.NotContains(t, variables, "CUDA_VISIBLE_DEVICES")
}

func TestATrialSeesItsGPUsByName(t *testing.T) {
	slots := []gpu.Slot{{UUID: "GPU-b", Index: 0, Vendor: gpu.NVIDIA}, {UUID: "GPU-a", Index: 3, Vendor: gpu.NVIDIA}}
	require.Equal(t, map[string]string{
		"CUDA_VISIBLE_DEVICES": "GPU-b,GPU-a", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", gpu.IndicesVariable: "0,3",
	}, gpu.Variables(slots))
}
