package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// slots is how many laboratories of a kind one machine has room for.
const slots = 250

// Slot is the number of a laboratory among those of its kind: its directory and its
// network carry it. A lock of the kernel holds it, so the number of one that was
// killed is free, and whoever takes it removes what is left.
type Slot struct {
	Number    int
	Directory string
	Lock      *os.File // whoever has it open holds the slot
}

// TakeSlot takes the first free number of a kind, with an empty directory.
func TakeSlot(kind string) (*Slot, error) {
	name := fmt.Sprintf("perennial-%s-%d", kind, os.Getuid())
	// Networks are the machine's, so whoever has a TMPDIR of his own meets the others here.
	locks, root := filepath.Join("/tmp", name), filepath.Join(os.TempDir(), name)
	if err := errors.Join(os.MkdirAll(locks, 0o755), os.MkdirAll(root, 0o755)); err != nil {
		return nil, err
	}
	for number := range slots {
		taken, err := take(locks, root, number)
		if taken != nil || err != nil {
			return taken, err
		}
	}
	return nil, fmt.Errorf("%d at a time are all there is room for", slots)
}

func take(locks, root string, number int) (*Slot, error) {
	lock, err := os.OpenFile(filepath.Join(locks, fmt.Sprintf("%d.lock", number)), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, lock.Close()
	}
	s := &Slot{number, filepath.Join(root, fmt.Sprint(number)), lock}
	if err := errors.Join(os.RemoveAll(s.Directory), os.MkdirAll(s.Directory, 0o755)); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

// Release removes the directory before anybody can take the number.
func (s *Slot) Release() {
	_ = os.RemoveAll(s.Directory)
	_ = s.Lock.Close()
}
