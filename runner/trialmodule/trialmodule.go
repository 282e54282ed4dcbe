// Package trialmodule carries a Python package named nni, which stands in for
// NNI's own where a trial's Python has none, and puts it where trials find it: last
// in PYTHONPATH, which yet comes before what is installed. The package therefore
// gives way by itself to an nni that it finds behind it.
package trialmodule

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/perennial-ml/perennial/trial"
)

//go:embed nni/*.py
var files embed.FS

// PathVariable names the variable that says where Python looks for modules beside those installed.
const PathVariable = "PYTHONPATH"

// Install puts the package below the first of some directories that takes it, and
// returns the entry that PYTHONPATH needs. The entry's name holds a hash of the
// content, so a version in use is never changed. It may be called by many at once
// and again; what was damaged meanwhile is mended.
func Install(directories ...string) (entry string, err error) {
	var faults []error
	for _, directory := range directories {
		entry := filepath.Join(directory, "trialmodule-"+hash())
		if err = install(entry); err == nil {
			return entry, nil
		}
		faults = append(faults, err)
	}
	return "", fmt.Errorf("install the trial module: %w", errors.Join(faults...))
}

// Variables returns the variables that an attempt's process needs on top of its
// others to import the package from entry, given its PYTHONPATH.
func Variables(mode trial.Module, entry, pythonPath string) map[string]string {
	paths := []string{pythonPath, entry}
	if mode == trial.ModuleBuiltin {
		paths = []string{entry, pythonPath}
	}
	if pythonPath == "" { // an empty entry would be the working directory
		paths = []string{entry}
	}
	return map[string]string{PathVariable: strings.Join(paths, string(os.PathListSeparator)), trial.VarModule: string(mode)}
}

func hash() string {
	sum := sha256.New()
	each(func(name string, content []byte) error {
		fmt.Fprintf(sum, "%s %d\n%s", name, len(content), content)
		return nil
	})
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

func install(entry string) error {
	if strings.ContainsRune(entry, os.PathListSeparator) {
		return fmt.Errorf("%s holds a colon, which PYTHONPATH cannot", entry)
	}
	return each(func(name string, content []byte) error {
		path := filepath.Join(entry, name)
		if found, err := os.ReadFile(path); err == nil && bytes.Equal(found, content) {
			return nil
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		return replace(path, content)
	})
}

// each calls do with every file of the package, in order.
func each(do func(name string, content []byte) error) error {
	return fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := files.ReadFile(name)
		return errors.Join(err, do(name, content))
	})
}

// replace puts a file in place as a whole. Nothing is lost by a power cut, since
// the next runner looks at every byte.
func replace(path string, content []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	err = errors.Join(err, file.Chmod(0o644), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return err
}
