package runner_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/testsuite/machine"
)

const theGPU = "GPU-00000000-0000-4000-8000-000000000000"

// ledger is one that every user can reach.
func ledger(t *testing.T) gpu.Ledger {
	root := t.TempDir()
	openTo(t, root, 0o755)
	require.NoError(t, os.Chmod(root, 0o777|os.ModeSticky))
	return gpu.Ledger{Directory: filepath.Join(root, "ledger")}
}

// openTo lets others into a directory of a test, and on their way to it.
func openTo(t *testing.T, directory string, mode os.FileMode) {
	require.NoError(t, os.Chmod(directory, mode))
	require.NoError(t, os.Chmod(filepath.Dir(directory), 0o755))
}

// asksFor has the attempt take a slot of the one GPU there is.
func (a *attempt) asksFor(l gpu.Ledger, number int) *attempt {
	count := 1
	a.spec.GPUs = &count
	a.spec.Lease = &rundir.GPULease{Ledger: l.Directory, Slots: []gpu.Slot{{UUID: theGPU, Number: number, Vendor: gpu.NVIDIA}},
		Request: gpu.Request{Experiment: a.spec.Key.Experiment, Count: 1, Share: 1}}
	return a
}

func counting(t *testing.T, l gpu.Ledger) []gpu.Lease {
	leases, err := l.Counting(t.Context(), rundir.LeaseCounts)
	require.NoError(t, err)
	return leases
}

func noneCounts(t *testing.T, l gpu.Ledger) {
	require.Eventually(t, func() bool { return len(counting(t, l)) == 0 }, patience, time.Millisecond)
}

