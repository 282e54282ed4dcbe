package endtoend

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Disk is a disk of its own for a state directory: an ext4 file system in an
// image file, so that its power can be cut.
type Disk struct {
	h     *Home
	Mount string
	image string
}

// NewDisk mounts a fresh disk and puts a home on it; its working directory, and
// with it the ledger and all that commands print, stays outside.
func NewDisk(t testing.TB) (*Disk, *Home) {
	base, err := os.MkdirTemp("", "perennial-disk-")
	require.NoError(t, err)
	t.Cleanup(func() {
		if !t.Failed() {
			_ = os.RemoveAll(base)
		}
	})
	d := &Disk{Mount: filepath.Join(base, "disk"), image: filepath.Join(base, "image-0")}
	require.NoError(t, os.Mkdir(d.Mount, 0o755))
	file, err := os.Create(d.image)
	require.NoError(t, err)
	require.NoError(t, file.Truncate(512<<20))
	require.NoError(t, file.Close())
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", d.image).CombinedOutput(); err != nil {
		Skip(t, "no ext4 image could be made (root and mkfs.ext4 are needed): %v %s", err, out)
	}
	if err := d.mount(); err != nil {
		Skip(t, "an image file cannot be mounted (root and loop devices are needed): %v", err)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "--lazy", d.Mount).Run() })
	d.h = NewHomeIn(t, base)
	d.h.Dir = filepath.Join(d.Mount, "state")
	return d, d.h
}

// mount has the kernel write nothing on its own account for minutes: so what a
// program has not synced is lost in a cut, and the image does not change while a
// copy is made of it.
func (d *Disk) mount() error {
	out, err := exec.Command("mount", "-o", "loop,commit=300", d.image, d.Mount).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// CutPower makes the disk what it would be after a power cut in this moment: all
// processes of the home stand still while the image is copied, and die. It
// returns the runners that ran.
func (d *Disk) CutPower() (ran []Process) {
	h := d.h
	h.t.Helper()
	d.freeze()
	ran = h.Processes(Runner)
	image := d.image + "'"
	out, err := exec.Command("cp", "--sparse=always", d.image, image).CombinedOutput()
	require.NoError(h.t, err, "%s", out)
	h.Await("the death of everything", func() bool { return len(h.Kill()) == 0 })
	h.Await("the disk to be free", func() bool { return exec.Command("umount", d.Mount).Run() == nil })
	require.NoError(h.t, os.Remove(d.image))
	d.image = image
	require.NoError(h.t, d.mount())
	return ran
}

// freeze stops every process of the home, and those that they start meanwhile. One
// that waits for its child to begin another program cannot be stopped before that has:
// a child that was stopped on the way is let go on now and then.
func (d *Disk) freeze() {
	looks := 0
	d.h.Await("everything to stand still", func() bool {
		still := true
		looks++
		for _, process := range d.h.Processes() {
			if !stopped(process.PID) {
				still = false
				_ = syscall.Kill(process.PID, syscall.SIGSTOP)
			} else if looks%50 == 0 {
				still = false
				_ = syscall.Kill(process.PID, syscall.SIGCONT)
			}
		}
		return still
	})
}

// stopped tells whether every thread of a process stands still.
func stopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 0 && fields[0] != "T" && fields[0] != "Z" && fields[0] != "X" {
			return false
		}
	}
	return true
}
