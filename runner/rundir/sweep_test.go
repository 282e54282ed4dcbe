package rundir

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/trial"
)

// sleeper is a process that lives until it is killed.
func sleeper(t *testing.T, environment []string) *exec.Cmd {
	command := exec.Command("sleep", "3600")
	command.Env = environment
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
	})
	return command
}

func identify(t *testing.T, command *exec.Cmd) Identity {
	identity, err := Identify(command.Process.Pid)
	require.NoError(t, err)
	return identity
}

func alive(command *exec.Cmd) bool {
	status, err := readStatus(command.Process.Pid)
	return err == nil && !status.dead()
}

func sweepNow(t *testing.T, run Run) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, run.Sweep(ctx, key))
}

func tagOf(key trial.Key) []string { return []string{trial.VarRun + "=" + key.String()} }

// record writes a process record of this machine; nobody runs the attempt.
func record(t *testing.T, run Run, change func(*Process)) {
	process, err := ThisProcess()
	require.NoError(t, err)
	process.Runner = Identity{}
	change(&process)
	require.NoError(t, run.WriteProcess(process))
}

func TestSweepKillsWhatCarriesTheTagAndNothingElse(t *testing.T) {
	run := newRun(t)
	other := key
	other.Attempt = 22
	tagged, untagged, others := sleeper(t, tagOf(key)), sleeper(t, nil), sleeper(t, tagOf(other))
	sweepNow(t, run)
	require.False(t, alive(tagged), "it is a zombie at most")
	require.True(t, alive(untagged))
	require.True(t, alive(others), "its tag only begins like ours")
	left, err := run.Processes(key)
	require.NoError(t, err)
	require.Empty(t, left, "a zombie counts as dead")
}

func TestSweepKillsTheRecordedTreeEvenWithoutTag(t *testing.T) {
	run := newRun(t)
	escaped := sleeper(t, nil)
	record(t, run, func(process *Process) { process.Tree = []Identity{identify(t, escaped)} })
	sweepNow(t, run)
	require.False(t, alive(escaped))
}

func TestSweepSparesAProcessThatHasARecordedPidButAnotherStartTime(t *testing.T) {
	run := newRun(t)
	stranger := sleeper(t, nil)
	reused := identify(t, stranger)
	reused.Start--
	record(t, run, func(process *Process) { process.Tree, process.Child = []Identity{reused}, reused })
	sweepNow(t, run)
	require.True(t, alive(stranger))
}

func TestSweepSparesRecordedPidsOfAnotherBoot(t *testing.T) {
	run := newRun(t)
	stranger := sleeper(t, nil)
	record(t, run, func(process *Process) {
		process.BootID, process.Tree = "another", []Identity{identify(t, stranger)}
	})
	sweepNow(t, run)
	require.True(t, alive(stranger))
}

// leaderWithMember is a shell that leads a session, and a process without
// environment in it.
func leaderWithMember(t *testing.T) (leader *exec.Cmd, member int) {
	leader = exec.Command("sh", "-c", "/usr/bin/env -i /bin/sleep 3600 & wait")
	leader.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	require.NoError(t, leader.Start())
	require.Eventually(t, func() bool {
		below, err := Descendants(leader.Process.Pid)
		if err == nil && len(below) == 1 && taggedWith(below[0].PID) == nil {
			member = below[0].PID
		}
		return member != 0
	}, 30*time.Second, 5*time.Millisecond)
	t.Cleanup(func() { unix.Kill(member, unix.SIGKILL) })
	return leader, member
}

func TestSweepKillsWhatIsInTheCommandsSessionAfterItsLeaderDied(t *testing.T) {
	run := newRun(t)
	leader, member := leaderWithMember(t)
	record(t, run, func(process *Process) { process.Child = identify(t, leader) })
	require.NoError(t, leader.Process.Kill())
	leader.Wait()
	require.NoError(t, unix.Kill(member, 0))
	sweepNow(t, run)
	status, err := readStatus(member)
	require.True(t, err != nil || status.dead())
}

func TestSweepKillsDescendantsOfWhatItFinds(t *testing.T) {
	run := newRun(t)
	leader, member := leaderWithMember(t)
	record(t, run, func(process *Process) { process.Tree = []Identity{identify(t, leader)} })
	found, err := run.Processes(key)
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(found, func(process Identity) bool { return process.PID == member }))
	sweepNow(t, run)
	leader.Wait()
	status, err := readStatus(member)
	require.True(t, err != nil || status.dead())
}

func TestSweepSparesItsCallerAndTheRecordedRunner(t *testing.T) {
	run := newRun(t)
	runner := sleeper(t, tagOf(key))
	record(t, run, func(process *Process) {
		process.Runner = identify(t, runner)
		own, err := Identify(os.Getpid())
		require.NoError(t, err)
		process.Tree = []Identity{own}
	})
	sweepNow(t, run)
	require.True(t, alive(runner))
}

func TestSweepSaysWhatIsLeftWhenItsTimeIsOver(t *testing.T) {
	tagged := sleeper(t, tagOf(key))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := newRun(t).Sweep(ctx, key)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, key.String())
	require.Eventually(t, func() bool { return !alive(tagged) }, 30*time.Second, 5*time.Millisecond)
}

func TestAProcessNameMayHoldAnything(t *testing.T) {
	line := "42 (a) (b) S 1) R 7 8 9 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 12345 0 0"
	status, err := parseStatus(42, line)
	require.NoError(t, err)
	require.Equal(t, Identity{PID: 42, Start: 12345}, status.Identity)
	require.Equal(t, []int{7, 8, 9}, []int{status.parent, status.group, status.session})
	_, err = parseStatus(42, "42 (a) S 1")
	require.Error(t, err)
}

func TestSweepKillsWhatIsMarkedAndNothingElse(t *testing.T) {
	require.NoError(t, CanMark())
	run := newRun(t)
	other := key
	other.Attempt = 22
	marked, others, unmarked := sleeper(t, nil), sleeper(t, nil), sleeper(t, nil)
	for process, key := range map[*exec.Cmd]trial.Key{marked: key, others: other} {
		limit := unix.Rlimit{Cur: markOf(key), Max: unix.RLIM_INFINITY}
		require.NoError(t, unix.Prlimit(process.Process.Pid, markResource, &limit, nil))
		read, found := readMark(process.Process.Pid)
		require.True(t, found)
		require.Equal(t, limit.Cur, read, "others than its owner see it, too")
	}
	sweepNow(t, run)
	require.False(t, alive(marked))
	require.True(t, alive(others))
	require.True(t, alive(unmarked))
}
