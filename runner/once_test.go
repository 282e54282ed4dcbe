package runner_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/testsuite/machine"
)

func TestWhatRootsContainerWritesIsForWhoeverHasTheDirectory(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		machine.Lacks(t, "only root can be somebody else")
	}
	const somebody = 54321
	f := newAttempt(t, "true")
	require.NoError(t, f.WriteSpec(f.spec))
	require.NoError(t, os.Chown(f.Directory, somebody, somebody))
	out, err := exec.Command(binary, "once", f.Directory).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, name := range []string{rundir.ExitFile, rundir.ProcessFile, rundir.JournalFile, rundir.RunnerLog} {
		info, err := os.Stat(f.Path(name))
		require.NoError(t, err)
		require.EqualValues(t, somebody, info.Sys().(*syscall.Stat_t).Uid, name)
	}
}
