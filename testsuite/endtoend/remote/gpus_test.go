package remote

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/remote"
	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/testsuite/gputest"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
	"github.com/perennial-ml/perennial/testsuite/sshlab"
	"github.com/perennial-ml/perennial/trial"
)

// exclusive is a trial that notices when another one has its GPU: the kernel gives
// a lock back with the last process of whoever had it.
const exclusive = `#!/bin/bash
exec 9>"SHARED/$CUDA_VISIBLE_DEVICES"
flock -n 9 || echo "$PERENNIAL_RUN" >>"SHARED/violations"
echo "$CUDA_VISIBLE_DEVICES" >>"SHARED/used"
sleep 0.5
echo "perennial: final 1"
`

// withGPUs is a host whose nvidia-smi tells of so many.
func withGPUs(t *testing.T, gpus int) sshlab.Spec {
	directory := gputest.NewDriver(t, gputest.Some(gpus)...).Smi()
	table, err := os.ReadFile(filepath.Join(directory, "gpus"))
	require.NoError(t, err)
	script, err := os.ReadFile(filepath.Join(directory, "nvidia-smi"))
	require.NoError(t, err)
	there := strings.ReplaceAll(string(script), filepath.Join(directory, "gpus"), "/usr/bin/gpus.table")
	return sshlab.Spec{Programs: map[string]string{"nvidia-smi": there, "gpus.table": string(table)}}
}

func gpuPlan(shared string, trials, concurrency int) endtoend.Plan {
	return endtoend.Plan{Trials: trials, Concurrency: concurrency, More: "trialGpuNumber: 1\n",
		Script: strings.ReplaceAll(exclusive, "SHARED", shared)}
}

func TestTwoControllersNeverGiveAGPUOfAHostTwice(t *testing.T) {
	t.Parallel()
	lab := sshlab.New(t, withGPUs(t, 2), withGPUs(t, 1))
	var runs []*endtoend.Following
	controllers := []*world{controller(t, lab, "one"), controller(t, lab, "two")}
	for _, h := range lab.Hosts {
		h.Sh("mkdir -m 700 " + lab.Evidence + "/" + h.Name)
	}
	for _, w := range controllers {
		// A GPU of the one host is another than that of the same name on the other.
		runs = append(runs, w.follow(gpuPlan(lab.Evidence+"/$(hostname)", 8, 4)))
	}
	for i, run := range runs {
		require.Equal(t, 8, run.Finished(2 * endtoend.Patience).Trials["SUCCEEDED"], "%+v", controllers[i].Trials(run.ID()))
	}
	total := 0
	for _, h := range lab.Hosts {
		require.NoFileExists(t, filepath.Join(lab.Evidence, h.Name, "violations"))
		used, err := os.ReadFile(filepath.Join(lab.Evidence, h.Name, "used"))
		require.NoError(t, err)
		require.Contains(t, string(used), gputest.UUID(0))
		total += strings.Count(string(used), "\n")
	}
	require.Equal(t, 16, total)
	controllers[1].Must("serve", "--stop")
	controllers[0].requireNothingLeft()
}

func TestATrialThatWaitsForAGPUNamesHostGPUAndHolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withGPUs(t, 1), withGPUs(t, 1))
	run := w.follow(endtoend.Plan{Trials: 3, Concurrency: 3, More: "trialGpuNumber: 1\n", Script: "#!/bin/sh\nsleep 3600\n"})
	id := run.ID()
	w.AwaitRunning(id, 2)
	var waits endtoend.Trial
	var holders []string
	w.Await("the reason of the third", func() bool {
		holders = nil
		for _, row := range w.Trials(id) {
			if row.State == "RUNNING" {
				holders = append(holders, row.ID)
			} else {
				waits = row
			}
		}
		return waits.Reason.Code == "submit-exhausted"
	})
	t.Log(waits.Reason.Text)
	require.Len(t, holders, 2)
	for _, word := range append(holders, w.lab.Hosts[0].Address, w.lab.Hosts[1].Address, "GPU 0 is held by") {
		require.Contains(t, waits.Reason.Text, word)
	}
	w.Must("stop", id)
	require.Equal(t, "STOPPED", run.Finished(endtoend.Patience).Status)
	w.requireNothingLeft()
}

func TestMoreGPUsThanAnyHostHasAreRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withGPUs(t, 2), sshlab.Spec{})
	plan := short(1, 1)
	plan.More = "trialGpuNumber: 3\n"
	refused := w.Run("run", w.plan(plan), "--detach")
	t.Log(refused.Stderr)
	require.Equal(t, 2, refused.Code)
	require.Contains(t, refused.Stderr, "3 GPUs")
	require.Contains(t, refused.Stderr, "GPU 1 (NVIDIA Test)", "with the inventory")
	require.Contains(t, refused.Stderr, w.lab.Hosts[0].Address)
}

// TestATrialWhoseReservationLapsedMovesToAMachineWithRoom: it was placed, and nobody
// submitted it until somebody else had the GPU that was kept for it.
func TestATrialWhoseReservationLapsedMovesToAMachineWithRoom(t *testing.T) {
	t.Parallel()
	lab := sshlab.New(t, withGPUs(t, 1), withGPUs(t, 1))
	taken, s := subject(t, lab, lab.Hosts[0]), subject(t, lab, lab.Hosts...)
	one := 1
	job := func(of platformtest.Subject, experiment string, forever bool) platforms.Job {
		made := of.Job(t, trial.Key{Experiment: experiment, Attempt: 1}, platformtest.Behaviour{Forever: forever})
		made.GPUs = &one
		return made
	}
	other := taken.Kind(t).Open(platformtest.Section(remote.Name, "someone1", taken.Options))
	defer other.Close()
	holder, err := other.Submit(t.Context(), job(taken, "someone1", true))
	require.NoError(t, err)
	defer other.Cancel(t.Context(), holder, trial.Intent{Cause: trial.CauseUser})

	const id = "abcdefgh"
	wanted := job(s, id, false)
	var stands standing
	_, content, _ := strings.Cut(s.Environment[0], "=")
	require.NoError(t, json.Unmarshal([]byte(content), &stands))
	folder := filepath.Join(stands.State, "platforms", "remote", id)
	require.NoError(t, os.MkdirAll(folder, 0o700))
	placed := fmt.Sprintf(`{"format":1,"key":{"experiment":%q,"sequence":0,"attempt":1},"host":%q}`, id, lab.Hosts[0].Name)
	require.NoError(t, os.WriteFile(filepath.Join(folder, wanted.Key.String()+".placement"), []byte(placed), 0o600))

	section := s.Kind(t).Open(platformtest.Section(remote.Name, id, s.Options))
	defer section.Close()
	var handle platforms.Handle
	require.Eventually(t, func() bool {
		handle, err = section.Submit(t.Context(), wanted)
		return err == nil
	}, endtoend.Patience, 100*time.Millisecond, "%v", err)
	require.Equal(t, lab.Hosts[1].Name, handle.Host)
	require.Eventually(t, func() bool {
		reports, err := section.Poll(t.Context(), platforms.Ask(handle))
		return err == nil && reports[0].Phase == platforms.Exited && reports[0].Exit.Code == 0
	}, endtoend.Patience, 50*time.Millisecond)
	again, err := section.Submit(t.Context(), wanted)
	require.NoError(t, err)
	require.Equal(t, handle, again)
}
