package binary

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestARunnerIsFoundPackedOrNot(t *testing.T) {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, err := writer.Write([]byte("arm"))
	require.NoError(t, errors.Join(err, writer.Close()))
	files := fstest.MapFS{
		"built/perennial-runner-linux-amd64": {Data: []byte("amd")},
		"built/perennial-runner-linux-arm64": {Data: packed.Bytes()},
	}
	for processor, want := range map[string]string{"amd64": "amd", "arm64": "arm"} {
		content, err := runner(files, "linux", processor)
		require.NoError(t, err)
		require.Equal(t, want, string(content))
	}
}

func TestAMissingRunnerSaysHowToGetIt(t *testing.T) {
	_, err := runner(fstest.MapFS{}, "plan9", "mips")
	require.ErrorIs(t, err, ErrNotBuilt)
	require.EqualError(t, err, "plan9/mips: this program was built without a runner: build it with `make build`")
}

func TestInstallingIsRepeatableMendsDamageAndLeavesNothingElse(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "state", "runner")
	name := "built/perennial-runner-" + runtime.GOOS + "-" + runtime.GOARCH
	files := fstest.MapFS{name: {Data: []byte("#!/bin/sh\necho a runner\n")}}
	path, err := installFrom(files, directory)
	require.NoError(t, err)
	said, err := exec.Command(path).Output()
	require.NoError(t, err)
	require.Equal(t, "a runner\n", string(said))
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, whole[:10], 0o755))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			again, err := installFrom(files, directory)
			require.NoError(t, err)
			require.Equal(t, path, again)
		})
	}
	group.Wait()
	mended, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, whole, mended)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), info.Mode().Perm())
	entries, err := os.ReadDir(directory)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}
