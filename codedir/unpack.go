package codedir

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Unpack puts the tree that Pack wrote to r, and whose Hash is hash, at into.
// It bounds nothing; Limits.Unpack does.
//
// What stands at into is whole, flushed to disk and as hashed: it comes there
// by one rename. If it is there already r is not read. Any number of
// processes may unpack to one place at once. What a killed one left beside
// into, the next one removes.
//
// It fails with ErrDamaged for any other content and for names that lead out of
// into, with ErrLinkLeaves for such links; then nothing is at into.
func Unpack(r io.Reader, into, hash string) error {
	return Limits{}.Unpack(r, into, hash)
}

// Unpack is the function Unpack, but stops with ErrTooLarge before it writes
// more than l allows.
func (l Limits) Unpack(r io.Reader, into, hash string) error {
	return stage(into, func(b *builder) error {
		compressed, err := gzip.NewReader(r)
		if err != nil {
			return archiveError(err)
		}
		return l.readTar(compressed, b, hash)
	})
}

// Snapshot makes sure that store holds the tree, in a folder named by its
// hash, and returns that folder. Its promises are those of Unpack.
func (t *Tree) Snapshot(store string) (string, error) {
	hash, err := t.Hash()
	if err != nil {
		return "", err
	}
	into := filepath.Join(store, hash)
	return into, stage(into, func(b *builder) error { return t.pour(b, hash) })
}

// pour goes through the archive's own form, so that there is one way in.
func (t *Tree) pour(b *builder, hash string) error {
	r, w := io.Pipe()
	written := make(chan struct{})
	go func() {
		defer close(written)
		w.CloseWithError(t.writeTar(w))
	}()
	err := Limits{}.readTar(r, b, hash)
	r.Close()
	<-written
	return err
}

// readTar builds what r holds and compares it with hash.
func (l Limits) readTar(r io.Reader, b *builder, hash string) error {
	in := &unpacking{builder: b, archive: tar.NewReader(r), digest: newDigest(), census: census{limits: l},
		folders: map[string]bool{".": true}}
	if err := in.readAll(); err != nil {
		return err
	}
	if got := in.digest.text(); got != hash {
		return fmt.Errorf("%w: its content is %s, not %s", ErrDamaged, got, hash)
	}
	// Up to the compression's own end, so that whoever writes r comes to theirs.
	io.Copy(io.Discard, io.LimitReader(r, 1<<20))
	return nil
}

type unpacking struct {
	builder *builder
	archive *tar.Reader
	digest  digest
	census  census
	folders map[string]bool
	last    string // the path of the entry before
}

func (u *unpacking) readAll() error {
	for {
		header, err := u.archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return archiveError(err)
		}
		if err := u.entry(header); err != nil {
			return err
		}
	}
}

// archiveError keeps what the reader underneath reported.
func archiveError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tar.ErrHeader) ||
		errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return fmt.Errorf("reading the code archive: %w", err)
}

func (u *unpacking) entry(h *tar.Header) error {
	name := strings.TrimSuffix(h.Name, "/")
	if err := u.checkName(name); err != nil {
		return err
	}
	u.last = name
	mode := h.FileInfo().Mode().Perm()
	switch h.Typeflag {
	case tar.TypeDir:
		u.folders[name] = true
		u.digest.folder(name, mode)
		return u.builder.folder(name, mode)
	case tar.TypeSymlink:
		u.digest.link(name, h.Linkname)
		return u.keep(h, func() error { return u.builder.link(name, h.Linkname) })
	case tar.TypeReg:
		return u.keep(h, func() error { return u.file(name, h) })
	}
	return fmt.Errorf("%w: %q is neither file, folder nor link", ErrDamaged, name)
}

// checkName accepts only what Pack writes: sorted, so also without repeats,
// and inside folders that came before, so never through a link.
func (u *unpacking) checkName(name string) error {
	if !filepath.IsLocal(name) || path.Clean(name) != name || name == "." {
		return fmt.Errorf("%w: the name %q leads out of it", ErrDamaged, name)
	}
	if name <= u.last || !u.folders[path.Dir(name)] {
		return fmt.Errorf("%w: %q stands in the wrong place", ErrDamaged, name)
	}
	return nil
}

func (u *unpacking) keep(h *tar.Header, build func() error) error {
	u.census.count(sized{h.Name, max(h.Size, int64(len(h.Linkname)))})
	if err := u.census.verdict("the archive so far"); err != nil {
		return err
	}
	return build()
}

func (u *unpacking) file(name string, h *tar.Header) error {
	mode := h.FileInfo().Mode().Perm()
	return u.builder.file(name, mode, func(f *os.File) error {
		sum, err := copySum(f, u.archive)
		u.digest.file(name, mode, sum)
		return err
	})
}
