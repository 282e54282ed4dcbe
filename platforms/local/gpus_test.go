package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/local"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/testsuite/gputest"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
	"github.com/perennial-ml/perennial/trial"
)

// gpuHost is a host with GPUs that several controllers use.
type gpuHost struct {
	t      *testing.T
	driver *gputest.Driver
	ledger string
}

func newGPUHost(t *testing.T, gpus ...gputest.GPU) *gpuHost {
	driver := gputest.NewDriver(t, gpus...)
	t.Setenv("PATH", driver.Smi()+":"+os.Getenv("PATH"))
	return &gpuHost{t: t, driver: driver, ledger: filepath.Join(t.TempDir(), "ledger")}
}

// controller is a platform of its own, with an experiment of its own.
type controller struct {
	platforms.Platform
	t          *testing.T
	experiment string
	options    string
	sequence   int
	handles    []platforms.Handle
}

func (h *gpuHost) controller(options string) *controller {
	c := &controller{t: h.t, experiment: trial.NewExperimentID(), options: options}
	kind := local.New(local.Options{Runner: runner, StateDirectory: h.t.TempDir(), GPULedger: h.ledger})
	c.Platform = kind.Open(platformtest.Section(local.Name, c.experiment, func() json.RawMessage { return json.RawMessage(c.options) }))
	h.t.Cleanup(c.endAll)
	return c
}

func (c *controller) endAll() {
	for _, handle := range c.handles {
		require.NoError(c.t, c.Cancel(context.Background(), handle, trial.Intent{Cause: trial.CauseUser}))
	}
	for _, handle := range c.handles {
		c.await(handle, func(r platforms.Report) bool { return r.Phase.Definite() })
	}
}

func (c *controller) await(handle platforms.Handle, enough func(platforms.Report) bool) platforms.Report {
	var report platforms.Report
	require.Eventually(c.t, func() bool {
		reports, err := c.Poll(context.Background(), platforms.Ask(handle))
		require.NoError(c.t, err)
		report = reports[0]
		return enough(report)
	}, time.Minute, 5*time.Millisecond)
	return report
}

// job is the next trial's, with so many GPUs.
func (c *controller) job(command string, gpus int) platforms.Job {
	job := platformtest.ShellJob(c.t, trial.Key{Experiment: c.experiment, Sequence: c.sequence, Attempt: 1}, platformtest.Behaviour{})
	job.Command, job.GPUs, job.Grace = command, &gpus, 100*time.Millisecond
	c.sequence++
	return job
}

func (c *controller) submit(job platforms.Job) platforms.Handle {
	handle, err := c.Submit(c.t.Context(), job)
	require.NoError(c.t, err)
	c.handles = append(c.handles, handle)
	return handle
}

const forever = "exec sleep 3600"

// refused is a submission for which there is no room, and why.
func (c *controller) refused(job platforms.Job) string {
	_, err := c.Submit(c.t.Context(), job)
	requireCode(c.t, platforms.Exhausted, err)
	return err.Error()
}

func (c *controller) ended(handle platforms.Handle) platforms.Report {
	return c.await(handle, func(r platforms.Report) bool { return r.Phase.Definite() })
}

func (c *controller) cancel(handle platforms.Handle) {
	require.NoError(c.t, c.Cancel(c.t.Context(), handle, trial.Intent{Cause: trial.CauseUser}))
	c.ended(handle)
}

// given is the GPUs that a running trial was given.
func (c *controller) given(handle platforms.Handle) string {
	report := c.await(handle, func(r platforms.Report) bool { return r.Phase == platforms.Running })
	spec, err := rundir.Run{Directory: report.Output}.ReadSpec()
	require.NoError(c.t, err)
	return spec.Variables()["CUDA_VISIBLE_DEVICES"]
}

func TestTrialsGetGPUsOfTheirOwnAndTheRestWaitsWithAReason(t *testing.T) {
	h := newGPUHost(t, gputest.Some(3)...)
	c := h.controller("")
	first := c.submit(c.job(forever, 1))
	second := c.submit(c.job(forever, 1))
	require.Equal(t, gputest.UUID(0), c.given(first))
	require.Equal(t, gputest.UUID(1), c.given(second))
	waiting := c.job(forever, 2)
	require.Contains(t, c.refused(waiting), "needs 2 GPUs, 1 can be had: GPU 0 is held by trial 0 (")
	third := c.submit(c.job(forever, 1))
	require.Equal(t, gputest.UUID(2), c.given(third), "who waits for two keeps nobody from one")
	c.cancel(first)
	c.cancel(second)
	require.Equal(t, gputest.UUID(0)+","+gputest.UUID(1), c.given(c.submit(waiting)))
}

