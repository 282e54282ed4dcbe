package runs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// storageTimeout bounds each thing asked of a shared storage: one whose server is
// gone does not answer at all.
const storageTimeout = 10 * time.Second

// sharedDirectory is where an attempt has its code and its output on a shared
// storage; empty where it has none. As with NNI, all of an experiment lies in
// nni/ID there. The journal and all that must never be lost stay on this machine.
func sharedDirectory(ctx context.Context, run rundir.Run, job launching) (string, error) {
	if job.Storage == nil {
		return "", nil
	}
	point, err := mountPoint(job.Storage.MountPoint)
	if err != nil {
		return "", err
	}
	if err := answersInTime(func() error { return ensureMounted(ctx, point, *job.Storage) }); err != nil {
		return "", platforms.Errorf(platforms.Transient, "submit", "shared storage: %w", err)
	}
	experiment := filepath.Join(point, "nni", job.Key.Experiment)
	directory := filepath.Join(experiment, "trials", job.Key.TrialID(), filepath.Base(run.Directory))
	return directory, answersInTime(func() error { return os.MkdirAll(filepath.Join(directory, outputFolder), 0o777) })
}

// outputFolder is NNI_OUTPUT_DIR on a shared storage, by NNI's name.
const outputFolder = "nnioutput"

func mountPoint(written string) (string, error) {
	if filepath.IsAbs(written) {
		return filepath.Clean(written), nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, written), err
}

// answersInTime gives up on what hangs. What hangs in the kernel cannot be ended.
func answersInTime(do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-time.After(storageTimeout):
		return fmt.Errorf("it does not answer; is its server there?")
	}
}

// ensureMounted mounts a storage where it is not mounted and this may be done.
func ensureMounted(ctx context.Context, point string, storage trial.SharedStorage) error {
	fault := mounted(point)
	if fault == nil {
		return nil
	}
	command := mountCommand(point, storage)
	if !storage.Mount || command == nil {
		return fmt.Errorf("%w; mount %s there, and it goes on", fault, storage.Source)
	}
	if os.Geteuid() == 0 {
		if err := os.MkdirAll(point, 0o755); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, storageTimeout)
	defer cancel()
	said, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w, and %q fails: %s; mount %s there, and it goes on",
			fault, strings.Join(command, " "), strings.TrimSpace(string(said)), storage.Source)
	}
	return mounted(point)
}

// mountCommand is what mounts a storage with this process's rights: any by root, one
// that /etc/fstab lists by its user. Nil: there is none.
func mountCommand(point string, storage trial.SharedStorage) []string {
	switch {
	case storage.Type != trial.NFS:
		return nil
	case os.Geteuid() == 0:
		return []string{"mount", "-t", "nfs", storage.Source, point}
	}
	return []string{"mount", point}
}

// sharedTypes are the file systems of statfs(2) that other machines see, FUSE for
// all that are served by programs: a directory in one need not be the mount point.
var sharedTypes = []int64{0x6969, 0x65735546, 0xff534d42, 0xfe534d42, 0x517b, 0x0bd00bd0, 0x00c36400, 0x47504653,
	0x5346414f, 0x01021997, 0x19830326, 0x20030528, 0xaad7aaea}

// mounted tells why a directory is not one of a mounted file system.
func mounted(point string) error {
	var status unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, point, 0, unix.STATX_TYPE, &status); err != nil {
		return fmt.Errorf("%s: %w", point, err)
	}
	var system unix.Statfs_t
	if err := unix.Statfs(point, &system); err != nil {
		return fmt.Errorf("%s: %w", point, err)
	}
	root := status.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
	if root || slices.Contains(sharedTypes, int64(uint32(system.Type))) {
		return nil
	}
	return fmt.Errorf("nothing is mounted at %s", point)
}
