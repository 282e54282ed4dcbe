package rundir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestATreeThatForbidsWritingIsRemoved means something to everybody but root.
func TestATreeThatForbidsWritingIsRemoved(t *testing.T) {
	tree := filepath.Join(t.TempDir(), "tree")
	below := filepath.Join(tree, "below")
	require.NoError(t, os.MkdirAll(filepath.Join(below, "further"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(below, "further", "file"), nil, 0o444))
	for _, folder := range []string{filepath.Join(below, "further"), below, tree} {
		require.NoError(t, os.Chmod(folder, 0o555))
	}
	require.NoError(t, RemoveTree(tree))
	require.NoDirExists(t, tree)
	require.NoError(t, RemoveTree(tree), "what is gone is removed")
}
