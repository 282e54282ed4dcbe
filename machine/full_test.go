package machine

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/testsuite/machine"
)

func TestAFullDiskIsNamedInTheSameWordsAtEveryTry(t *testing.T) {
	try := func(name string) error {
		return fault("submit", fmt.Errorf("code: %w", &fs.PathError{Op: "write", Path: "/proc/no such folder/" + name, Err: syscall.ENOSPC}))
	}
	err := try("tmp-1")
	require.Equal(t, Exhausted, CodeOf(err))
	require.ErrorContains(t, err, "the disk is full at /proc, make room there")
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, err.Error(), try("tmp-2").Error())
	require.ErrorContains(t, fault("submit", &os.LinkError{New: "/proc/x", Err: syscall.EDQUOT}), "/proc, make room there and it goes on: disk quota exceeded")
	require.ErrorContains(t, fault("submit", syscall.ENOSPC), "the disk is full, make room")
}

func TestNothingIsStartedOnADiskWithHardlyAnyRoom(t *testing.T) {
	require.NoError(t, requireRoom(machine.SmallDisk(t, "4m")))
	err := fault("submit", requireRoom(machine.SmallDisk(t, "512k")))
	require.Equal(t, Exhausted, CodeOf(err))
	require.ErrorContains(t, err, "the disk is full at")
}

func TestARunnerThatDiedForWantOfRoomSaysThatTheDiskIsFull(t *testing.T) {
	run := rundir.Run{Directory: t.TempDir()}
	said := "2026-01-01T00:00:00Z ends: fallocate " + run.Path(rundir.ReserveFile) + ": no space left on device\n"
	require.NoError(t, os.WriteFile(filepath.Join(run.Directory, rundir.RunnerLog), []byte(said), 0o600))
	err := diedEarly(run, nil)
	require.Equal(t, Exhausted, CodeOf(err))
	require.ErrorContains(t, err, "the disk is full at "+mountOf(run.Directory))
}
