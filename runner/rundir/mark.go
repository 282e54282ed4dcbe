package rundir

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/trial"
)

// markResource is the limit on file locks. Linux hands it down to every process
// and has not enforced it since 2.4.25, so a number in it is a trace that
// neither setsid nor a wiped environment nor a closed descriptor takes away, and
// everybody can read it. Nothing smaller than markFloor is ever a mark, and more
// locks than that nobody has.
const (
	markResource = unix.RLIMIT_LOCKS
	markFloor    = 1 << 61
)

// Mark leaves a trace of the attempt on the calling process that all its
// descendants inherit: by it Sweep finds those that shed everything else.
func Mark(key trial.Key) error {
	var limit unix.Rlimit
	if err := unix.Prlimit(0, markResource, nil, &limit); err != nil {
		return err
	}
	limit.Cur = markOf(key)
	if limit.Cur > limit.Max {
		return fmt.Errorf("the hard limit on file locks is %d, below what marks a process", limit.Max)
	}
	return unix.Prlimit(0, markResource, &limit, nil)
}

// CanMark is an error where Mark does nothing on this machine: a process that wipes
// its environment and leaves its session can then outlive a runner that is killed.
func CanMark() error {
	var limit unix.Rlimit
	if err := unix.Prlimit(0, markResource, nil, &limit); err != nil {
		return err
	}
	if limit.Max != unix.RLIM_INFINITY {
		return fmt.Errorf("the hard limit on file locks (ulimit -Hx) is %d", limit.Max)
	}
	if _, found := readMark(os.Getpid()); !found {
		return errors.New("/proc/PID/limits does not tell the limit on file locks")
	}
	return nil
}

func markOf(key trial.Key) uint64 {
	hash := fnv.New64a()
	hash.Write([]byte(key.String()))
	return markFloor | hash.Sum64()%markFloor
}

// markedWith tells whether a process, whoever's it is, carries a mark.
func markedWith(pid int, mark uint64) bool {
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, markResource, nil, &limit); !errors.Is(err, unix.EPERM) {
		return err == nil && limit.Cur == mark
	}
	found, ok := readMark(pid)
	return ok && found == mark
}

// readMark reads the limit as /proc shows it to everybody, the largest number where
// there is none.
func readMark(pid int) (mark uint64, found bool) {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/limits")
	if err != nil {
		return 0, false
	}
	_, line, found := strings.Cut(string(content), "\nMax file locks")
	words := strings.Fields(line)
	if !found || len(words) == 0 {
		return 0, false
	}
	if words[0] == "unlimited" {
		return unix.RLIM_INFINITY, true
	}
	mark, err = strconv.ParseUint(words[0], 10, 64)
	return mark, err == nil
}
