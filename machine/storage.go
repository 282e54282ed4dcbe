package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// storageTimeout bounds what is asked of a shared storage: one whose server is gone
// does not answer at all.
const storageTimeout = 10 * time.Second

// errSilent is about a storage that does not answer.
var errSilent = errors.New("it does not answer; is its server there?")

// storages asks shared storages, each one thing at a time: a question that hangs in
// the kernel keeps a thread until the server is back, and the next would take another.
type storages struct {
	mutex   sync.Mutex
	turns   map[string]chan struct{} // by mount point
	timeout time.Duration
}

// ask does something with a storage, and gives up on it when that takes too long.
func (s *storages) ask(ctx context.Context, point string, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	turn := s.turn(point)
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return errSilent
	}
	done := make(chan error, 1)
	go func() {
		done <- do()
		<-turn
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errSilent
	}
}

func (s *storages) turn(point string) chan struct{} {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.turns[point] == nil {
		s.turns[point] = make(chan struct{}, 1)
	}
	return s.turns[point]
}

// sharedDirectory is where an attempt has its code and its output on a shared
// storage; empty where it has none. As with NNI, all of an experiment lies in
// nni/ID there. The journal and all that must never be lost stay on this machine.
func (m *Machine) sharedDirectory(ctx context.Context, run rundir.Run, job launching) (string, error) {
	if job.Storage == nil {
		return "", nil
	}
	point, err := mountPoint(job.Storage.MountPoint)
	if err != nil {
		return "", err
	}
	experiment := filepath.Join(point, "nni", job.Key.Experiment)
	directory := filepath.Join(experiment, "trials", job.Key.TrialID(), filepath.Base(run.Directory))
	err = m.storages.ask(ctx, point, func() error {
		if err := ensureMounted(ctx, point, *job.Storage); err != nil {
			return err
		}
		return os.MkdirAll(filepath.Join(directory, outputFolder), 0o777)
	})
	if err != nil {
		return "", Errorf(Transient, "submit", "shared storage at %s: %w", point, err)
	}
	return directory, nil
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

// ensureMounted mounts a storage where it is not mounted and this may be done.
func ensureMounted(ctx context.Context, point string, storage trial.SharedStorage) error {
	fault := mounted(point)
	if fault == nil {
		return nil
	}
	command := mountCommand(point, storage)
	if !storage.Mount || command == nil {
		return fmt.Errorf("%w; mount %s, and it goes on", fault, storage.Source)
	}
	if os.Geteuid() == 0 {
		if err := os.MkdirAll(point, 0o755); err != nil {
			return err
		}
	}
	said, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w, and %q fails: %s; mount %s, and it goes on",
			fault, strings.Join(command, " "), firstLine(said), storage.Source)
	}
	return mounted(point)
}

func firstLine(said []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(said)), "\n")
	return strings.TrimSuffix(line, ".")
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
		return err
	}
	var system unix.Statfs_t
	if err := unix.Statfs(point, &system); err != nil {
		return err
	}
	root := status.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
	if root || slices.Contains(sharedTypes, int64(uint32(system.Type))) {
		return nil
	}
	return errors.New("nothing is mounted there")
}
