package codedir

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// leaves reports whether the link called name, pointing to target, leads out
// of root: by its text, or through other links. A target that does not exist
// stays inside if its text does.
func leaves(root *os.Root, name, target string) bool {
	if filepath.IsAbs(target) || !filepath.IsLocal(path.Join(path.Dir(name), target)) {
		return true
	}
	_, err := root.Stat(name)
	return err != nil && errors.Is(err, escape(root))
}

// escape is what root answers when a path leads out of it. Package os does not
// export it, so it is provoked.
func escape(root *os.Root) error {
	_, err := root.Lstat("..")
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
