package metrics

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// allocate takes disk blocks for a part of a file without making it longer.
func allocate(file *os.File, offset, size int64) error {
	return unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_KEEP_SIZE, offset, size)
}

// deleted tells whether a file that is open has no name any more. One that was
// moved, or whose file system was unmounted, keeps its name.
func deleted(info os.FileInfo) bool {
	system, ok := info.Sys().(*syscall.Stat_t)
	return ok && system.Nlink == 0
}