func TestARunnerHasItsGPUAsLongAsTheTrialRuns(t *testing.T) {
	l := ledger(t)
	a := newAttempt(t, `echo "$CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER $PERENNIAL_GPU_INDICES" >seen; while [ ! -e go ]; do sleep 0.01; done`)
	a.asksFor(l, 0).begin("CUDA_VISIBLE_DEVICES=7")
	require.Equal(t, theGPU+" PCI_BUS_ID 0", a.waitFor("seen"))
	held := counting(t, l)
	require.Len(t, held, 1)
	require.True(t, held[0].Held)
	require.Equal(t, a.runner.Process.Pid, held[0].Runner.PID)
	require.Equal(t, a.spec.Key.Sequence, held[0].Sequence)
	a.tell("go")
	require.Zero(t, a.end().Exit.Code)
	require.Empty(t, counting(t, l), "the GPU is free before anybody hears that the trial is over")
	left, err := l.Leases(t.Context())
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestWithoutARequestTheTrialSeesWhatItsUserSees(t *testing.T) {
	a := newAttempt(t, `echo "$CUDA_VISIBLE_DEVICES" >seen`)
	a.begin("CUDA_VISIBLE_DEVICES=7")
	require.Equal(t, "7", a.waitFor("seen"))
	none := newAttempt(t, `echo "$CUDA_VISIBLE_DEVICES" >seen`)
	none.spec.GPUs = new(int)
	none.begin("CUDA_VISIBLE_DEVICES=7")
	require.Equal(t, "-1", none.waitFor("seen"))
}

func TestARunnerWhoseGPUIsTakenBeginsNothing(t *testing.T) {
	l := ledger(t)
	first := newAttempt(t, "touch ready; echo >seen; sleep 1000").asksFor(l, 0).begin()
	first.waitFor("seen")
	second := newAttempt(t, "touch ran").asksFor(l, 0).begin()
	second.gone()
	seen, err := second.Observe()
	require.NoError(t, err)
	require.False(t, seen.Begun(), "it can be submitted again")
	require.Contains(t, second.file(rundir.RunnerLog), gpu.ErrTaken.Error())
	require.Contains(t, second.file(rundir.RunnerLog), "is held by trial "+strconv.Itoa(first.spec.Key.Sequence))
	require.NoFileExists(t, filepath.Join(second.spec.Directories.Code, "ran"))
	first.clear()
	noneCounts(t, l)
	second.begin()
	require.Zero(t, second.end().Exit.Code)
}

func TestAKilledRunnersGPUStaysTakenUntilItsDaemonIsGone(t *testing.T) {
	l := ledger(t)
	a := newAttempt(t, daemon+"sleep 1000").asksFor(l, 0)
	a.begin(rundir.CrashVariable + "=runner.killed-while-child-daemonised")
	a.gone()
	pid := a.waitFor("daemon")
	require.True(t, living(pid))
	left := counting(t, l)
	require.Len(t, left, 1)
	require.False(t, left[0].Held, "the kernel gave the lock back")

	// Whoever does not know the run's directory sees it by the lease alone.
	require.NoError(t, os.Rename(a.Directory, a.Directory+".away"))
	require.Len(t, counting(t, l), 1)
	family, err := rundir.LeaseFamily(left[0])
	require.NoError(t, err)
	require.Contains(t, family, number(t, pid))
	require.NoError(t, os.Rename(a.Directory+".away", a.Directory))

	b := newAttempt(t, "true").asksFor(l, 0).begin()
	b.gone()
	require.Contains(t, b.file(rundir.RunnerLog), gpu.ErrTaken.Error())
	require.NoError(t, rundir.SweepLeases(t.Context(), l))
	requireDead(t, pid)
	require.Empty(t, counting(t, l))
	b.begin()
	require.Zero(t, b.end().Exit.Code)
}

func TestALeaseCountsForWhatAnEndedCommandLeftUntilThatIsGone(t *testing.T) {
	l := ledger(t)
	a := newAttempt(t, leftover+"0").asksFor(l, 0)
	a.begin(rundir.CrashVariable + "=runner.exit-noted-before-clean-up")
	a.gone()
	pid := a.waitFor("daemon")
	require.Len(t, counting(t, l), 1)
	// Whoever cannot read the run's directory sees the process by its mark.
	require.NoError(t, os.Rename(a.Directory, a.Directory+".away"))
	left := counting(t, l)
	require.Len(t, left, 1)
	family, err := rundir.LeaseFamily(left[0])
	require.NoError(t, err)
	require.Contains(t, family, number(t, pid))
	require.NoError(t, os.Rename(a.Directory+".away", a.Directory))
	require.Zero(t, a.over().Exit.Exit.Code)
	require.Empty(t, counting(t, l))
}

func number(t *testing.T, text string) int {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	require.NoError(t, err)
	return n
}

func TestASweepLeavesTheLivingAlone(t *testing.T) {
	l := ledger(t)
	a := newAttempt(t, "echo >seen; while [ ! -e go ]; do sleep 0.01; done").asksFor(l, 0).begin()
	a.waitFor("seen")
	require.NoError(t, rundir.SweepLeases(t.Context(), l))
	require.Len(t, counting(t, l), 1)
	a.tell("go")
	require.Zero(t, a.end().Exit.Code)
}

func TestKilledBetweenTheLeaseAndTheCommandTheGPUIsFreeAndTheRunCanBegin(t *testing.T) {
	l := ledger(t)
	a := newAttempt(t, "touch ran").asksFor(l, 0)
	a.begin(rundir.CrashVariable + "=runner.leased-before-start")
	a.gone()
	require.Empty(t, counting(t, l))
	left, err := l.Leases(t.Context())
	require.NoError(t, err)
	require.Len(t, left, 1, "nobody has swept yet")
	a.begin()
	require.Zero(t, a.end().Exit.Code)
	require.FileExists(t, filepath.Join(a.spec.Directories.Code, "ran"))
}

func TestALeaseOfAnotherBootOrOfAnotherContainersDeadIsOver(t *testing.T) {
	l := ledger(t)
	a := newAttempt(t, daemon+"sleep 1000").asksFor(l, 0)
	a.begin(rundir.CrashVariable + "=runner.killed-while-child-daemonised")
	a.gone()
	lease := counting(t, l)[0]
	require.True(t, rundir.LeaseCounts(lease))
	rebooted := lease
	rebooted.BootID = "another"
	require.False(t, rundir.LeaseCounts(rebooted))
	elsewhere := lease
	elsewhere.PIDNamespace = "pid:[1]"
	require.False(t, rundir.LeaseCounts(elsewhere), "its lock is free, and the kernel sees all namespaces")
	elsewhere.Held = true
	require.True(t, rundir.LeaseCounts(elsewhere))
}

// nobodyID is a user without rights on anything of root's.
const nobodyID = 65534

// asNobody runs the attempt as another user than the tests'.
func (a *attempt) asNobody() *attempt {
	if os.Geteuid() != 0 {
		machine.Lacks(a.t, "two users need root, who can be both")
	}
	openTo(a.t, filepath.Dir(binary), 0o755)
	openTo(a.t, filepath.Dir(a.Directory), 0o755)
	a.credential = &syscall.Credential{Uid: nobodyID, Gid: nobodyID}
	return a
}

// give gives the attempt's files to its user.
func (a *attempt) give() {
	require.NoError(a.t, filepath.WalkDir(filepath.Dir(a.Directory), func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, nobodyID, nobodyID))
	}))
}

