package rundir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// WriteFile replaces the file at path as a whole and durably: after a crash or a
// power cut at any instant it holds its old content or the new one. It returns
// when content and directory entry are on disk.
func WriteFile(path string, content []byte, mode os.FileMode) error {
	if err := ReplaceFile(path, content, mode); err != nil {
		return err
	}
	return SyncDirectory(filepath.Dir(path))
}

// ReplaceFile is WriteFile for a caller that writes more into the same directory
// and makes its entries durable at last: until then a power cut may bring back
// the old content.
func ReplaceFile(path string, content []byte, mode os.FileMode) error {
	temporary, err := writeTemporary(path, content, mode)
	if err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		os.Remove(temporary)
		return err
	}
	return nil
}

// CreateFile is WriteFile for the first writer only: where path exists already it
// is left alone and the error is os.ErrExist.
func CreateFile(path string, content []byte, mode os.FileMode) error {
	temporary, err := writeTemporary(path, content, mode)
	if err != nil {
		return err
	}
	defer os.Remove(temporary)
	if err := linkOnce(temporary, path); err != nil {
		return err
	}
	return SyncDirectory(filepath.Dir(path))
}

func linkOnce(from, to string) error {
	err := os.Link(from, to)
	if err == nil || errors.Is(err, os.ErrExist) {
		return err
	}
	// Some file systems know no hard links.
	return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
}

func writeTemporary(path string, content []byte, mode os.FileMode) (string, error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return "", err
	}
	own(file)
	_, err = file.Write(content)
	err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close())
	if err != nil {
		os.Remove(file.Name())
		return "", fmt.Errorf("write %s: %w", path, err)
	}
	return file.Name(), nil
}

// SyncDirectory makes the entries of a directory durable.
func SyncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}

// MakeDirectory makes a directory and its parents, durably, where they are missing.
func MakeDirectory(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	if err := MakeDirectory(filepath.Dir(path)); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o777); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return SyncDirectory(filepath.Dir(path))
}
