package sshlab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// slots is how many labs one machine has room for.
const slots = 250

// slot is a lab's number: its directory and its network carry it. A lock of the
// kernel holds it, so the number of a lab that was killed is free, and whoever
// takes it removes what is left.
type slot struct {
	number    int
	directory string
	lock      *os.File
}

func takeSlot() (*slot, error) {
	root := filepath.Join(os.TempDir(), fmt.Sprintf("perennial-sshlab-%d", os.Getuid()))
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, err
	}
	for number := range slots {
		taken, err := take(root, number)
		if taken != nil || err != nil {
			return taken, err
		}
	}
	return nil, fmt.Errorf("%d labs at a time are all there is room for", slots)
}

func take(root string, number int) (*slot, error) {
	lock, err := os.OpenFile(filepath.Join(root, fmt.Sprintf("%d.lock", number)), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, lock.Close()
	}
	s := &slot{number, filepath.Join(root, fmt.Sprint(number)), lock}
	if err := errors.Join(os.RemoveAll(s.directory), os.MkdirAll(s.directory, 0o755)); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

// release removes the directory before anybody can take the number.
func (s *slot) release() {
	_ = os.RemoveAll(s.directory)
	_ = s.lock.Close()
}
