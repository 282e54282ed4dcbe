package rundir

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Environment is what a trial inherits from the person who started its
// experiment: variables, umask and resource limits. It holds their secrets, so it
// is kept in files of mode 0600 only.
type Environment struct {
	Format    int              `json:"format"`
	Variables []string         `json:"variables"` // NAME=value, as in os.Environ
	Umask     int              `json:"umask"`
	Limits    map[string]Limit `json:"limits"` // by the names of limits(5): "nofile", "stack" …
}

// Limit is a soft resource limit; the hard one stays as it is.
type Limit struct {
	Soft uint64 `json:"soft"` // bytes, seconds or a count; the largest uint64 is unlimited
}

var resources = map[string]int{
	"as": unix.RLIMIT_AS, "core": unix.RLIMIT_CORE, "cpu": unix.RLIMIT_CPU,
	"data": unix.RLIMIT_DATA, "fsize": unix.RLIMIT_FSIZE, "memlock": unix.RLIMIT_MEMLOCK,
	"nofile": unix.RLIMIT_NOFILE, "nproc": unix.RLIMIT_NPROC, "stack": unix.RLIMIT_STACK,
}

// CaptureEnvironment returns the environment of the calling process.
func CaptureEnvironment() (Environment, error) {
	umask, err := readUmask()
	if err != nil {
		return Environment{}, err
	}
	captured := Environment{Format: Format, Variables: os.Environ(), Umask: umask, Limits: map[string]Limit{}}
	for name, resource := range resources {
		limit, err := softLimit(resource)
		if err != nil {
			return Environment{}, fmt.Errorf("read limit %s: %w", name, err)
		}
		captured.Limits[name] = Limit{Soft: limit}
	}
	return captured, nil
}

// softLimit asks the parent for the number of files, since Go raises our own as it
// starts; the parent is the shell whose limits the caller means.
func softLimit(resource int) (uint64, error) {
	var limit unix.Rlimit
	if resource == unix.RLIMIT_NOFILE && unix.Prlimit(os.Getppid(), resource, nil, &limit) == nil {
		return limit.Cur, nil
	}
	err := unix.Getrlimit(resource, &limit)
	return limit.Cur, err
}

// readUmask reads the umask without changing it for a moment, as umask(2) must.
func readUmask() (int, error) {
	content, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(content)) {
		if value, found := strings.CutPrefix(line, "Umask:"); found {
			umask, err := strconv.ParseInt(strings.TrimSpace(value), 8, 32)
			return int(umask), err
		}
	}
	return 0, errors.New("/proc/self/status has no umask: Linux 4.7 or newer is needed")
}

// WriteEnvironment keeps an environment in a file that only its owner can read.
func WriteEnvironment(path string, environment Environment) error {
	environment.Format = Format
	return writeJSON(path, environment)
}

// ReadEnvironment reads what WriteEnvironment wrote.
func ReadEnvironment(path string) (Environment, error) {
	var environment Environment
	err := readJSON(path, &environment)
	return environment, err
}

// Apply gives the calling process the umask and the soft limits, so that the
// children it starts from here on inherit them. A limit above the hard one of
// this machine becomes the hard one. Variables are left to the caller.
func (e Environment) Apply() error {
	var faults []error
	unix.Umask(e.Umask)
	for name, limit := range e.Limits {
		if resource, known := resources[name]; known {
			faults = append(faults, setSoft(resource, limit.Soft))
		}
	}
	return errors.Join(faults...)
}

// setSoft uses package syscall, which from then on no longer restores the number
// of files it found at its start in every child.
func setSoft(resource int, soft uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(resource, &limit); err != nil {
		return err
	}
	limit.Cur = min(soft, limit.Max)
	return syscall.Setrlimit(resource, &limit)
}
