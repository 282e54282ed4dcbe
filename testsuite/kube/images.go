package kube

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Names of the images that every laboratory's node has. No registry knows them.
const (
	PauseImage  = "laboratory.invalid/pause:1"
	ShellImage  = "laboratory.invalid/shell:1"  // busybox
	PythonImage = "laboratory.invalid/python:1" // busybox, and this machine's Python with nni
)

// layer is the file system of an image while it is gathered.
type layer struct {
	archive *tar.Writer
	there   map[string]bool
}

// settings are what an image says of its containers.
type settings struct {
	Env []string
	Cmd []string
}

// writeImage writes an image of one layer, as docker save would, which fill puts
// together from files of this machine.
func writeImage(path, name string, settings settings, fill func(*layer) error) error {
	content, err := os.CreateTemp(filepath.Dir(path), "layer-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(content.Name()); _ = content.Close() }()
	hash := sha256.New()
	l := &layer{tar.NewWriter(io.MultiWriter(content, hash)), map[string]bool{}}
	if err := errors.Join(fill(l), l.archive.Close()); err != nil {
		return err
	}
	return writeArchive(path, name, settings, content, hex.EncodeToString(hash.Sum(nil)))
}

func writeArchive(path, name string, settings settings, layer *os.File, digest string) error {
	config, _ := json.Marshal(map[string]any{"architecture": "amd64", "os": "linux",
		"config": settings, "rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest}}})
	manifest, _ := json.Marshal([]any{map[string]any{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	size, err := layer.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := layer.Seek(0, io.SeekStart); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(file)
	return errors.Join(member(archive, "config.json", bytes.NewReader(config), int64(len(config))), member(archive, "layer.tar", layer, size),
		member(archive, "manifest.json", bytes.NewReader(manifest), int64(len(manifest))), archive.Close(), file.Close())
}

func member(archive *tar.Writer, name string, content io.Reader, size int64) error {
	if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size}); err != nil {
		return err
	}
	_, err := io.Copy(archive, content)
	return err
}

// shell adds busybox with a name for each thing it can do, and places to write to.
func (l *layer) shell(busybox string, applets []string) error {
	failed := l.file(busybox, "bin/busybox")
	for _, applet := range applets {
		if applet != "busybox" {
			failed = errors.Join(failed, l.link("bin/"+applet, "busybox"))
		}
	}
	failed = errors.Join(failed, l.link("usr/bin/env", "../../bin/busybox"), l.directory("tmp", 0o1777), l.directory("var/tmp", 0o1777), l.directory("root", 0o755),
		l.bytes("etc/passwd", "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/tmp:/bin/sh\n"), l.bytes("etc/group", "root:x:0:\nnogroup:x:65534:\n"))
	return failed
}

// tree adds everything below a directory of this machine, at the same place, but
// what skip says.
func (l *layer) tree(root string, skip func(path string, entry fs.DirEntry) bool) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != root && skip(path, entry) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		return l.entry(path, entry)
	})
}

func (l *layer) entry(path string, entry fs.DirEntry) error {
	switch entry.Type() {
	case fs.ModeDir:
		return l.directory(strings.TrimPrefix(path, "/"), 0o755)
	case fs.ModeSymlink:
		target, err := os.Readlink(path)
		return errors.Join(err, l.link(strings.TrimPrefix(path, "/"), target))
	case 0:
		return l.file(path, strings.TrimPrefix(path, "/"))
	}
	return nil
}

func (l *layer) file(source, name string) error {
	file, err := os.Open(source)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return l.add(&tar.Header{Name: name, Mode: int64(info.Mode().Perm()), Size: info.Size()}, file)
}

func (l *layer) bytes(name, content string) error {
	return l.add(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}, strings.NewReader(content))
}

func (l *layer) link(name, target string) error {
	return l.add(&tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}, nil)
}

func (l *layer) directory(name string, mode int64) error {
	return l.add(&tar.Header{Name: name + "/", Typeflag: tar.TypeDir, Mode: mode}, nil)
}

// add adds an entry once, and the directories above it.
func (l *layer) add(header *tar.Header, content io.Reader) error {
	name := strings.TrimSuffix(header.Name, "/")
	if l.there[name] {
		return nil
	}
	if above := filepath.Dir(name); above != "." {
		if err := l.directory(above, 0o755); err != nil {
			return err
		}
	}
	l.there[name] = true
	if err := l.archive.WriteHeader(header); err != nil || content == nil {
		return err
	}
	_, err := io.Copy(l.archive, content)
	return err
}
