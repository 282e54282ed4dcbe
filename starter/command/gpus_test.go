package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/perennial-ml/perennial/dashboard/views"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

func inBytes(gibibytes float64) *uint64 {
	n := uint64(gibibytes * (1 << 30))
	return &n
}

// busyHost is a host on which everything happens that can happen to a GPU.
func busyHost() gpu.Host {
	percent := 97
	a100 := func(index int) gpu.GPU {
		return gpu.GPU{UUID: "GPU-" + string(rune('a'+index)), Index: index, Name: "NVIDIA A100", Memory: inBytes(40), Used: inBytes(0.5)}
	}
	gpus := []gpu.GPU{a100(0), a100(1), a100(2), a100(3), a100(4), a100(5)}
	gpus[0].Utilisation = &percent
	gpus[0].Processes = []gpu.Process{{PID: 4243, Name: "python", User: "bob", Trial: "k3v9x2ab/3"}}
	gpus[2].Processes = []gpu.Process{{PID: 4711, Name: "python", User: "eve"}}
	gpus[3].Failed = "nvidia-smi says ERR!"
	gpus[4].Divided, gpus[4].Used = true, nil
	gpus[5] = gpu.GPU{UUID: "MIG-x", Index: 4, Name: "MIG 1g.5gb", Parent: "GPU-e", Unknown: "no permission"}
	lease := gpu.Lease{Slot: gpu.Slot{UUID: "GPU-a"}, Share: 1, Experiment: "k3v9x2ab", Trial: "l7de1", Sequence: 3,
		User: "bob", Runner: gpu.Identity{PID: 4242}, Held: true}
	return gpu.Host{Name: "box", Inventory: gpu.Inventory{GPUs: gpus, Source: "NVML"}, Leases: []gpu.Lease{lease}}
}

func TestGpusShowsWhoHasWhatAndWhoWaits(t *testing.T) {
	s := newStage(t)
	s.hosts = []gpu.Host{busyHost(), {Name: "far", Fault: "cannot reach far"}, {Name: "bare", Inventory: gpu.Inventory{None: "no driver"}}}
	require.Equal(t, ExitDone, s.run("gpus"), s.err.String())
	golden(t, "gpus-without-experiments.txt", s.out.String())

	config := `{"format":1,"searchSpace":{},"trialConcurrency":2,"tuner":{"name":"Random"},
		"trainingService":[{"platform":"local","trialCommand":"x","trialGpuNumber":1}]}`
	_, err := s.Send(t.Context(), anID, trial.Command{ID: "accept", Name: trial.Accept, Value: json.RawMessage(config)})
	require.NoError(t, err)
	story := &story{s, anID}
	story.asks(0, `{}`)
	attempt, err := s.store().BeginAttempt(t.Context(), anID, 0, "local")
	require.NoError(t, err)
	reason := trial.Reason{Code: "submit-exhausted", Text: "submit: needs 1 GPU, 0 can be had: GPU 0 is held by trial 3"}
	require.NoError(t, s.store().SubmitFailed(t.Context(), attempt.Key, reason))
	story.asks(1, `{}`)
	require.Equal(t, ExitDone, s.run("gpus"), s.err.String())
	golden(t, "gpus.txt", s.out.String())
	require.Equal(t, ExitDone, s.run("gpus", "--output", "json"), s.err.String())
	var view views.GPUs
	require.NoError(t, json.Unmarshal([]byte(s.out.String()), &view))
	require.Equal(t, s.hosts, view.Hosts)
	require.Len(t, view.Waiting, 1)
	require.Equal(t, reason, view.Waiting[0].Reason)
	story.finishes(record.Stopped)
	require.Equal(t, ExitDone, s.run("gpus", "--output", "yaml"), s.err.String())
	require.Contains(t, s.out.String(), "waiting: []")
}

// gpuExperiment writes an experiment whose trials ask for GPUs.
func gpuExperiment(t *testing.T, keys string) string {
	file := filepath.Join(t.TempDir(), "experiment.yml")
	content := "searchSpace: {x: {_type: uniform, _value: [0, 1]}}\ntrialCommand: echo\ntrialConcurrency: 1\ntuner: {name: Random}\n" +
		"trainingService: {platform: local, useActiveGpu: false" + keys + "}\n"
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

func TestARequestThatCanNeverFitStartsNothing(t *testing.T) {
	s := newStage(t)
	s.World.Build.GPUs = true
	host := busyHost()
	host.Inventory.GPUs = host.Inventory.GPUs[:2]
	s.hosts = []gpu.Host{host}
	require.Equal(t, ExitBadInput, s.run("run", gpuExperiment(t, ", trialGpuNumber: 3"), "--detach"))
	require.Contains(t, s.err.String(), "trialGpuNumber of platform local: box: a trial asks for 3 GPUs, and only 2 can be given to it: this host has GPU 0 (NVIDIA A100), GPU 1 (NVIDIA A100)")
	s.hosts[0].Indices = []int{5}
	require.Equal(t, ExitBadInput, s.run("run", gpuExperiment(t, ", trialGpuNumber: 1, gpuIndices: 5"), "--detach"))
	require.Contains(t, s.err.String(), "gpuIndices names GPU 5, and there is none")
	s.hosts = []gpu.Host{{Name: "box", Inventory: gpu.Inventory{None: "there is no driver"}}}
	require.Equal(t, ExitBadInput, s.run("run", gpuExperiment(t, ", trialGpuNumber: 1"), "--detach"))
	require.Contains(t, s.err.String(), "no GPU: there is no driver")
	require.Empty(t, s.sent)

	s.hosts = []gpu.Host{{Name: "box", Fault: "the driver hangs"}}
	require.Equal(t, ExitDone, s.run("run", gpuExperiment(t, ", trialGpuNumber: 1"), "--detach"), "who cannot be asked may have some")
	require.Equal(t, ExitDone, s.run("run", gpuExperiment(t, ", trialGpuNumber: 0"), "--detach"))
	require.Len(t, s.sent, 2)
}

func TestDoctorTellsWhichGPUsThereAre(t *testing.T) {
	s := newStage(t)
	s.hosts = []gpu.Host{busyHost()}
	require.Equal(t, ExitDone, s.run("doctor"), s.out.String())
	require.Regexp(t, `(?m)^ok +GPUs +GPU 0 \(NVIDIA A100\), .*, by NVML$`, s.out.String())
	s.hosts = []gpu.Host{{Name: "box", Fault: "nvidia-smi cannot tell"}}
	require.Equal(t, ExitDone, s.run("doctor"), s.out.String())
	require.Regexp(t, `(?m)^note +GPUs +nvidia-smi cannot tell$`, s.out.String())
}
