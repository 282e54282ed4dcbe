package codedir

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// digest makes a tree's hash out of its entries, which come sorted by path.
// Lengths stand before what may hold any byte, so that no two trees write the
// same; the first line is the number of this format.
type digest struct{ hash.Hash }

func newDigest() digest {
	d := digest{sha256.New()}
	io.WriteString(d, "perennial codedir 1\n")
	return d
}

func (d digest) folder(path string, mode fs.FileMode) { d.line("d", path, mode, "") }

func (d digest) link(path, target string) { d.line("l", path, 0, target) }

func (d digest) file(path string, mode fs.FileMode, sum string) { d.line("f", path, mode, sum) }

func (d digest) line(kind, path string, mode fs.FileMode, rest string) {
	fmt.Fprintf(d, "%s %03o %d:%s %d:%s\n", kind, mode.Perm(), len(path), path, len(rest), rest)
}

func (d digest) text() string { return hex.EncodeToString(d.Sum(nil)) }

// Hash is the tree's content address: SHA-256, in hex, over every path, its
// permission bits and its content or link target. Times and owners do not
// count. It reads every file, once; ErrChanged if one is not as Scan saw it.
func (t *Tree) Hash() (string, error) {
	if t.hash != "" {
		return t.hash, nil
	}
	d := newDigest()
	err := t.each(func(root *os.Root, e *entry) error {
		switch {
		case e.info.IsDir():
			d.folder(e.path, e.info.Mode())
			return nil
		case !e.isFile():
			d.link(e.path, e.target)
			return nil
		}
		sum, err := e.read(root, io.Discard)
		e.sum = sum
		d.file(e.path, e.info.Mode(), sum)
		return err
	})
	if err != nil {
		return "", err
	}
	t.hash = d.text()
	return t.hash, nil
}

// each visits every entry, with the folder that it is read from.
func (t *Tree) each(visit func(*os.Root, *entry) error) error {
	var open origin
	defer open.close()
	for i := range t.entries {
		root, err := open.at(t.entries[i].origin)
		if err != nil {
			return fmt.Errorf("code directory: %w", err)
		}
		if err := visit(root, &t.entries[i]); err != nil {
			return err
		}
	}
	return nil
}

// origin keeps the folder open that was read from last: entries of one come
// together.
type origin struct {
	name string
	root *os.Root
}

func (o *origin) at(name string) (*os.Root, error) {
	if o.root != nil && o.name == name {
		return o.root, nil
	}
	o.close()
	var err error
	o.name = name
	o.root, err = os.OpenRoot(name)
	return o.root, err
}

func (o *origin) close() {
	if o.root != nil {
		o.root.Close()
	}
}

// read copies the file to w and returns the sum of what it copied: exactly as
// many bytes as Scan saw, from the file that Scan saw, or ErrChanged.
func (e *entry) read(root *os.Root, w io.Writer) (string, error) {
	// A pipe put in the file's place must not stop us.
	opened, err := root.OpenFile(e.inner, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", fmt.Errorf("code directory: %w", err)
	}
	defer opened.Close()
	if err := e.unchanged(opened); err != nil {
		return "", err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), io.LimitReader(opened, e.info.Size()))
	if err != nil {
		return "", fmt.Errorf("code directory: %q: %w", e.path, err)
	}
	if n != e.info.Size() {
		return "", e.changed()
	}
	return hex.EncodeToString(sum.Sum(nil)), e.unchanged(opened)
}

func (e *entry) unchanged(opened *os.File) error {
	now, err := opened.Stat()
	if err != nil {
		return err
	}
	same := os.SameFile(now, e.info) && now.Mode() == e.info.Mode() &&
		now.Size() == e.info.Size() && now.ModTime().Equal(e.info.ModTime())
	if !same {
		return e.changed()
	}
	return nil
}

func (e *entry) changed() error {
	return fmt.Errorf("%w: %q; try again when nothing writes it, or exclude it in .nniignore", ErrChanged, e.path)
}
