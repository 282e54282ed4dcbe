package machine

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/machine"
	"github.com/perennial-ml/perennial/trial"
)

func TestADirectoryThatIsNoMountPointIsNoSharedStorage(t *testing.T) {
	require.ErrorContains(t, mounted(t.TempDir()), "nothing is mounted there")
	require.ErrorContains(t, mounted("/nowhere"), "no such file or directory")
	require.NoError(t, mounted(machine.SmallDisk(t, "1m")))
}

// program puts a program of that name first into PATH.
func program(t *testing.T, name, script string) {
	directory := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(directory, name), []byte("#!/bin/sh\n"+script), 0o755))
	t.Setenv("PATH", directory+":"+os.Getenv("PATH"))
}

func TestRootMountsWhatIsToBeMountedAndSaysWhatMountSays(t *testing.T) {
	if os.Geteuid() != 0 {
		machine.Lacks(t, "only root may mount")
	}
	point := filepath.Join(machine.SmallDisk(t, "1m"), "made", "here")
	storage := trial.SharedStorage{MountPoint: point, Source: "server:/export", Type: trial.NFS}
	require.ErrorContains(t, ensureMounted(t.Context(), point, storage), "mount server:/export, and it goes on")

	storage.Mount = true
	program(t, "mount", "echo \"mount.nfs: $4: no route to $3.\" >&2; echo more >&2; exit 32\n")
	require.ErrorContains(t, ensureMounted(t.Context(), point, storage), "mount.nfs: "+point+": no route to server:/export; mount server:/export, and it goes on")

	// The kernels of test machines seldom have NFS: another file system stands for it.
	program(t, "mount", `[ "$1 $2 $3" = "-t nfs server:/export" ] && exec /bin/mount -t tmpfs tmpfs "$4"`)
	require.NoError(t, ensureMounted(t.Context(), point, storage))
	require.NoError(t, mounted(point))
	program(t, "mount", "exit 1")
	require.NoError(t, ensureMounted(t.Context(), point, storage), "it was mounted twice")
	storage.Type = "AzureBlob"
	require.ErrorContains(t, ensureMounted(t.Context(), filepath.Dir(point), storage), "mount server:/export, and it goes on")
}

func TestARelativeMountPointBeginsAtHome(t *testing.T) {
	t.Setenv("HOME", "/home/ada")
	for written, want := range map[string]string{"nfs": "/home/ada/nfs", "/mnt/nfs/": "/mnt/nfs"} {
		point, err := mountPoint(written)
		require.NoError(t, err)
		require.Equal(t, want, point)
	}
}

func TestAStorageThatDoesNotAnswerIsAskedByOneOnly(t *testing.T) {
	s := storages{turns: map[string]chan struct{}{}, timeout: 20 * time.Millisecond}
	back, asked := make(chan struct{}), atomic.Int32{}
	for range 5 {
		require.ErrorIs(t, s.ask(t.Context(), "/mnt", func() error { asked.Add(1); <-back; return nil }), errSilent)
	}
	require.EqualValues(t, 1, asked.Load())
	s.timeout = time.Minute
	require.NoError(t, s.ask(t.Context(), "/other", func() error { return nil }))
	close(back)
	require.ErrorIs(t, s.ask(t.Context(), "/mnt", func() error { return os.ErrExist }), os.ErrExist)
}
