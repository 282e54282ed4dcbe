package gpu

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/testsuite/machine"
)

func TestEverybodyOnAHostFindsTheSameLedger(t *testing.T) {
	t.Setenv(LedgerVariable, "")
	expected := "/tmp/perennial-gpu"
	if open("/var/lock") || open("/var/lock/perennial") {
		expected = "/var/lock/perennial"
	}
	require.Equal(t, Ledger{expected}, Shared())
	t.Setenv(LedgerVariable, "/elsewhere")
	require.Equal(t, Ledger{"/elsewhere"}, Shared())
}

func TestOnlyADirectoryThatEverybodyMayUseIsOpen(t *testing.T) {
	directory := t.TempDir()
	require.False(t, open(directory))
	require.NoError(t, os.Chmod(directory, 0o777))
	require.False(t, open(directory), "others could remove what is not theirs")
	require.NoError(t, os.Chmod(directory, sharedMode))
	require.True(t, open(directory))
	require.False(t, open(filepath.Join(directory, "none")))
}

func TestADirectoryFromOutsideAContainerIsTold(t *testing.T) {
	outside, inside := t.TempDir(), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(outside, "ledger"), 0o777))
	if err := unix.Mount(filepath.Join(outside, "ledger"), inside, "", unix.MS_BIND, ""); err != nil {
		machine.Lacks(t, "a mount needs the right to mount: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(inside, unix.MNT_DETACH)) })
	require.True(t, mounted(inside))
	require.True(t, mounted(filepath.Join(inside, "not", "yet")))
	require.Empty(t, Ledger{inside}.Secluded())
	require.False(t, mounted("/"))
}
