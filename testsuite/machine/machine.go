// Package machine is what tests ask of the machine they run on. What it lacks is
// skipped loudly where people develop, and fails where the project is judged.
package machine

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Lacks leaves a test out because the machine lacks what it needs; in CI that is
// a failure.
func Lacks(t testing.TB, format string, arguments ...any) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("CI must be able to run this: "+format, arguments...)
	}
	t.Skipf("NOT TESTED HERE: "+format, arguments...)
}

// SmallDisk returns the mount point of a disk of its own that holds size, such
// as "4m", and lasts as long as the test.
func SmallDisk(t testing.TB, size string) string {
	t.Helper()
	directory := t.TempDir()
	if err := unix.Mount("tmpfs", directory, "tmpfs", 0, "size="+size); err != nil {
		Lacks(t, "a small disk needs the right to mount one: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(directory, unix.MNT_DETACH) })
	return directory
}
