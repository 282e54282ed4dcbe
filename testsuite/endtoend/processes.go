package endtoend

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Role is what a process is to a home.
type Role string

// The roles of processes.
const (
	Host    Role = "host"
	CLI     Role = "command"
	Runner  Role = "runner"
	InTrial Role = "trial" // the user's command and whatever it started
)

// Process is a living process that belongs to a home; zombies are none.
type Process struct {
	PID  int
	Role Role
	Args []string
}

// Attempt names the attempt that a runner runs, "trial/number".
func (p Process) Attempt() string {
	if p.Role != Runner {
		return ""
	}
	directory := p.Args[2]
	number := strings.TrimPrefix(filepath.Base(directory), "attempt-")
	return filepath.Base(filepath.Dir(directory)) + "/" + number
}

// Kill sends it SIGKILL.
func (p Process) Kill() { _ = syscall.Kill(p.PID, syscall.SIGKILL) }

func (p Process) String() string { return fmt.Sprintf("%s %d %q", p.Role, p.PID, p.Args) }

// Processes are all living processes of the home, found in /proc by its path in
// their environment or on their command line; with roles, only those.
func (h *Home) Processes(roles ...Role) (found []Process) {
	entries, err := os.ReadDir("/proc")
	require.NoError(h.t, err)
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		process, ours := h.process(pid)
		if ours && (len(roles) == 0 || slices.Contains(roles, process.Role)) {
			found = append(found, process)
		}
	}
	return found
}

func (h *Home) process(pid int) (Process, bool) {
	// A zombie has neither arguments nor an environment.
	arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(arguments) == 0 {
		return Process{}, false
	}
	environment, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	ours := bytes.Contains(arguments, []byte(h.Dir+"/")) ||
		slices.Contains(strings.Split(string(environment), "\x00"), "PERENNIAL_HOME="+h.Dir)
	args := strings.Split(strings.TrimRight(string(arguments), "\x00"), "\x00")
	role := h.role(args)
	if ours && role == Runner && isForked(pid, arguments) {
		role = InTrial
	}
	return Process{pid, role, args}, ours
}

// isForked tells a process that was forked and has not become another program
// yet: it looks like its parent still.
func isForked(pid int, arguments []byte) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return false
	}
	parent, _ := os.ReadFile("/proc/" + fields[1] + "/cmdline")
	return bytes.Equal(parent, arguments)
}

func (h *Home) role(args []string) Role {
	name, verb := filepath.Base(args[0]), ""
	if len(args) > 1 {
		verb = args[1]
	}
	switch {
	case strings.HasPrefix(name, "perennial-runner") && verb == "run" && len(args) > 2:
		return Runner
	case args[0] == Program(h.t) && verb == "serve" && slices.Contains(args, "--background"):
		return Host
	case args[0] == Program(h.t):
		return CLI
	}
	return InTrial
}

// Kill sends SIGKILL to all processes of the roles and returns them, without
// waiting for their end.
func (h *Home) Kill(roles ...Role) []Process {
	killed := h.Processes(roles...)
	for _, process := range killed {
		process.Kill()
	}
	return killed
}

// KillAndAwait is Kill, and waits until they are gone.
func (h *Home) KillAndAwait(roles ...Role) []Process {
	h.t.Helper()
	killed := h.Kill(roles...)
	h.Await("the death of "+fmt.Sprint(killed), func() bool { return !anyAlive(h, killed) })
	return killed
}

func anyAlive(h *Home, killed []Process) bool {
	return slices.ContainsFunc(killed, func(p Process) bool {
		now, ours := h.process(p.PID)
		return ours && now.Role == p.Role
	})
}

// KillAll ends everything that lives in the home, again and again until nothing
// does: what is being started shall not escape.
func (h *Home) KillAll() {
	for range 200 {
		if len(h.Kill()) == 0 {
			return
		}
		_, _ = unix.Poll(nil, int(glance.Milliseconds()))
	}
}

// RequireNothingLeft ends the host in order and checks that no process of the
// home is left, and no claim on an attempt is held.
func (h *Home) RequireNothingLeft() {
	h.t.Helper()
	h.Await("the end of all runners", func() bool { return len(h.Processes(Runner, InTrial)) == 0 })
	h.Must("serve", "--stop")
	h.Await("the end of everything", func() bool { return len(h.Processes(Host, Runner, InTrial)) == 0 })
	require.Empty(h.t, h.HeldLocks())
}

// HeldLocks are the files below the state directory that somebody has locked.
func (h *Home) HeldLocks() (held []string) {
	_ = filepath.WalkDir(h.Dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() && isLocked(path) {
			held = append(held, path)
		}
		return nil
	})
	return held
}

func isLocked(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	return unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB) == unix.EWOULDBLOCK
}