func TestTwoUsersOfOneHostNeverGetTheSameGPU(t *testing.T) {
	l := ledger(t)
	mine := newAttempt(t, daemon+"echo >seen; sleep 1000").asksFor(l, 0)
	theirs := newAttempt(t, "id -u >seen; while [ ! -e go ]; do sleep 0.01; done").asksFor(l, 0).asNobody()
	mine.begin()
	pid := mine.waitFor("daemon")
	mine.waitFor("seen")
	theirs.begin().gone()
	require.Contains(t, theirs.file(rundir.RunnerLog), "user root): "+gpu.ErrTaken.Error())

	require.Eventually(t, func() bool { return len(counting(t, l)[0].Tree) > 0 }, patience, time.Millisecond)
	require.NoError(t, mine.runner.Process.Kill())
	mine.gone()
	theirs.begin().gone()
	seen, err := theirs.Observe()
	require.NoError(t, err)
	require.False(t, seen.Begun(), "the daemon of another user's dead runner still lives")
	require.True(t, living(pid), "and is none of his business")

	mine.swept()
	theirs.begin()
	require.Equal(t, strconv.Itoa(nobodyID), theirs.waitFor("seen"), "he opens a lock file that root made")
	held := counting(t, l)
	require.Len(t, held, 1)
	require.Equal(t, nobodyID, held[0].UID)
	again := newAttempt(t, "true").asksFor(l, 0).begin()
	again.gone()
	require.Contains(t, again.file(rundir.RunnerLog), gpu.ErrTaken.Error(), "root is held to it as well")
	theirs.tell("go")
	require.Zero(t, theirs.end().Exit.Code)
	again.begin()
	require.Zero(t, again.end().Exit.Code)
}

// hiding is a command prefix by which a process sees only its own user's in /proc.
func hiding(t *testing.T) []string {
	prefix := []string{"unshare", "--mount", "sh", "-c", `mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid ` +
		strconv.Itoa(nobodyID) + ` --regid ` + strconv.Itoa(nobodyID) + ` --clear-groups "$@"`, "hiding"}
	output, err := exec.Command(prefix[0], append(prefix[1:], "cat", "/proc/1/stat")...).CombinedOutput()
	if err == nil || !strings.Contains(string(output), "/proc/1/stat") {
		machine.Lacks(t, "a /proc that hides others' processes cannot be had here: %s", output)
	}
	return prefix
}

func TestWhereOthersProcessesAreHiddenTheirLeasesCountAndOnesOwnWork(t *testing.T) {
	l := ledger(t)
	mine := newAttempt(t, daemon+"sleep 1000").asksFor(l, 0)
	theirs := newAttempt(t, "echo >ran").asksFor(l, 0).asNobody()
	theirs.prefix, theirs.credential = hiding(t), nil
	theirs.owned = true
	mine.begin(rundir.CrashVariable + "=runner.killed-while-child-daemonised")
	mine.gone()
	theirs.begin().gone()
	require.Contains(t, theirs.file(rundir.RunnerLog), gpu.ErrTaken.Error())
	mine.swept()
	theirs.begin().gone()
	require.Contains(t, theirs.file(rundir.RunnerLog), gpu.ErrTaken.Error(), "he cannot see that nothing is left")
	require.NoError(t, rundir.SweepLeases(t.Context(), l))
	theirs.begin()
	theirs.waitFor("ran")
	require.Zero(t, theirs.end().Exit.Code)
}

func TestALedgerThatAnotherUserMadeServesRoot(t *testing.T) {
	l := ledger(t)
	theirs := newAttempt(t, "true").asksFor(l, 0).asNobody().begin()
	theirs.gone()
	info, err := os.Stat(l.Directory)
	require.NoError(t, err)
	require.Equal(t, os.ModeDir|os.ModeSticky|0o777, info.Mode())
	require.EqualValues(t, nobodyID, info.Sys().(*syscall.Stat_t).Uid)
	a := newAttempt(t, "true").asksFor(l, 0).begin()
	require.Zero(t, a.end().Exit.Code)
}
