package rundir

import (
	"io/fs"
	"os"
	"path/filepath"
)

// RemoveTree is os.RemoveAll also for folders that forbid writing, as copies of a
// user's code may be.
func RemoveTree(path string) error {
	if os.RemoveAll(path) == nil {
		return nil
	}
	filepath.WalkDir(path, func(name string, item fs.DirEntry, err error) error {
		if item != nil && item.IsDir() && err == nil {
			os.Chmod(name, 0o700) // RemoveAll tells what is wrong
		}
		return nil
	})
	return os.RemoveAll(path)
}
