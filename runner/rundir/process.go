package rundir

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Identity names one process of one boot of one machine for ever.
type Identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks after boot, field 22 of /proc/PID/stat
}

// Process is what the runner tells about itself, for people and for Sweep. That
// there is one means that the command may have been started.
type Process struct {
	Format       int      `json:"format"`
	Runner       Identity `json:"runner"`
	MachineID    string   `json:"machineId,omitempty"` // empty where the machine has none
	BootID       string   `json:"bootId"`
	PIDNamespace string   `json:"pidNamespace"`
	// Child is the command's shell, leader of its session and process group; zero
	// until it is started.
	Child   Identity  `json:"child,omitzero"`
	Started time.Time `json:"started,omitzero"` // of the command
	// Tree is every descendant of the runner when it last looked, so that Sweep
	// finds those that left the session and wiped their environment.
	Tree []Identity `json:"tree,omitempty"`
	// Removed is when the trial was last seen to have removed the directory, which
	// the runner then made anew.
	Removed time.Time `json:"removed,omitzero"`
}

// ThisProcess describes the calling process as the runner of an attempt.
func ThisProcess() (Process, error) {
	status, err := readStatus(os.Getpid())
	if err != nil {
		return Process{}, err
	}
	boot, err := bootID()
	if err != nil {
		return Process{}, err
	}
	namespace, err := pidNamespace()
	return Process{Format: Format, Runner: status.Identity, MachineID: machineID(),
		BootID: boot, PIDNamespace: namespace}, err
}

// Identify returns the identity of a living process of this machine.
func Identify(pid int) (Identity, error) {
	status, err := readStatus(pid)
	return status.Identity, err
}

// WriteProcess writes the process record durably.
func (r Run) WriteProcess(process Process) error {
	process.Format = Format
	return writeJSON(r.Path(ProcessFile), process)
}

// ReadProcess returns the process record, nil where the runner wrote none. Of a
// broken one only that it is there counts: something ran, and must not run again.
func (r Run) ReadProcess() (*Process, error) {
	var process Process
	err := readJSON(r.Path(ProcessFile), &process)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case errors.Is(err, errBroken):
		return &Process{}, nil
	case err != nil:
		return nil, err
	}
	return &process, nil
}

// Elsewhere tells whether the record was made on another machine. Then only that
// one can say what became of the run: a free claim proves nothing here.
func (p Process) Elsewhere() bool {
	here := machineID()
	return p.MachineID != "" && here != "" && p.MachineID != here
}

// Rebooted tells whether the machine was started anew since.
func (p Process) Rebooted() bool {
	boot, err := bootID()
	return err == nil && p.BootID != "" && boot != p.BootID
}

// visible tells whether the pids in the record mean anything to this process.
func (p Process) visible() bool {
	here, err := p.here()
	return err == nil && here
}

func machineID() string {
	content, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		return ""
	}
	id := strings.TrimSpace(string(content))
	if id == "uninitialized" { // systemd's word before the first boot, in images
		return ""
	}
	return id
}

func bootID() (string, error) {
	content, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id (is /proc mounted?): %w", err)
	}
	return strings.TrimSpace(string(content)), nil
}

func pidNamespace() (string, error) { return os.Readlink("/proc/self/ns/pid") }

// status is one process as /proc shows it.
type status struct {
	Identity
	state   byte
	parent  int
	group   int
	session int
}

func (s status) dead() bool { return s.state == 'Z' || s.state == 'X' }

func readStatus(pid int) (status, error) {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return status{}, err
	}
	return parseStatus(pid, string(content))
}

// parseStatus reads /proc/PID/stat; the second field may hold anything, so the
// rest begins after the last parenthesis.
func parseStatus(pid int, line string) (status, error) {
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(fields) < 20 {
		return status{}, fmt.Errorf("/proc/%d/stat has too few fields", pid)
	}
	var numbers [4]uint64
	for i, field := range []int{1, 2, 3, 19} {
		number, err := strconv.ParseUint(fields[field], 10, 64)
		if err != nil {
			return status{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		numbers[i] = number
	}
	return status{Identity: Identity{PID: pid, Start: numbers[3]}, state: fields[0][0],
		parent: int(numbers[0]), group: int(numbers[1]), session: int(numbers[2])}, nil
}
