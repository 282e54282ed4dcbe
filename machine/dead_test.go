package machine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/machine"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/testsuite/gputest"
	"github.com/perennial-ml/perennial/trial"
)

// leaveLease leaves the lease of GPU 0 that the killed runner of a trial had.
func leaveLease(t *testing.T, ledger gpu.Ledger, run rundir.Run, key trial.Key) {
	here, err := rundir.ThisProcess()
	require.NoError(t, err)
	lease := gpu.Lease{Format: gpu.Format, Slot: gpu.Slot{UUID: gputest.UUID(0), Vendor: gpu.NVIDIA}, Share: 1,
		Experiment: key.Experiment, Trial: key.TrialID(), Sequence: key.Sequence, Attempt: key.Attempt,
		Directory: run.Directory, Claim: run.Claim, BootID: here.BootID, PIDNamespace: here.PIDNamespace,
		Runner: gpu.Identity{PID: here.Runner.PID, Start: here.Runner.Start - 1}} // its pid is somebody else's now
	content, err := json.Marshal(lease)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(ledger.Directory, 0o755))
	name := fmt.Sprintf("%s.0.%d.lease", lease.UUID, os.Geteuid())
	require.NoError(t, os.WriteFile(filepath.Join(ledger.Directory, name), content, 0o600))
}

func TestARunOfWhichNobodyCanTellKeepsOnlyItsOwnGPU(t *testing.T) {
	here, ledger := machineOf(t, &driver{})
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	leaveLease(t, ledger, rundir.Run{Directory: filepath.Join(file, "run"), Claim: filepath.Join(file, "claim")}, key(7))
	require.NoError(t, here.Reserve(t.Context(), key(1), request(1)))
	err := here.Reserve(t.Context(), key(2), request(1))
	require.Equal(t, machine.Exhausted, machine.CodeOf(err))
	require.ErrorContains(t, err, "GPU 0 is held by trial 7")
}

// undying has some processes of a trial at any time, however many are killed.
func undying(t *testing.T, key trial.Key) {
	ctx, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	t.Cleanup(group.Wait)
	t.Cleanup(stop)
	for range 8 {
		group.Go(func() {
			for ctx.Err() == nil {
				command := exec.CommandContext(ctx, "sleep", "3600")
				command.Env = []string{trial.VarRun + "=" + key.String()}
				_ = command.Run() // killed
			}
		})
	}
}

func TestProcessesOfADeadRunThatDoNotEndHoldNobodyUpForLong(t *testing.T) {
	here, ledger := machineOf(t, &driver{})
	state := t.TempDir()
	run := rundir.Run{Directory: state, Claim: filepath.Join(state, "claim")}
	undying(t, key(7))
	require.Eventually(t, func() bool {
		left, err := run.Processes(key(7))
		return err == nil && len(left) == 8
	}, 30*time.Second, time.Millisecond)
	leaveLease(t, ledger, run, key(7))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.NoError(t, here.Reserve(ctx, key(1), request(1)))
}