func TestATrialThatWaitsIsWokenUpWhenAGPUIsFree(t *testing.T) {
	h := newGPUHost(t, gputest.Some(1)...)
	c := h.controller("")
	first := c.submit(c.job(forever, 1))
	waiting := c.job(forever, 1)
	reason := c.refused(waiting)
	done := make(chan error, 1)
	go func() {
		_, err := c.Submit(t.Context(), waiting)
		done <- err
	}()
	select {
	case err := <-done:
		require.Fail(t, "it did not wait", "%v after %s", err, reason)
	case <-time.After(50 * time.Millisecond):
	}
	c.cancel(first)
	require.NoError(t, <-done)
	c.handles = append(c.handles, platforms.Handle{Key: waiting.Key})
}

func TestATrialThatIsCancelledWaitsForNoGPUAnyMore(t *testing.T) {
	h := newGPUHost(t, gputest.Some(1)...)
	c := h.controller("")
	c.submit(c.job(forever, 1))
	waiting := c.job(forever, 1)
	c.refused(waiting)
	done := make(chan error, 1)
	go func() {
		_, err := c.Submit(t.Context(), waiting)
		done <- err
	}()
	select {
	case err := <-done:
		require.Fail(t, "it did not wait", "%v", err)
	case <-time.After(50 * time.Millisecond):
	}
	unwanted := platforms.Handle{Key: waiting.Key}
	require.NoError(t, c.Cancel(t.Context(), unwanted, trial.Intent{Cause: trial.CauseStop}))
	require.NoError(t, <-done, "there is nothing left to wait for")
	report := c.ended(unwanted)
	require.Equal(t, trial.CauseStop, report.Intent.Cause)
	require.True(t, report.Started.IsZero(), "it was never started")
}

func TestTwoControllersOfOneHostNeverUseTheSameGPU(t *testing.T) {
	h := newGPUHost(t, gputest.Some(1)...)
	a, b := h.controller(`{"useActiveGpu": true}`), h.controller(`{"useActiveGpu": true, "maxTrialNumberPerGpu": 3}`)
	first := a.submit(a.job(forever, 1))
	waiting := b.job(forever, 1)
	require.Contains(t, b.refused(waiting), "of experiment "+a.experiment)
	a.cancel(first)
	b.submit(waiting)
	require.Contains(t, a.refused(a.job(forever, 1)), "of experiment "+b.experiment)
}

func TestAGPUOfAStrangerIsLeftAlone(t *testing.T) {
	stranger := exec.Command("sleep", "3600")
	require.NoError(t, stranger.Start())
	t.Cleanup(func() { stranger.Process.Kill(); stranger.Wait() })
	gpus := gputest.Some(2)
	gpus[0].Processes = []int{stranger.Process.Pid}
	h := newGPUHost(t, gpus...)
	c := h.controller(`{"useActiveGpu": false}`)
	require.Equal(t, gputest.UUID(1), c.given(c.submit(c.job(forever, 1))))
	reason := c.refused(c.job(forever, 1))
	require.Contains(t, reason, fmt.Sprintf("GPU 0 is in use by process %d (sleep, user %s) and useActiveGpu is false", stranger.Process.Pid, gpu.UserName(os.Geteuid())))
	bold := h.controller(`{"useActiveGpu": true}`)
	require.Equal(t, gputest.UUID(0), bold.given(bold.submit(bold.job(forever, 1))))
}

func TestTrialsThatShareAGPUAreNoStrangersToEachOther(t *testing.T) {
	h := newGPUHost(t, gputest.Some(1)...)
	c := h.controller(`{"useActiveGpu": false, "maxTrialNumberPerGpu": 2}`)
	c.submit(c.job("sleep 3600 & wait", 1))
	var pid int
	require.Eventually(t, func() bool {
		leases, err := gpu.Ledger{Directory: h.ledger}.Leases(t.Context())
		require.NoError(t, err)
		family, err := rundir.LeaseFamily(leases[0])
		require.NoError(t, err)
		if len(family) > 1 {
			pid = family[len(family)-1]
		}
		return pid != 0
	}, time.Minute, 5*time.Millisecond)
	busy := gputest.Some(1)
	busy[0].Processes, busy[0].Used = []int{pid}, 30000
	h.driver.Set(busy...)
	c.submit(c.job(forever, 1))
	require.Contains(t, c.refused(c.job(forever, 1)), "is held by trial 0")
	hosts, err := c.Platform.(platforms.WithGPUs).GPUs(t.Context())
	require.NoError(t, err)
	require.Equal(t, c.experiment+"/0", hosts[0].Inventory.GPUs[0].Processes[0].Trial)
	require.Len(t, hosts[0].Leases, 2)
}

func TestOnlyTheGPUsOfGpuIndicesAreUsed(t *testing.T) {
	h := newGPUHost(t, gputest.Some(3)...)
	c := h.controller(`{"gpuIndices": [2]}`)
	require.Equal(t, gputest.UUID(2), c.given(c.submit(c.job(forever, 1))))
	require.Contains(t, c.refused(c.job(forever, 1)), "0 can be had: GPU 2 is held by")
}

func TestAGPUThatIsGoneIsWaitedFor(t *testing.T) {
	h := newGPUHost(t)
	c := h.controller("")
	job := c.job(forever, 1)
	require.Contains(t, c.refused(job), "this host has no GPU: nvidia-smi says: No devices were found")
	h.driver.Set(gputest.Some(1)...)
	c.submit(job)
}

