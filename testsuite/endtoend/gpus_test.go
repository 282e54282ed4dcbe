package endtoend

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/gputest"
)

// exclusive is a trial that notices when another one has its GPU: the kernel gives
// a lock back with the last process of whoever had it.
const exclusive = `#!/bin/bash
exec 9>"$SHARED/$CUDA_VISIBLE_DEVICES"
flock -n 9 || echo "$PERENNIAL_RUN" >>"$SHARED/violations"
echo "$CUDA_VISIBLE_DEVICES" >>"$SHARED/used"
sleep 0.5
echo "perennial: final 1"
`

// withGPUs is a home on a host with so many GPUs, whose driver library the program
// opens, or, by text, whose nvidia-smi it asks.
func withGPUs(t *testing.T, gpus int, byText bool) (h *Home, driver *gputest.Driver, shared string) {
	h, driver = NewHome(t), gputest.NewDriver(t, gputest.Some(gpus)...)
	shared = t.TempDir()
	h.Env = []string{"SHARED=" + shared, "PERENNIAL_GPU_LEDGER=" + filepath.Join(t.TempDir(), "ledger")}
	if byText {
		h.Env = append(h.Env, "PATH="+driver.Smi()+":"+os.Getenv("PATH"))
	} else {
		h.Env = append(h.Env, "LD_LIBRARY_PATH="+driver.Library())
	}
	return h, driver, shared
}

func gpuPlan(trials, concurrency int, keys string) Plan {
	return Plan{Trials: trials, Concurrency: concurrency, Script: exclusive, More: "trialGpuNumber: 1\n",
		Platform: "  platform: local\n  useActiveGpu: false\n" + keys}
}

func TestMoreTrialsThanGPUsTakeTurnsAndSayWhyTheyWait(t *testing.T) {
	for name, byText := range map[string]bool{"NVML": false, "nvidia-smi": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, _, shared := withGPUs(t, 2, byText)
			run := h.Follow(h.Experiment(gpuPlan(8, 4, "")))
			said := ""
			h.Await("a trial that waits for a GPU", func() bool {
				for _, event := range run.Events() {
					if event.Trial != nil && strings.Contains(event.Trial.Reason.Text, "can be had: GPU") {
						said = event.Trial.Reason.Text
					}
				}
				return said != "" || run.Ended()
			})
			require.Contains(t, said, "of experiment "+run.ID())
			require.Equal(t, 8, run.Finished(Patience).Trials["SUCCEEDED"])
			require.NoFileExists(t, filepath.Join(shared, "violations"))
			used, err := os.ReadFile(filepath.Join(shared, "used"))
			require.NoError(t, err)
			for n := range 2 {
				require.Contains(t, string(used), gputest.UUID(n))
			}
			require.Contains(t, h.Must("gpus"), "free")
			require.NotContains(t, h.Must("gpus"), run.ID())
			h.RequireNothingLeft()
		})
	}
}

func TestAHostThatIsKilledAgainAndAgainGivesNoGPUTwice(t *testing.T) {
	t.Parallel()
	h, _, shared := withGPUs(t, 2, false)
	run := h.Follow(h.Experiment(gpuPlan(12, 4, "")))
	for kills := 0; kills < 3 && !run.Ended(); kills++ {
		used := lines(filepath.Join(shared, "used"))
		h.Await("another trial", func() bool { return lines(filepath.Join(shared, "used")) > used+1 || run.Ended() })
		h.KillAndAwait(Host)
	}
	require.Equal(t, 12, run.Finished(Patience).Trials["SUCCEEDED"])
	require.NoFileExists(t, filepath.Join(shared, "violations"))
	require.Equal(t, 12, lines(filepath.Join(shared, "used")), "nothing ran twice")
	h.RequireNothingLeft()
}

func lines(path string) int {
	content, _ := os.ReadFile(path) // none is none
	return strings.Count(string(content), "\n")
}

func TestGpusNamesWhoHasAGPUAndWhoseTheOthersAre(t *testing.T) {
	t.Parallel()
	h, driver, _ := withGPUs(t, 2, false)
	busy := gputest.Some(2)
	busy[1].Processes = []int{os.Getpid()}
	driver.Set(busy...)
	plan := gpuPlan(2, 2, "")
	plan.Script = "#!/bin/sh\nexec sleep 1000\n"
	run := h.Follow(h.Experiment(plan))
	var view struct {
		Hosts   []struct{ Leases []struct{ Experiment string } }
		Waiting []struct {
			Sequence int
			Reason   struct{ Text string }
		}
	}
	h.Await("a trial that runs and one that waits", func() bool {
		require.NoError(t, json.Unmarshal([]byte(h.Must("gpus", "--output", "json")), &view))
		return len(view.Waiting) == 1 && len(view.Hosts[0].Leases) == 1
	})
	require.Equal(t, run.ID(), view.Hosts[0].Leases[0].Experiment)
	require.Contains(t, view.Waiting[0].Reason.Text, fmt.Sprintf("GPU 1 is in use by process %d (", os.Getpid()))
	require.Contains(t, view.Waiting[0].Reason.Text, "useActiveGpu is false")
	table := h.Must("gpus")
	require.Contains(t, table, "of experiment "+run.ID())
	require.Contains(t, table, fmt.Sprintf("process %d (", os.Getpid()))
	require.Contains(t, table, "WHY IT WAITS")
	h.Must("stop", run.ID())
	require.NotContains(t, h.Must("gpus"), run.ID())
}

func TestMoreGPUsThanTheHostHasAreRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	h, _, _ := withGPUs(t, 2, false)
	plan := gpuPlan(1, 1, "")
	plan.More = "trialGpuNumber: 3\n"
	refused := h.Run("run", h.Experiment(plan), "--detach")
	require.Equal(t, 2, refused.Code, refused.Stderr)
	require.Contains(t, refused.Stderr, "a trial asks for 3 GPUs, and only 2 can be given to it: this host has GPU 0 (NVIDIA Test), GPU 1 (NVIDIA Test)")
	refused = h.Run("run", h.Experiment(gpuPlan(1, 1, "  gpuIndices: 7\n")), "--detach")
	require.Equal(t, 2, refused.Code, refused.Stderr)
	require.Contains(t, refused.Stderr, "gpuIndices names GPU 7, and there is none")
	h.RequireNothingLeft()
}
