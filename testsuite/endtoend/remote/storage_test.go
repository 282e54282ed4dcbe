package remote

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/testsuite/machine"
	"github.com/perennial-ml/perennial/testsuite/sshlab"
)

// sharedDisk returns the mount point of a disk that hosts which are made later see
// as well: below /mnt, since they have a /tmp of their own.
func sharedDisk(t *testing.T) string {
	point, err := os.MkdirTemp("/mnt", "perennial-")
	if err == nil {
		t.Cleanup(func() { _ = os.Remove(point) })
		err = errors.Join(unix.Mount("tmpfs", point, "tmpfs", 0, "size=16m,mode=777"), os.Chmod(point, 0o777))
	}
	if err != nil {
		machine.Lacks(t, "a file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(point, unix.MNT_DETACH) })
	return point
}

func TestCodeAndOutputOfRemoteTrialsLieOnTheSharedStorage(t *testing.T) {
	t.Parallel()
	share := sharedDisk(t)
	w := newWorld(t, sshlab.Spec{}, sshlab.Spec{})
	run := w.follow(endtoend.Plan{
		Trials: 4, Concurrency: 2, Script: "#!/bin/sh\npwd > \"$NNI_OUTPUT_DIR/checkingfile.txt\"; echo perennial: final 1\n",
		More: "sharedStorage: {storageType: AzureBlob, localMountPoint: /nowhere, remoteMountPoint: " + share +
			", localMounted: nomount, storageAccountName: account, containerName: container}\n",
	})
	require.Equal(t, 4, run.Finished(endtoend.Patience).Trials["SUCCEEDED"])
	for _, trial := range w.Trials(run.ID()) {
		attempt := filepath.Join(share, "nni", run.ID(), "trials", trial.ID, "attempt-1")
		content, err := os.ReadFile(filepath.Join(attempt, "nnioutput", "checkingfile.txt"))
		require.NoError(t, err)
		require.Equal(t, filepath.Join(attempt, "code")+"\n", string(content))
	}
	w.requireNothingLeft()
}
