package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/runner/rundir"
)

// How often the attempt's processes are looked at: often at first, when daemons
// are made.
const (
	shortestTreeInterval = 100 * time.Millisecond
	longestTreeInterval  = 2 * time.Second
)

// tree is what is known of the processes that left the command's session.
type tree struct {
	next     time.Time
	interval time.Duration
}

// killAll kills the command's group and every descendant, wherever they went.
func (a *attempt) killAll() {
	if a.child.ended.IsZero() {
		unix.Kill(-a.child.pid, unix.SIGKILL)
	}
	for _, process := range descendants() {
		rundir.Kill(process)
	}
}

// noteTree records who left the command's session, so that a sweep finds them
// when this process is killed.
func (a *attempt) noteTree() {
	if time.Now().Before(a.tree.next) {
		return
	}
	a.tree.interval = min(max(2*a.tree.interval, shortestTreeInterval), longestTreeInterval)
	a.tree.next = time.Now().Add(a.tree.interval)
	escaped := a.escaped()
	if slices.Equal(escaped, a.process.Tree) {
		return
	}
	a.process.Tree = escaped
	if err := a.run.WriteProcess(a.process); err != nil {
		a.process.Tree = nil // tried again at the next look
		a.log.sayOnce("cannot note the processes of the trial: %v", err)
		return
	}
	a.noteLease()
	if len(escaped) > 0 {
		rundir.CrashPoint("runner.killed-while-child-daemonised")
	}
}

// escaped returns the living descendants outside the command's session, by pid.
func (a *attempt) escaped() []rundir.Identity {
	var escaped []rundir.Identity
	for _, process := range descendants() {
		session, err := unix.Getsid(process.PID)
		if err == nil && session != a.child.pid {
			escaped = append(escaped, process)
		}
	}
	slices.SortFunc(escaped, func(a, b rundir.Identity) int { return a.PID - b.PID })
	return escaped
}

// descendants returns the descendants of this process. It follows the kernel's
// lists of children, since a look at every process of the machine would be too
// much for a thousand runners, and takes that look where there are no such lists.
func descendants() []rundir.Identity {
	found, err := children(os.Getpid())
	if err != nil {
		found, _ := rundir.Descendants(os.Getpid())
		return found
	}
	var identities []rundir.Identity
	for i := 0; i < len(found); i++ {
		if identity, err := rundir.Identify(found[i]); err == nil {
			identities = append(identities, identity)
		}
		below, _ := children(found[i]) // one that vanished has none
		found = append(found, below...)
	}
	return identities
}

func children(pid int) ([]int, error) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil || len(lists) == 0 {
		return nil, os.ErrNotExist
	}
	var pids []int
	for _, list := range lists {
		content, _ := os.ReadFile(list) // a thread that vanished has no children
		for _, word := range strings.Fields(string(content)) {
			if pid, err := strconv.Atoi(word); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids, nil
}
