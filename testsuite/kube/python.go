package kube

import (
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// WriteShellImage writes ShellImage.
func WriteShellImage(path string) error {
	return writeImage(path, ShellImage, settings{[]string{"PATH=/bin:/usr/bin"}, []string{"sh"}}, addBusybox)
}

// WritePauseImage writes PauseImage, around the built program.
func WritePauseImage(path, program string) error {
	return writeImage(path, PauseImage, settings{Cmd: []string{"/pause"}}, func(l *layer) error { return l.file(program, "pause") })
}

func addBusybox(l *layer) error {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return err
	}
	applets, err := exec.Command(busybox, "--list").Output()
	return errors.Join(err, l.shell(busybox, strings.Fields(string(applets))))
}

// WritePythonImage writes PythonImage around an interpreter of this machine: its
// virtual environment, its standard library and every library that they load.
func WritePythonImage(path, interpreter string) error {
	out, err := exec.Command(interpreter, "-c", "import sys; print(sys.prefix); print(sys.base_prefix)").Output()
	if err != nil {
		return err
	}
	prefixes := strings.Fields(string(out))
	environment, err := filepath.EvalSymlinks(prefixes[0])
	if err != nil {
		return err
	}
	return writeImage(path, PythonImage, settings{[]string{"PATH=" + environment + "/bin:/bin:/usr/bin"}, []string{"sh"}}, func(l *layer) error {
		return errors.Join(addBusybox(l), l.python(environment, prefixes[1]))
	})
}

func (l *layer) python(environment, base string) error {
	libraries := libraries{known: map[string]string{}}
	libraries.index("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib", "/usr/local/lib", filepath.Join(base, "lib"))
	skip := func(path string, entry fs.DirEntry) bool {
		libraries.need(path, entry)
		return entry.Name() == "__pycache__" || strings.HasSuffix(path, ".a")
	}
	failed := l.tree(environment, skip)
	if base == "/usr" {
		failed = errors.Join(failed, l.systemPython(skip))
	} else {
		failed = errors.Join(failed, l.tree(base, func(path string, entry fs.DirEntry) bool {
			return skip(path, entry) || entry.IsDir() && (entry.Name() == "site-packages" || entry.Name() == "test")
		}))
	}
	for _, library := range libraries.closure() {
		failed = errors.Join(failed, l.file(library, strings.TrimPrefix(library, "/")))
	}
	return failed
}

// systemPython adds what Debian's packages of Python have.
func (l *layer) systemPython(skip func(string, fs.DirEntry) bool) error {
	roots, err := filepath.Glob("/usr/lib/python3*")
	programs, _ := filepath.Glob("/usr/bin/python3*")
	for _, root := range append(roots, programs...) {
		err = errors.Join(err, l.tree(root, func(path string, entry fs.DirEntry) bool {
			return skip(path, entry) || entry.IsDir() && entry.Name() == "dist-packages"
		}))
		if entry, lost := os.Lstat(root); lost == nil {
			skip(root, fs.FileInfoToDirEntry(entry))
		}
	}
	return err
}

// libraries finds the shared libraries that programs load.
type libraries struct {
	known  map[string]string // path by name
	wanted []string
}

func (l *libraries) index(directories ...string) {
	for _, directory := range directories {
		found, _ := filepath.Glob(filepath.Join(directory, "*.so*"))
		for _, path := range found {
			if name := filepath.Base(path); l.known[name] == "" {
				l.known[name] = path
			}
		}
	}
}

func (l *libraries) need(path string, entry fs.DirEntry) {
	info, err := entry.Info()
	if err != nil || !info.Mode().IsRegular() || !strings.Contains(entry.Name(), ".so") && info.Mode()&0o111 == 0 {
		return
	}
	file, err := elf.Open(path)
	if err != nil {
		return
	}
	defer file.Close()
	names, _ := file.ImportedLibraries()
	l.wanted = append(l.wanted, names...)
	if loader := file.Section(".interp"); loader != nil {
		content, _ := loader.Data()
		name := strings.TrimRight(string(content), "\x00")
		l.known[name] = name
		l.wanted = append(l.wanted, name)
	}
}

// closure returns the wanted libraries and all that those load in turn.
func (l *libraries) closure() (paths []string) {
	seen := map[string]bool{}
	for len(l.wanted) > 0 {
		name := l.wanted[0]
		l.wanted = l.wanted[1:]
		path := l.known[name]
		if seen[name] || path == "" {
			continue
		}
		seen[name] = true
		paths = append(paths, path)
		if entry, err := os.Stat(path); err == nil {
			l.need(path, fs.FileInfoToDirEntry(entry))
		}
	}
	return paths
}
