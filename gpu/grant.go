package gpu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Grant is what Acquire gave: slots that this process has until it releases them
// or dies.
type Grant struct {
	ledger Ledger
	leases []Lease
	locks  []*os.File
	noted  bool // the leases may have been written
	// kept is the ledger's directory, locked against systemd-tmpfiles, which
	// removes what lies in /tmp for long and passes over what is locked.
	kept *os.File
}

// Acquire takes the slots of all these leases, of one trial and by its request, or
// none of them. Where others leave no room the error is ErrTaken and says who. The
// locks are close-on-exec: they are this process's alone.
func (l Ledger) Acquire(ctx context.Context, request Request, leases []Lease, judge Judge) (*Grant, error) {
	if err := l.make(); err != nil {
		return nil, err
	}
	guard, err := l.guard(ctx, unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer guard.Close()
	present, err := l.read()
	if err != nil {
		return nil, err
	}
	grant := &Grant{ledger: l, leases: leases, kept: l.keep()}
	if err := grant.take(request, counting(present, judge)); err != nil {
		grant.drop()
		return nil, err
	}
	return grant, nil
}

// take takes the slots, under the guard.
func (g *Grant) take(request Request, present []Lease) error {
	for _, lease := range g.leases {
		on := onSame(lease.Slot, present)
		if why := request.Against(on); why != "" {
			return fmt.Errorf("GPU %d %s: %w", lease.Index, why, ErrTaken)
		}
		// Its lock may be free: somebody's processes outlived their runner.
		if slices.ContainsFunc(on, func(other Lease) bool { return other.Number == lease.Number }) {
			return fmt.Errorf("slot %d of GPU %d: %w", lease.Number, lease.Index, ErrTaken)
		}
		if err := g.lock(lease.Slot); err != nil {
			return err
		}
	}
	g.noted = true
	return g.write()
}

// onSame returns the leases on a slot's GPU; by the file's name, since that is all
// that is known of a lock without a lease.
func onSame(slot Slot, leases []Lease) []Lease {
	var on []Lease
	for _, lease := range leases {
		if odd.ReplaceAllString(lease.UUID, "_") == odd.ReplaceAllString(slot.UUID, "_") {
			on = append(on, lease)
		}
	}
	return on
}

func (g *Grant) lock(slot Slot) error {
	file, err := g.ledger.openLock(slot.lockFile())
	if err != nil {
		return err
	}
	g.locks = append(g.locks, file)
	err = flock(file, unix.LOCK_EX)
	if errors.Is(err, unix.EWOULDBLOCK) || err == nil && !stillThere(file) {
		return fmt.Errorf("slot %d of GPU %d: %w", slot.Number, slot.Index, ErrTaken)
	}
	return err
}

// stillThere tells whether a locked file is the one that others will find: somebody
// may have tidied up before it was locked.
func stillThere(file *os.File) bool {
	locked, err := file.Stat()
	if err != nil {
		return false
	}
	found, err := os.Lstat(file.Name())
	return err == nil && os.SameFile(locked, found)
}

// keep returns the locked directory, nil where that cannot be: it is only a help.
func (l Ledger) keep() *os.File {
	directory, err := os.Open(l.Directory)
	if err != nil {
		return nil
	}
	if err := flock(directory, unix.LOCK_SH); err != nil {
		directory.Close()
		return nil
	}
	return directory
}

// Note lets the leases say which processes their trial has now, for the day when
// nobody is there to be asked.
func (g *Grant) Note(child Identity, tree []Identity) error {
	for i := range g.leases {
		g.leases[i].Child, g.leases[i].Tree = child, tree
	}
	return g.write()
}

func (g *Grant) write() error {
	for _, lease := range g.leases {
		if err := g.ledger.write(lease); err != nil {
			return fmt.Errorf("write the lease of GPU %d: %w", lease.Index, err)
		}
	}
	return nil
}

// write replaces a lease as a whole. It need not outlast a power cut: no lease does.
func (l Ledger) write(lease Lease) error {
	lease.Format, lease.UID, lease.Held = Format, os.Geteuid(), false
	content, err := json.Marshal(lease)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(l.Directory, ".lease-*")
	if err != nil {
		return err
	}
	_, err = file.Write(append(content, '\n'))
	err = errors.Join(err, file.Chmod(0o644), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), filepath.Join(l.Directory, lease.leaseFile(os.Geteuid())))
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return err
}

// releasePatience is how long a release waits for the guard. Without it the slot
// looks for a moment as if it were held by nobody knows whom.
const releasePatience = time.Second

// Release gives the slots back. The caller has seen to it that no process of the
// trial is left.
func (g *Grant) Release() {
	if g == nil || g.locks == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), releasePatience)
	defer cancel()
	if guard, err := g.ledger.guard(ctx, unix.LOCK_EX); err == nil {
		defer guard.Close()
	}
	g.drop()
}

func (g *Grant) drop() {
	for i, file := range g.locks {
		if g.noted {
			os.Remove(filepath.Join(g.ledger.Directory, g.leases[i].leaseFile(os.Geteuid())))
		}
		file.Close()
	}
	g.locks, g.noted = nil, false
	if g.kept != nil {
		g.kept.Close()
	}
}

// Forget removes a lease of this user's whose trial has no process left, unless
// its slot was given away again meanwhile.
func (l Ledger) Forget(ctx context.Context, lease Lease) error {
	guard, err := l.guard(ctx, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer guard.Close()
	name := lease.leaseFile(os.Geteuid())
	held, err := l.held(lease.lockFile())
	now, there := l.lease(name)
	if err != nil || held || !there || now.Runner != lease.Runner || now.BootID != lease.BootID {
		return err
	}
	return os.Remove(filepath.Join(l.Directory, name))
}
