package gpu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Ledger is the host's record of who has which GPU: a directory that all users,
// experiments and controllers of the host share, and containers by mounting it.
//
// Each slot has a lock file, which whoever needs it first makes and whoever has
// the slot holds locked, by the kernel. Beside it lie leases, each written by its
// own user, that say who that is. A lease counts while its lock is held, and
// beyond that for as long as its trial's processes live: whether they do is for
// the caller to judge, see Judge. Files are never removed but leases by their
// holder. Every lock is taken, and every lease read or written, under one guard,
// which nobody keeps for longer than a few file operations.
type Ledger struct {
	Directory string
}

// Judge tells whether a lease whose lock is free still counts, because processes
// of its trial live. It must be quick and change nothing.
type Judge func(Lease) bool

// ErrTaken is returned by Acquire where there is no room any more.
var ErrTaken = errors.New("the GPU was given to another trial meanwhile")

// LedgerVariable names another directory for the ledger than the host's. All who
// share the GPUs must agree on it; it is for containers and tests.
const LedgerVariable = "PERENNIAL_GPU_LEDGER"

const (
	sharedMode = os.ModeSticky | 0o777
	// guardPatience is far more than anybody keeps the guard.
	guardPatience = 10 * time.Second
	lookInterval  = 2 * time.Millisecond
	maxLease      = 1 << 20 // bytes
)

// Shared returns the ledger that everybody on this host uses: in /var/lock where
// every user may make files there, or where root has made it for them, else in
// /tmp.
func Shared() Ledger {
	if directory := os.Getenv(LedgerVariable); directory != "" {
		return Ledger{directory}
	}
	const directory = "/var/lock/perennial"
	if open("/var/lock") || open(directory) {
		return Ledger{directory}
	}
	return Ledger{"/tmp/perennial-gpu"}
}

func open(directory string) bool {
	info, err := os.Stat(directory)
	return err == nil && info.IsDir() && info.Mode()&sharedMode == sharedMode
}

// make makes the directory where it is missing, as a whole, and refuses one that
// somebody put there who can be up to no good.
func (l Ledger) make() error {
	if _, err := os.Lstat(l.Directory); err == nil {
		return l.check()
	}
	fresh, err := os.MkdirTemp(filepath.Dir(l.Directory), ".perennial-*")
	if err == nil {
		defer os.Remove(fresh)
		err = os.Chmod(fresh, sharedMode)
	}
	if err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, fresh, unix.AT_FDCWD, l.Directory, unix.RENAME_NOREPLACE)
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make the GPU ledger %s: %w", l.Directory, err)
	}
	return l.check()
}

func (l Ledger) check() error {
	info, err := os.Lstat(l.Directory)
	if err != nil {
		return fmt.Errorf("look at the GPU ledger: %w", err)
	}
	mend := fmt.Sprintf("remove it, or have its owner do so; it is made anew, a directory with mode 1777 (%s names another one)", LedgerVariable)
	if !info.IsDir() {
		return fmt.Errorf("the GPU ledger %s is no directory: %s", l.Directory, mend)
	}
	if own := int(info.Sys().(*syscall.Stat_t).Uid) == os.Geteuid(); info.Mode()&sharedMode == sharedMode || own && info.Mode().Perm()&0o022 == 0 {
		return nil
	}
	return fmt.Errorf("the GPU ledger %s has mode %v, so that others cannot use it, or can remove what is not theirs: %s",
		l.Directory, info.Mode(), mend)
}

