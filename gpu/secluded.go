package gpu

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Secluded says why the ledger is probably not the host's: this process is in a
// container, and the ledger's directory is the container's own. Empty where all
// seems well.
func (l Ledger) Secluded() string {
	if !inContainer() || mounted(l.Directory) {
		return ""
	}
	return fmt.Sprintf("this is a container, and %s is its own: it and others on this host cannot see to whom GPUs were given", l.Directory)
}

// initialPIDNamespace is the number that the kernel gives to the host's own.
const initialPIDNamespace = "pid:[4026531836]"

func inContainer() bool {
	for _, mark := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(mark); err == nil {
			return true
		}
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && namespace != initialPIDNamespace
}

// mounted tells whether a directory was brought into this container from outside:
// it lies in a part of some file system, not in one of the container's own.
func mounted(directory string) bool {
	if resolved, err := filepath.EvalSymlinks(filepath.Dir(directory)); err == nil {
		directory = filepath.Join(resolved, filepath.Base(directory))
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false
	}
	root, longest := "/", ""
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) > 4 && below(directory, fields[4]) && len(fields[4]) >= len(longest) {
			root, longest = fields[3], fields[4]
		}
	}
	return root != "/"
}

func below(path, directory string) bool {
	return path == directory || strings.HasPrefix(path, strings.TrimSuffix(directory, "/")+"/")
}
