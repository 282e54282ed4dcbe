// Package binary carries the cross-built runners inside the program, and puts
// them where they can be started.
package binary

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
)

//go:embed built*
var built embed.FS

// ErrNotBuilt is returned where the program carries no runner for this machine.
var ErrNotBuilt = errors.New("this program was built without a runner: build it with `make build`")

var gzipMagic = []byte{0x1f, 0x8b}

// Install puts the runner for this machine into directory, which it makes if need
// be, and returns its path. The name holds a hash of the content, so a runner that
// is in use is never replaced. It may be called by many at once and again; a file
// that was damaged meanwhile is mended.
func Install(directory string) (path string, err error) { return installFrom(built, directory) }

func installFrom(files fs.FS, directory string) (path string, err error) {
	content, err := runner(files, runtime.GOOS, runtime.GOARCH)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	path = filepath.Join(directory, "perennial-runner-"+hex.EncodeToString(sum[:8]))
	if sound(path, content) {
		return path, nil
	}
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return "", err
	}
	return path, install(path, content)
}

// For returns the runner for a kind of machine, by Go's names: "linux", "arm64". It
// returns ErrNotBuilt where the program carries none.
func For(system, processor string) ([]byte, error) {
	kept, _ := unpacked.LoadOrStore(system+"/"+processor, sync.OnceValues(func() ([]byte, error) {
		return runner(built, system, processor)
	}))
	return kept.(func() ([]byte, error))()
}

// unpacked are the runners that were asked for, so that each is unpacked once.
var unpacked sync.Map

// runner returns the runner for a kind of machine, packed by gzip or not.
func runner(files fs.FS, system, processor string) ([]byte, error) {
	content, err := fs.ReadFile(files, "built/perennial-runner-"+system+"-"+processor)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s/%s: %w", system, processor, ErrNotBuilt)
	}
	if err != nil || !bytes.HasPrefix(content, gzipMagic) {
		return content, err
	}
	reader, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(reader)
}

func sound(path string, content []byte) bool {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o500 != 0o500 {
		return false
	}
	found, err := os.ReadFile(path)
	return err == nil && bytes.Equal(found, content)
}

func install(path string, content []byte) error {
	temporary, err := write(filepath.Dir(path), content)
	if err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return nil
}

func write(directory string, content []byte) (string, error) {
	// A process that another goroutine forks would hold the file open for writing
	// until it executes, and the kernel starts no such file.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	file, err := os.CreateTemp(directory, ".perennial-runner-*")
	if err != nil {
		return "", err
	}
	_, err = file.Write(content)
	err = errors.Join(err, file.Chmod(0o755), file.Sync(), file.Close())
	if err != nil {
		return "", errors.Join(fmt.Errorf("install the runner: %w", err), os.Remove(file.Name()))
	}
	return file.Name(), nil
}