// Leases returns every lease with what the kernel says of its lock, and a nameless
// one for every lock that is held by nobody knows whom. That there is no ledger
// yet means that there are none.
func (l Ledger) Leases(ctx context.Context) ([]Lease, error) {
	if _, err := os.Lstat(l.Directory); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err := l.check(); err != nil {
		return nil, err
	}
	guard, err := l.guard(ctx, unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	defer guard.Close()
	return l.read()
}

// Counting returns the leases that count.
func (l Ledger) Counting(ctx context.Context, judge Judge) ([]Lease, error) {
	leases, err := l.Leases(ctx)
	return counting(leases, judge), err
}

func counting(leases []Lease, judge Judge) []Lease {
	var count []Lease
	for _, lease := range leases {
		if lease.Held || judge(lease) {
			count = append(count, lease)
		}
	}
	return count
}

// read reads all leases. The caller has the guard.
func (l Ledger) read() ([]Lease, error) {
	files, err := os.ReadDir(l.Directory)
	if err != nil {
		return nil, err
	}
	var leases []Lease
	held := map[string]bool{} // by the name of the lock
	for _, file := range files {
		if lockName.MatchString(file.Name()) {
			if held[file.Name()], err = l.held(file.Name()); err != nil {
				return nil, err
			}
		} else if lease, ok := l.lease(file.Name()); ok {
			leases = append(leases, lease)
		}
	}
	return assign(leases, held), nil
}

// assign tells which lease a held lock belongs to: of several on one slot it is
// the newest, since nobody writes one without the lock.
func assign(leases []Lease, held map[string]bool) []Lease {
	newest := map[string]int{}
	for i, lease := range leases {
		name := lease.lockFile()
		if n, found := newest[name]; held[name] && (!found || leases[n].Since.Before(lease.Since)) {
			newest[name] = i
		}
	}
	for name, isHeld := range held {
		n, found := newest[name]
		switch {
		case isHeld && found:
			leases[n].Held = true
		case isHeld:
			leases = append(leases, nameless(name))
		}
	}
	return leases
}

func nameless(lockFile string) Lease {
	parts := lockName.FindStringSubmatch(lockFile)
	number, _ := strconv.Atoi(parts[2]) // digits, by lockName
	return Lease{Slot: Slot{UUID: parts[1], Number: number}, Share: 1, UID: -1, Held: true}
}

// held tells whether somebody holds a lock file. What is not an ordinary file
// locks nothing.
func (l Ledger) held(name string) (bool, error) {
	file, err := l.openRegular(name)
	if errors.Is(err, errOdd) || errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	err = flock(file, unix.LOCK_SH)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// lease reads one lease file. One that is broken, or not its user's own, is none.
func (l Ledger) lease(name string) (Lease, bool) {
	parts := leaseName.FindStringSubmatch(name)
	if parts == nil {
		return Lease{}, false
	}
	file, err := l.openRegular(name)
	if err != nil {
		return Lease{}, false
	}
	defer file.Close()
	uid, err := ownerOf(file)
	if err != nil || strconv.Itoa(uid) != parts[3] {
		return Lease{}, false
	}
	var lease Lease
	content, err := io.ReadAll(io.LimitReader(file, maxLease))
	if err != nil || json.Unmarshal(content, &lease) != nil || lease.leaseFile(uid) != name {
		return Lease{}, false
	}
	lease.UID, lease.Held = uid, false
	lease.Share = max(lease.Share, 1)
	return lease, true
}

// errOdd says that something in the ledger is no ordinary file.
var errOdd = errors.New("is no ordinary file")

// openRegular opens a file for reading, which is all that a lock needs, and never
// what a link points to or what would block.
func (l Ledger) openRegular(name string) (*os.File, error) {
	path := filepath.Join(l.Directory, name)
	descriptor, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%s %w", path, errOdd)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	file := os.NewFile(uintptr(descriptor), path)
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		file.Close()
		return nil, fmt.Errorf("%s %w: remove it", path, errOdd)
	}
	return file, nil
}

// openLock opens a lock file and makes it where it is missing. It is made apart
// from being opened: where the directory is sticky, Debian lets nobody open
// another's file by a call that could also have made it.
func (l Ledger) openLock(name string) (*os.File, error) {
	file, err := l.openRegular(name)
	if !errors.Is(err, os.ErrNotExist) {
		return file, err
	}
	path := filepath.Join(l.Directory, name)
	made, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err == nil {
		// The umask must not keep others out.
		err = errors.Join(made.Chmod(0o644), made.Close())
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	return l.openRegular(name)
}

func ownerOf(file *os.File) (int, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	return int(info.Sys().(*syscall.Stat_t).Uid), nil
}

// guard waits for the ledger's guard; closing the file gives it back.
func (l Ledger) guard(ctx context.Context, how int) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, guardPatience)
	defer cancel()
	for {
		file, err := l.tryGuard(how)
		if err == nil || !errors.Is(err, unix.EWOULDBLOCK) {
			return file, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("somebody keeps %s locked and does not go on: %w", filepath.Join(l.Directory, guardFile), ctx.Err())
		case <-time.After(lookInterval):
		}
	}
}

func (l Ledger) tryGuard(how int) (*os.File, error) {
	file, err := l.openLock(guardFile)
	if errors.Is(err, os.ErrPermission) {
		return nil, unix.EWOULDBLOCK // just made, and not yet readable for others
	}
	if err != nil {
		return nil, err
	}
	if err := flock(file, how); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func flock(file *os.File, how int) error {
	for {
		err := unix.Flock(int(file.Fd()), how|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