func TestANextAttemptTakesTheGPUThatTheLastOneLeft(t *testing.T) {
	h := newGPUHost(t, gputest.Some(1)...)
	c := h.controller("")
	job := c.job(`env -i setsid sh -c 'trap "" TERM; while :; do sleep 0.1; done' >/dev/null 2>&1 & sleep 3600`, 1)
	handle := c.submit(job)
	report := c.await(handle, func(r platforms.Report) bool { return r.Phase == platforms.Running })
	run := rundir.Run{Directory: report.Output}
	var process *rundir.Process
	require.Eventually(t, func() bool {
		var err error
		process, err = run.ReadProcess()
		require.NoError(t, err)
		return len(process.Tree) > 0
	}, time.Minute, 5*time.Millisecond)
	require.NoError(t, unix.Kill(process.Runner.PID, unix.SIGKILL))
	require.Equal(t, platforms.Lost, c.ended(handle).Phase)
	next := job
	next.Key.Attempt = 2
	next.Command = forever
	require.Equal(t, gputest.UUID(0), c.given(c.submit(next)))
	left, err := run.Processes(job.Key)
	require.NoError(t, err)
	require.Empty(t, left)
}

// exclusive is a trial that notices when another one has its GPU: each holds a
// lock that the kernel takes away with the last of its processes.
const exclusive = `for gpu in ${CUDA_VISIBLE_DEVICES//,/ }; do
	exec {lock}>"$SHARED/$gpu"; flock -n $lock || echo "$gpu: $PERENNIAL_RUN" >>"$SHARED/violations"
done
sleep 0.0$((RANDOM % 10))`

func TestWhateverIsKilledNoTwoTrialsEverHaveTheSameGPU(t *testing.T) {
	if _, err := exec.LookPath("flock"); err != nil {
		t.Fatal("flock, of util-linux, is needed")
	}
	h := newGPUHost(t, gputest.Some(3)...)
	shared := t.TempDir()
	t.Setenv("SHARED", shared)
	var everybody sync.WaitGroup
	for seed := range uint64(3) {
		c := h.controller(`{"useActiveGpu": true}`)
		random := rand.New(rand.NewPCG(seed, 1))
		everybody.Go(func() { c.chaos(random, 12) })
	}
	everybody.Wait()
	_, err := os.Stat(filepath.Join(shared, "violations"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Eventually(t, func() bool { // what a killed runner left ends by itself
		leases, err := gpu.Ledger{Directory: h.ledger}.Counting(t.Context(), rundir.LeaseCounts)
		require.NoError(t, err)
		return len(leases) == 0
	}, time.Minute, 5*time.Millisecond, "a GPU leaked")
}

// chaos runs trials one after the other, and kills the runner of every third.
func (c *controller) chaos(random *rand.Rand, trials int) {
	for range trials {
		handle, err := c.insist(c.job(exclusive, 1+random.IntN(2)))
		if err != nil {
			c.t.Error(err)
			return
		}
		if random.IntN(3) == 0 {
			time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond)
			c.kill(handle)
		}
		c.ended(handle)
	}
}

// insist submits until there is room.
func (c *controller) insist(job platforms.Job) (platforms.Handle, error) {
	deadline := time.Now().Add(2 * time.Minute)
	for {
		handle, err := c.Submit(context.Background(), job)
		if err == nil || platforms.CodeOf(err) != platforms.Exhausted || time.Now().After(deadline) {
			return handle, err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (c *controller) kill(handle platforms.Handle) {
	reports, err := c.Poll(context.Background(), platforms.Ask(handle))
	if err != nil || reports[0].Phase != platforms.Running {
		return
	}
	process, err := rundir.Run{Directory: reports[0].Output}.ReadProcess()
	if err != nil || process == nil {
		return
	}
	if now, err := rundir.Identify(process.Runner.PID); err == nil && now == process.Runner {
		if err := unix.Kill(process.Runner.PID, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			c.t.Error(err)
		}
	}
}

func TestADriverThatCannotTellKeepsTrialsWaiting(t *testing.T) {
	directory := t.TempDir()
	broken := "#!/bin/sh\necho 'Failed to initialize NVML: Driver/library version mismatch'; exit 18\n"
	require.NoError(t, os.WriteFile(filepath.Join(directory, "nvidia-smi"), []byte(broken), 0o755))
	t.Setenv("PATH", directory+":"+os.Getenv("PATH"))
	h := &gpuHost{t: t, ledger: filepath.Join(t.TempDir(), "ledger")}
	c := h.controller("")
	require.Contains(t, c.refused(c.job(forever, 1)), "Driver/library version mismatch")
	hosts, err := c.Platform.(platforms.WithGPUs).GPUs(t.Context())
	require.NoError(t, err)
	require.True(t, strings.Contains(hosts[0].Fault, "version mismatch"), hosts[0].Fault)
}
