// Package archives keeps experiments' code on the controller, packed and named by
// its hash: what an experiment began with, whatever becomes of the directory.
package archives

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/perennial-ml/perennial/codedir"
	"github.com/perennial-ml/perennial/runner/rundir"
)

// Archives is a directory of them.
type Archives struct{ Directory string }

// Path is where the archive of that hash is, if it is there.
func (a Archives) Path(hash string) string {
	return filepath.Join(a.Directory, filepath.Base(hash)+".tar.gz")
}

// Pack packs a directory, unless that was done before, and returns its hash.
func (a Archives) Pack(directory string) (string, error) {
	tree, err := codedir.Scan(directory, codedir.DefaultLimits())
	if err != nil {
		return "", err
	}
	hash, err := tree.Hash()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(a.Path(hash)); err == nil {
		return hash, nil
	}
	return hash, a.write(tree, hash)
}

func (a Archives) write(tree *codedir.Tree, hash string) error {
	if err := rundir.MakeDirectory(a.Directory); err != nil {
		return err
	}
	file, err := os.CreateTemp(a.Directory, ".new-*")
	if err != nil {
		return err
	}
	err = errors.Join(tree.Pack(file), file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), a.Path(hash))
	}
	if err != nil {
		os.Remove(file.Name())
		return err
	}
	return rundir.SyncDirectory(a.Directory)
}
