package machine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// isFull tells whether an error comes from a disk without room.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// fullFault says which disk is full, in words that stay the same from try to try:
// the file that did not fit may have another name each time.
func fullFault(verb string, err error) error {
	where, cause := "", error(syscall.ENOSPC)
	if errors.Is(err, syscall.EDQUOT) {
		cause = syscall.EDQUOT
	}
	if path := pathIn(err); path != "" {
		where = " at " + mountOf(path)
	}
	return Errorf(Exhausted, verb, "the disk is full%s, make room there and it goes on: %w", where, cause)
}

// leastRoom is the free space, in bytes, without which no run is started: it would
// lose what it cannot write, its first metrics for instance.
const leastRoom = 1 << 20

// requireRoom is an error where that is known to be missing on a directory's disk.
func requireRoom(directory string) error {
	var disk unix.Statfs_t
	if unix.Statfs(directory, &disk) != nil || disk.Blocks == 0 || disk.Bavail*uint64(disk.Bsize) >= leastRoom {
		return nil
	}
	return &fs.PathError{Op: "find room in", Path: directory, Err: syscall.ENOSPC}
}

func pathIn(err error) string {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Path
	case errors.As(err, &link):
		return link.New
	}
	return ""
}

// mountOf is where the file system begins that a path is on, or would be.
func mountOf(path string) string {
	at := filepath.Clean(path)
	var disk, above unix.Stat_t
	for unix.Stat(at, &disk) != nil && at != filepath.Dir(at) {
		at = filepath.Dir(at)
	}
	for unix.Stat(filepath.Dir(at), &above) == nil && above.Dev == disk.Dev && at != filepath.Dir(at) {
		at = filepath.Dir(at)
	}
	return at
}
