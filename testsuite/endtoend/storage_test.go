package endtoend

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/testsuite/machine"
)

// shared are the lines of an experiment whose storage is mounted by its user. What
// stands for the share is a file system in memory: starter asks whether one is
// mounted, not which.
func shared(point string) string {
	return "sharedStorage: {storageType: NFS, localMountPoint: " + point + ", remoteMountPoint: " + point +
		", localMounted: usermount, nfsServer: server, exportedDirectory: /export}\n"
}

// checking is what the trial of NNI's own test of shared storage does.
const checking = "#!/bin/sh\npwd > \"$NNI_OUTPUT_DIR/checkingfile.txt\"; echo perennial: final 1\n"

func TestCodeAndOutputOfTrialsLieOnTheSharedStorage(t *testing.T) {
	t.Parallel()
	share := machine.SmallDisk(t, "16m")
	h := NewHome(t)
	run := h.Follow(h.Experiment(Plan{Trials: 3, Concurrency: 2, Script: checking, Code: "code", More: shared(share)}))
	require.Equal(t, 3, run.Finished(Patience).Trials["SUCCEEDED"])
	for _, trial := range h.Trials(run.ID()) {
		attempt := filepath.Join(share, "nni", run.ID(), "trials", trial.ID, "attempt-1")
		content, err := os.ReadFile(filepath.Join(attempt, "nnioutput", "checkingfile.txt"))
		require.NoError(t, err)
		require.Equal(t, filepath.Join(attempt, "code")+"\n", string(content))
		require.Equal(t, "perennial: final 1\n", h.Must("logs", run.ID(), trial.ID))
	}
	h.RequireNothingLeft()
}

func TestATrialSaysThatItsSharedStorageIsNotMountedAndGoesOnOnceItIs(t *testing.T) {
	t.Parallel()
	share := t.TempDir()
	h := NewHome(t)
	run := h.Follow(h.Experiment(Plan{Trials: 1, Concurrency: 1, Script: checking, Code: "code", More: shared(share)}))
	h.Await("a reason", func() bool {
		trials := h.Trials(run.ID())
		return len(trials) == 1 && trials[0].Reason.Text != "" && trials[0].Reason.Code == "submit-transient"
	})
	require.Contains(t, h.Trials(run.ID())[0].Reason.Text, "shared storage at "+share+": nothing is mounted there; mount server:/export, and it goes on")
	require.NoDirExists(t, filepath.Join(share, "nni"))
	if err := unix.Mount("tmpfs", share, "tmpfs", 0, ""); err != nil {
		machine.Lacks(t, "a file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(share, unix.MNT_DETACH) })
	require.Equal(t, 1, run.Finished(Patience).Trials["SUCCEEDED"])
	require.DirExists(t, filepath.Join(share, "nni", run.ID()))
	h.RequireNothingLeft()
}

func TestAHostThatIsKilledWithTheCodeOnTheSharedStorageLeavesNothingThere(t *testing.T) {
	t.Parallel()
	share := machine.SmallDisk(t, "16m")
	h := NewHome(t)
	h.With("PERENNIAL_CRASH_POINT=submit.lock-held-before-exec").Serve()
	first := h.Processes(Host)
	plan := short(3, 2)
	plan.Code, plan.More = "code", shared(share)
	run := h.Follow(h.Experiment(plan))
	h.Await("the crash of the first host", func() bool { return !anyAlive(h, first) })
	require.Equal(t, "DONE", run.Finished(Patience).Status)
	h.RequireExactlyOnce(run.ID(), 3, nil)
	for _, trial := range h.Trials(run.ID()) {
		attempt := filepath.Join(share, "nni", run.ID(), "trials", trial.ID, "attempt-1")
		require.Equal(t, []string{"code", "nnioutput"}, listing(t, attempt))
		require.Equal(t, []string{"trial.sh"}, listing(t, filepath.Join(attempt, "code")))
	}
	h.RequireNothingLeft()
}
