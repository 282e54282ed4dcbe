package remote

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/testsuite/gputest"
	"github.com/perennial-ml/perennial/testsuite/sshlab"
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
