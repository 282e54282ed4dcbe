package rundir

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// Refresh writes into a directory, so that a network file system looks at it anew: it
// may show what was there a minute ago. Where that fails it shows what it showed before.
func Refresh(directory string) {
	file, err := os.CreateTemp(directory, ".look-*")
	if err != nil {
		return
	}
	file.Close()
	os.Remove(file.Name())
}

// Own makes some of the run's files, where they are missing, such that whoever has its
// directory can read them: a container runs as root, in a directory of somebody else's
// who reads it from another machine.
func (r Run) Own(names ...string) error {
	for _, name := range names {
		// Only what is made here is given away: the directory is another's, with whatever he
		// may have put there.
		file, err := os.OpenFile(r.Path(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		own(file)
		if err := file.Close(); err != nil {
			return err
		}
	}
	return nil
}

// own gives a file that root has made to whoever has its directory. A file system that
// refuses has made it somebody's already.
func own(file *os.File) {
	if os.Geteuid() != 0 {
		return
	}
	info, err := os.Stat(filepath.Dir(file.Name()))
	if err != nil {
		return
	}
	if of, ok := info.Sys().(*syscall.Stat_t); ok && of.Uid != 0 {
		_ = file.Chown(int(of.Uid), int(of.Gid))
	}
}
