//go:build linux && cgo

package nvml

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/testsuite/gputest"
)

// TestMain also is a program that asks the library of LD_LIBRARY_PATH, three times
// over, and prints what it learned.
func TestMain(m *testing.M) {
	if os.Getenv("NVML_TEST_PROGRAM") == "" {
		os.Exit(m.Run())
	}
	prober, err := New()
	if err != nil {
		os.Stdout.WriteString(err.Error())
		os.Exit(3)
	}
	var inventory gpu.Inventory
	for range 3 {
		if inventory, err = prober.Probe(context.Background()); err != nil {
			os.Stdout.WriteString(err.Error())
			os.Exit(4)
		}
	}
	json.NewEncoder(os.Stdout).Encode(inventory)
}

func program(t *testing.T, libraries string) ([]byte, error) {
	program, err := os.Executable()
	require.NoError(t, err)
	command := exec.Command(program)
	command.Env = append(os.Environ(), "NVML_TEST_PROGRAM=yes", "LD_LIBRARY_PATH="+libraries)
	return command.Output()
}

func TestTheDriversLibraryIsOpenedAndAsked(t *testing.T) {
	gpus := gputest.Some(3)
	gpus[1].Processes = []int{os.Getpid(), 1}
	gpus[2].MIG = []string{"MIG-1", "MIG-2"}
	driver := gputest.NewDriver(t, gpus...)
	output, err := program(t, driver.Library())
	require.NoError(t, err, "%s", output)
	var inventory gpu.Inventory
	require.NoError(t, json.Unmarshal(output, &inventory))
	require.Len(t, inventory.GPUs, 5)
	first := inventory.GPUs[0]
	require.Equal(t, "00000000:01:00.0", first.PCI)
	require.EqualValues(t, 40960<<20, *first.Memory)
	require.EqualValues(t, 4<<20, *first.Used)
	require.Equal(t, 0, *first.Utilisation)
	require.Equal(t, []gpu.Process{gpu.LookUp(os.Getpid(), 0), gpu.LookUp(1, 0)}, inventory.GPUs[1].Processes)
	require.True(t, inventory.GPUs[2].Divided)
	require.Equal(t, gpus[2].UUID, inventory.GPUs[3].Parent)
	require.Equal(t, "MIG-2", inventory.GPUs[4].UUID)
	require.Nil(t, inventory.GPUs[4].Utilisation)
}

func TestTheLibraryAndNvidiaSmiTellTheSame(t *testing.T) {
	gpus := gputest.Some(2)
	gpus[1].Processes = []int{os.Getpid()}
	driver := gputest.NewDriver(t, gpus...)
	output, err := program(t, driver.Library())
	require.NoError(t, err, "%s", output)
	var byLibrary gpu.Inventory
	require.NoError(t, json.Unmarshal(output, &byLibrary))
	t.Setenv("PATH", driver.Smi()+":"+os.Getenv("PATH"))
	byText, err := gpu.Text{}.Probe(t.Context())
	require.NoError(t, err)
	byText.Source, byText.GPUs[1].Processes[0].Used = byLibrary.Source, 0
	require.Equal(t, byLibrary, byText)
}

func TestWithoutADriverNothingHappens(t *testing.T) {
	output, err := program(t, t.TempDir())
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 3, exit.ExitCode(), "the program must tell, not be killed")
	require.Contains(t, string(output), "NVML cannot be used")
}

func TestADriverThatIsNotLoadedIsAnError(t *testing.T) {
	driver := gputest.NewDriver(t)
	libraries := driver.Library()
	driver.Remove()
	output, err := program(t, libraries)
	require.Error(t, err)
	require.Contains(t, string(output), "NVML cannot be used")
}

// extensions is a library that has every function.
func extensions() nvml.ExtendedInterface {
	return &mock.ExtendedInterface{LookupSymbolFunc: func(string) error { return nil }}
}

// h100 is NVIDIA's own mock, with what it leaves out.
func h100() (*server.Server, []*server.Device) {
	mocked := dgxh100.New()
	mocked.ExtensionsFunc = extensions
	var devices []*server.Device
	for i := range mocked.Devices {
		device := mocked.Devices[i].(*server.Device)
		device.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.SUCCESS }
		device.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 3}, nvml.SUCCESS }
		device.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) {
			return nvml.Memory_v2{Total: 80 << 30, Used: 1 << 20}, nvml.SUCCESS
		}
		devices = append(devices, device)
	}
	return mocked, devices
}

func TestAWholeDGXIsDescribed(t *testing.T) {
	mocked, devices := h100()
	devices[5].GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 1, UsedGpuMemory: 7}, {Pid: 2, UsedGpuMemory: math.MaxUint64}}, nvml.SUCCESS
	}
	devices[6].GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.ERROR_NO_PERMISSION }
	devices[7].GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) { return nvml.Memory_v2{}, nvml.ERROR_GPU_IS_LOST }
	devices[7].GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, nvml.ERROR_GPU_IS_LOST }
	inventory, err := newProber(mocked).Probe(t.Context())
	require.NoError(t, err)
	require.Len(t, inventory.GPUs, 8)
	require.Contains(t, inventory.GPUs[0].Name, "H100")
	require.Equal(t, 3, *inventory.GPUs[0].Utilisation)
	require.EqualValues(t, 7, inventory.GPUs[5].Processes[0].Used)
	require.Zero(t, inventory.GPUs[5].Processes[1].Used, "the driver's word for unknown is no number")
	require.NotEmpty(t, inventory.GPUs[6].Unknown, "processes that cannot be listed are not none")
	require.NotEmpty(t, inventory.GPUs[7].Failed)
}

func TestADriverThatHangsIsGivenUpAndSaidToHang(t *testing.T) {
	mocked, _ := h100()
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	mocked.DeviceGetCountFunc = func() (int, nvml.Return) { <-release; return 0, nvml.SUCCESS }
	prober := newProber(mocked)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := prober.Probe(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = prober.Probe(ctx)
	require.True(t, errors.Is(err, errStuck), "%v", err)
}
