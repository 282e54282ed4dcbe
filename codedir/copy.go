package codedir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// Copy puts a copy of the folder from, ignore rules not applied, at to: the
// code of one trial, which may write in it. Files share their blocks with
// from where the file system can (reflinks); modes and files' times are
// kept, links stay links.
//
// As with Unpack, only a whole copy ever stands at to, and one that stands
// there already is left as it is: Copy may be repeated after a crash, also
// once the trial has written there. A cancelled ctx leaves nothing.
func Copy(ctx context.Context, from, to string) error {
	if within(from, to) {
		return fmt.Errorf("cannot copy %s into itself (%s)", from, to)
	}
	source, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer source.Close()
	return stage(to, func(b *builder) error {
		return (&copying{ctx: ctx, from: source, to: b}).folder(".")
	})
}

func within(folder, name string) bool {
	top, topErr := filepath.Abs(folder)
	full, fullErr := filepath.Abs(name)
	inside, err := filepath.Rel(top, full)
	return errors.Join(topErr, fullErr, err) == nil && filepath.IsLocal(inside)
}

type copying struct {
	ctx  context.Context
	from *os.Root
	to   *builder
}

func (c *copying) folder(name string) error {
	listing, err := list(c.from, name)
	if err != nil {
		return err
	}
	for _, item := range listing {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if err := c.entry(path.Join(name, item.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (c *copying) entry(name string) error {
	info, err := c.from.Lstat(name)
	if err != nil {
		return err
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		if err := c.to.folder(name, info.Mode().Perm()); err != nil {
			return err
		}
		return c.folder(name)
	case fs.ModeSymlink:
		target, err := c.from.Readlink(name)
		if err != nil {
			return err
		}
		return c.to.link(name, target)
	case 0:
		return c.file(name, info)
	}
	return nil
}

func (c *copying) file(name string, info fs.FileInfo) error {
	source, err := c.from.Open(name)
	if err != nil {
		return err
	}
	defer source.Close()
	return c.to.file(name, info.Mode().Perm(), func(f *os.File) error {
		if err := clone(f, source); err != nil {
			return err
		}
		return c.to.root.Chtimes(name, info.ModTime(), info.ModTime())
	})
}

// clone makes f what source is: sharing its blocks, or else by copying them.
func clone(f, source *os.File) error {
	if reflink(f, source) == nil {
		return nil
	}
	_, err := io.Copy(f, source)
	return err
}
