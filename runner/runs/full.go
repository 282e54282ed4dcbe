package runs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/platforms"
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
	return platforms.Errorf(platforms.Exhausted, verb, "the disk is full%s, make room there and it goes on: %w", where, cause)
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
