package rundir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// ErrHeld is returned by Acquire while somebody starts or runs the attempt.
var ErrHeld = errors.New("the run is claimed by a living process")

func (r Run) claimPath() string {
	if r.Claim != "" {
		return r.Claim
	}
	return r.Path(ClaimFile)
}

// Acquire takes the claim or returns ErrHeld at once. The lock belongs to the
// open file: it lasts until the returned file and every inherited copy of its
// descriptor are closed, so handing the descriptor to a child hands over the
// claim. The descriptor is close-on-exec. Held may own the lock for some
// microseconds: who meets ErrHeld without a Process tries again.
func (r Run) Acquire() (*os.File, error) {
	if err := MakeDirectory(filepath.Dir(r.claimPath())); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(r.claimPath(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(file, unix.LOCK_EX); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// Held tells whether somebody starts or runs the attempt. An error means that it
// is unknown, never that nobody does.
func (r Run) Held() (bool, error) {
	file, err := os.Open(r.claimPath())
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	// A shared lock: two observers must not take each other for the runner.
	err = lock(file, unix.LOCK_SH)
	if errors.Is(err, ErrHeld) {
		return true, nil
	}
	return false, err
}

// KeepClaim makes the claim's file look used, for whatever tidies up its folder by
// age, as systemd-tmpfiles does in /var/tmp after thirty days. Without the file
// nobody could tell that its lock is held.
func (r Run) KeepClaim() error {
	now := time.Now()
	return os.Chtimes(r.claimPath(), now, now)
}

func lock(file *os.File, how int) error {
	for {
		err := unix.Flock(int(file.Fd()), how|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrHeld
		default:
			return fmt.Errorf("lock %s: %w", file.Name(), err)
		}
	}
}

// InheritedClaim returns the claim that the submitter handed to this process on
// ClaimDescriptor, close-on-exec from here on. It is an error if that descriptor
// is not this run's claim, so a runner started by hand never runs unclaimed.
func (r Run) InheritedClaim() (*os.File, error) {
	file := os.NewFile(ClaimDescriptor, r.claimPath())
	if file == nil {
		return nil, errors.New("no claim was handed over on descriptor 3")
	}
	unix.CloseOnExec(ClaimDescriptor)
	inherited, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("no claim was handed over on descriptor 3: %w", err)
	}
	expected, err := os.Stat(r.claimPath())
	if err != nil {
		return nil, err
	}
	if !os.SameFile(inherited, expected) {
		return nil, fmt.Errorf("descriptor 3 is not the claim %s", r.claimPath())
	}
	return file, lock(file, unix.LOCK_EX)
}
