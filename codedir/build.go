package codedir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
)

// flushers is how many files are flushed to disk at once; journalling file
// systems answer many for the price of few.
const flushers = 16

// builder fills a new folder. Nothing it does can reach outside the root.
type builder struct {
	root    *os.Root
	folders []made // parents first
	links   []made

	flushes sync.WaitGroup
	slots   chan struct{}
	mutex   sync.Mutex
	failed  error // the first of the flushes to fail
}

type made struct {
	path   string
	mode   fs.FileMode
	target string
}

func newBuilder(root *os.Root) *builder {
	return &builder{root: root, slots: make(chan struct{}, flushers)}
}

// folder makes one that can be written to; finish gives it its mode.
func (b *builder) folder(path string, mode fs.FileMode) error {
	b.folders = append(b.folders, made{path: path, mode: mode})
	return b.root.Mkdir(path, 0o700)
}

func (b *builder) link(path, target string) error {
	b.links = append(b.links, made{path: path, target: target})
	return b.root.Symlink(target, path)
}

func (b *builder) file(path string, mode fs.FileMode, fill func(*os.File) error) error {
	f, err := b.root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(fill(f), f.Chmod(mode)); err != nil {
		f.Close()
		return fmt.Errorf("writing %q: %w", path, err)
	}
	b.flush(f)
	return nil
}

// flush writes f to disk and closes it, in the background.
func (b *builder) flush(f *os.File) {
	b.slots <- struct{}{}
	b.flushes.Go(func() {
		err := errors.Join(f.Sync(), f.Close())
		<-b.slots
		b.mutex.Lock()
		defer b.mutex.Unlock()
		if b.failed == nil {
			b.failed = err
		}
	})
}

// finish checks the links, now that what they point to is there, gives the
// folders their modes and waits until all is on disk.
func (b *builder) finish() error {
	for _, l := range b.links {
		if leaves(b.root, l.path, l.target) {
			return fmt.Errorf("%w: %q points to %q", ErrLinkLeaves, l.path, l.target)
		}
	}
	for _, f := range slices.Backward(b.folders) {
		if err := b.seal(f); err != nil {
			return err
		}
	}
	b.flushes.Wait()
	return b.failed
}

func (b *builder) seal(f made) error {
	opened, err := b.root.Open(f.path)
	if err != nil {
		return err
	}
	return errors.Join(opened.Chmod(f.mode), opened.Sync(), opened.Close())
}

// copySum copies and returns the SHA-256 of what it copied, in hex.
func copySum(w io.Writer, r io.Reader) (string, error) {
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(w, sum), r); err != nil {
		return "", archiveError(err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
