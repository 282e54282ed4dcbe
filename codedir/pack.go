package codedir

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"time"
)

// Pack writes the tree as a gzipped tar, which every host can unpack without
// anything of ours. The same tree gives the same bytes: sorted, without times
// and owners, permission bits only. What it wrote unpacks to Hash; on any
// error (ErrChanged if the files are not those that were hashed) it is cut
// short and unpacks to nothing.
func (t *Tree) Pack(w io.Writer) error {
	// The line to a host is seldom slower than a better level would be. The error
	// is about levels that do not exist.
	compressed, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err := t.writeTar(compressed); err != nil {
		return err
	}
	return compressed.Close()
}

func (t *Tree) writeTar(w io.Writer) error {
	if _, err := t.Hash(); err != nil {
		return err
	}
	archive := tar.NewWriter(w)
	err := t.each(func(root *os.Root, e *entry) error { return e.pack(root, archive) })
	if err != nil {
		return err
	}
	return archive.Close()
}

func (e *entry) pack(root *os.Root, archive *tar.Writer) error {
	if err := archive.WriteHeader(e.header()); err != nil {
		return fmt.Errorf("packing %q: %w", e.path, err)
	}
	if !e.isFile() {
		return nil
	}
	sum, err := e.read(root, archive)
	if err == nil && sum != e.sum {
		return e.changed()
	}
	return err
}

func (e *entry) header() *tar.Header {
	h := &tar.Header{
		Name: e.path, Typeflag: tar.TypeReg, Size: e.info.Size(),
		Mode: int64(e.info.Mode().Perm()), ModTime: time.Unix(0, 0),
	}
	switch {
	case e.info.IsDir():
		h.Name, h.Typeflag, h.Size = e.path+"/", tar.TypeDir, 0
	case !e.isFile():
		h.Typeflag, h.Linkname, h.Size, h.Mode = tar.TypeSymlink, e.target, 0, 0o777
	}
	return h
}
