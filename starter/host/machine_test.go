package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAStateDirectoryStaysWithTheMachineThatSharedItFirst(t *testing.T) {
	dir, err := Open(t.TempDir())
	require.NoError(t, err)
	here, there := filepath.Join(t.TempDir(), "here"), filepath.Join(t.TempDir(), "there")
	require.NoError(t, os.WriteFile(here, []byte("11111111111111111111111111111111\n"), 0o600))
	require.NoError(t, os.WriteFile(there, []byte("22222222222222222222222222222222\n"), 0o600))
	require.NoError(t, dir.settle(here))
	require.NoError(t, dir.settle(here))
	var elsewhere *ElsewhereError
	require.ErrorAs(t, dir.settle(there), &elsewhere)
	require.Contains(t, elsewhere.Error(), filepath.Join(dir.Path(), "machine"))

	require.NoError(t, os.Remove(filepath.Join(dir.Path(), "machine")))
	require.NoError(t, dir.settle(there), "the way out does not lead out")
}

func TestAMachineWithoutAnIDIsBoundToNothing(t *testing.T) {
	dir, err := Open(t.TempDir())
	require.NoError(t, err)
	for _, content := range []string{"", "\n", "uninitialized\n"} {
		file := filepath.Join(t.TempDir(), "machine-id")
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		require.NoError(t, dir.settle(file))
	}
	require.NoError(t, dir.settle(filepath.Join(t.TempDir(), "missing")))
	require.NoFileExists(t, filepath.Join(dir.Path(), "machine"))
}
