package rundir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/trial"
)

// sweepInterval is the pause between two looks at the process table: long enough
// for a killed process to vanish, short beside what a caller notices.
const sweepInterval = 10 * time.Millisecond

// Sweep kills, with SIGKILL, every process that the attempt left on this machine,
// and returns when none is left; zombies count as dead. Found are processes of our
// user that carry the attempt's tag (trial.VarRun) in their environment or its Mark,
// that are in the recorded session or tree, or below the recorded runner, and all
// descendants of those. The caller, the recorded runner and their ancestors are
// spared. A pid is used only together with its start time. The error names what is still alive when ctx ends.
func (r Run) Sweep(ctx context.Context, key trial.Key) error {
	var left []Identity
	for {
		found, err := r.Processes(key)
		if err != nil {
			return err
		}
		left = append(found, stillDying(left, found)...)
		if len(left) == 0 {
			return nil
		}
		for _, process := range left {
			Kill(process)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("processes %v of %s are still alive: %w", left, key, ctx.Err())
		case <-time.After(sweepInterval):
		}
	}
}

// stillDying returns those of an earlier look that live and are not found any more,
// since their parents are dead already.
func stillDying(earlier, found []Identity) []Identity {
	return slices.DeleteFunc(earlier, func(process Identity) bool {
		now, err := readStatus(process.PID)
		return err != nil || now.Identity != process || now.dead() || slices.Contains(found, process)
	})
}

// Processes returns the living processes that Sweep would kill.
func (r Run) Processes(key trial.Key) ([]Identity, error) {
	recorded, err := r.ReadProcess()
	if err != nil {
		return nil, err
	}
	table, err := readTable(ours)
	if err != nil {
		return nil, err
	}
	search := search{table: table, tag: []byte(trial.VarRun + "=" + key.String()), mark: markOf(key), found: map[int]bool{}}
	if recorded != nil && recorded.visible() {
		search.recorded = *recorded
	}
	return search.run(), nil
}

// Descendants returns the living descendants of a process on this machine.
func Descendants(pid int) ([]Identity, error) {
	table, err := readTable(ours)
	if err != nil {
		return nil, err
	}
	search := search{table: table, found: map[int]bool{}}
	search.addChildren(pid)
	return search.identities(), nil
}

// search is one look at the process table.
type search struct {
	table    map[int]status
	tag      []byte
	mark     uint64  // zero: none is looked for
	recorded Process // zero where its pids mean nothing here
	found    map[int]bool
}

func (s *search) run() []Identity {
	spared := s.spared()
	for pid, status := range s.table {
		if !spared[pid] && s.belongs(status) {
			s.found[pid] = true
		}
	}
	for _, pid := range s.pids() {
		s.addChildren(pid)
	}
	if s.runnerLives() {
		s.addChildren(s.recorded.Runner.PID)
	}
	for pid := range spared {
		delete(s.found, pid)
	}
	return s.identities()
}

func (s *search) spared() map[int]bool {
	spared := map[int]bool{1: true}
	s.addAncestors(spared, os.Getpid())
	if s.runnerLives() {
		s.addAncestors(spared, s.recorded.Runner.PID)
	}
	return spared
}

func (s *search) runnerLives() bool {
	runner, alive := s.table[s.recorded.Runner.PID]
	return alive && runner.Identity == s.recorded.Runner
}

func (s *search) addAncestors(to map[int]bool, pid int) {
	for pid > 1 && !to[pid] {
		to[pid] = true
		pid = s.table[pid].parent
	}
}

func (s *search) belongs(process status) bool {
	if s.isRecorded(process) {
		return true
	}
	run := taggedWith(process.PID)
	if run != nil {
		return len(s.tag) > 0 && bytes.Equal(run, s.tag)
	}
	return s.inSession(process) || s.isMarked(process)
}

func (s *search) isRecorded(process status) bool {
	return slices.Contains(s.recorded.Tree, process.Identity) || process.Identity == s.recorded.Child
}

func (s *search) isMarked(process status) bool { return s.mark != 0 && markedWith(process.PID, s.mark) }

// inSession tells whether a process is in the command's session. The kernel keeps
// the number of a session from reuse while it has members, so it is another
// session only if its leader lives with another start time; members are never
// older than the command.
func (s *search) inSession(process status) bool {
	child := s.recorded.Child
	if child.PID == 0 || process.session != child.PID || process.Start < child.Start {
		return false
	}
	leader, alive := s.table[child.PID]
	return !alive || leader.Identity == child
}

func (s *search) addChildren(pid int) {
	for child, status := range s.table {
		if status.parent == pid && !s.found[child] {
			s.found[child] = true
			s.addChildren(child)
		}
	}
}

func (s *search) pids() []int {
	pids := make([]int, 0, len(s.found))
	for pid := range s.found {
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	return pids
}

func (s *search) identities() []Identity {
	var identities []Identity
	for _, pid := range s.pids() {
		if status := s.table[pid]; !status.dead() {
			identities = append(identities, status.Identity)
		}
	}
	return identities
}

// taggedWith returns the variable trial.VarRun of a process with its name, nil
// where it has none or belongs to somebody else.
func taggedWith(pid int) []byte {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return nil
	}
	for variable := range bytes.SplitSeq(content, []byte{0}) {
		if bytes.HasPrefix(variable, []byte(trial.VarRun+"=")) {
			return variable
		}
	}
	return nil
}

// readTable returns every process that is meant, zombies included: a zombie's
// children are still to be found.
func readTable(meant func(pid string) bool) (map[int]status, error) {
	directory, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer directory.Close()
	names, err := directory.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("read the process table: %w", err)
	}
	table := map[int]status{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || !meant(name) {
			continue
		}
		// What vanished meanwhile is not there.
		if status, err := readStatus(pid); err == nil {
			table[pid] = status
		}
	}
	return table, nil
}

// ours are the processes of our user.
func ours(pid string) bool {
	var info unix.Stat_t
	return unix.Stat("/proc/"+pid, &info) == nil && int(info.Uid) == os.Geteuid()
}

// Kill ends exactly the named process, whoever has its pid by now. One that is gone
// already is as well.
func Kill(process Identity) { _ = signal(process, unix.SIGKILL) }

// signal signals exactly the named process: the descriptor pins the pid, and the
// start time is compared after it is pinned.
func signal(process Identity, what unix.Signal) error {
	descriptor, err := unix.PidfdOpen(process.PID, 0)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return signalByNumber(process, what)
	}
	if err != nil {
		return err
	}
	defer unix.Close(descriptor)
	if now, err := Identify(process.PID); err != nil || now != process {
		return err
	}
	return unix.PidfdSendSignal(descriptor, what, nil, 0)
}

// signalByNumber is for kernels before 5.3.
func signalByNumber(process Identity, what unix.Signal) error {
	if now, err := Identify(process.PID); err != nil || now != process {
		return err
	}
	return unix.Kill(process.PID, what)
}
