package codedir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// stagingMark is what stands between a folder's name and the random end of
// the name under which it is built.
const stagingMark = ".tmp-"

// stage lets fill build a folder beside into and renames it there, whole and
// on disk. Where one stands at into already, there is nothing to do: only
// whole ones come there. It reads the folder that into is in.
func stage(into string, fill func(*builder) error) error {
	into = filepath.Clean(into)
	if there, err := isFolder(into); there || err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(into), 0o777); err != nil {
		return err
	}
	sweep(into)
	staging, err := claim(into)
	if err != nil {
		return err
	}
	defer staging.discard()
	if err := staging.build(fill); err != nil {
		return fmt.Errorf("%s: %w", into, err)
	}
	return staging.publish(into)
}

func isFolder(name string) (bool, error) {
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !info.IsDir() {
		return false, fmt.Errorf("%s is in the way: it is not a folder", name)
	}
	return true, nil
}

// staging is a folder being built. The kernel's lock on it tells a living
// builder from one that was killed.
type staging struct {
	path string
	lock *os.File
}

// claim makes a folder that sweep leaves alone. A sweeper may come between
// making and locking; then the folder is lost and another one is made.
func claim(into string) (*staging, error) {
	for {
		name := into + stagingMark + strings.ToLower(rand.Text())
		if err := os.Mkdir(name, 0o777); err != nil {
			return nil, err
		}
		s, err := open(name)
		if err != nil {
			return nil, err
		}
		// Network file systems cannot lock folders. There nobody can sweep
		// either, and a killed builder's folder stays.
		if err := s.own(); err == nil || errors.Is(err, errNoLocks) {
			return s, nil
		}
		s.lock.Close()
	}
}

var (
	errTaken   = errors.New("another process has the folder")
	errNoLocks = errors.New("the file system does not lock folders")
)

// open tolerates that the folder is gone: own finds out.
func open(name string) (*staging, error) {
	opened, err := os.Open(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return &staging{path: name, lock: opened}, nil
}

// own takes the folder's lock: errTaken if a living process has it, or had it
// and removed the folder.
func (s *staging) own() error {
	if s.lock == nil {
		return errTaken
	}
	err := unix.Flock(int(s.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errTaken
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errNoLocks, err)
	}
	mine, err := s.lock.Stat()
	if err != nil {
		return err
	}
	if now, err := os.Lstat(s.path); err != nil || !os.SameFile(mine, now) {
		return errTaken
	}
	return nil
}

// sweep removes what killed builders of into left. What it cannot remove now
// the next one can.
func sweep(into string) {
	siblings, _ := os.ReadDir(filepath.Dir(into))
	for _, sibling := range siblings {
		if !strings.HasPrefix(sibling.Name(), filepath.Base(into)+stagingMark) {
			continue
		}
		sweepOne(filepath.Join(filepath.Dir(into), sibling.Name()))
	}
}

func sweepOne(name string) {
	s, err := open(name)
	if err != nil {
		return
	}
	defer s.lock.Close()
	if s.own() == nil {
		s.discard()
	}
}

func (s *staging) build(fill func(*builder) error) error {
	root, err := os.OpenRoot(s.path)
	if err != nil {
		return err
	}
	defer root.Close()
	b := newBuilder(root)
	defer b.flushes.Wait()
	if err := fill(b); err != nil {
		return err
	}
	if err := b.finish(); err != nil {
		return err
	}
	return s.lock.Sync()
}

// publish renames the folder into place. That somebody else was faster is as
// good: what is there is whole and the same.
func (s *staging) publish(into string) error {
	if err := os.Rename(s.path, into); err != nil {
		if there, _ := isFolder(into); there {
			return nil
		}
		return err
	}
	parent, err := os.Open(filepath.Dir(into))
	if err != nil {
		return err
	}
	return errors.Join(parent.Sync(), parent.Close())
}

// discard removes the folder, if it was not published, and gives up the lock.
func (s *staging) discard() {
	defer s.lock.Close()
	if os.RemoveAll(s.path) == nil {
		return
	}
	// Folders may have their final modes already, which may forbid removing.
	filepath.WalkDir(s.path, func(name string, item fs.DirEntry, err error) error {
		if item != nil && item.IsDir() && err == nil {
			return os.Chmod(name, 0o700)
		}
		return nil
	})
	os.RemoveAll(s.path)
}
