package runner_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/perennial-ml/perennial/testsuite/machine"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// crash runs an attempt whose runner dies at a crash point, and requires what must
// hold wherever it dies: the claim is free, there is no exit record, and the
// process record says that the attempt never starts again.
func crash(t *testing.T, point, command string, during func(*attempt)) *attempt {
	a := newAttempt(t, command)
	a.spec.Grace = time.Minute
	a.begin(rundir.CrashVariable + "=" + point)
	if during != nil {
		during(a)
	}
	a.gone()
	seen, err := a.Observe()
	require.NoError(t, err)
	require.True(t, seen.Over())
	require.NotNil(t, seen.Process)
	require.Nil(t, seen.Exit)
	return a
}

// swept requires that nothing is left after a sweep.
func (a *attempt) swept() {
	require.NoError(a.t, a.Sweep(a.t.Context(), a.spec.Key))
	left, err := a.Processes(a.spec.Key)
	require.NoError(a.t, err)
	require.Empty(a.t, left)
}

func TestKilledBetweenTheProcessRecordAndTheCommandNothingWasRun(t *testing.T) {
	a := crash(t, "runner.started-before-child-exec", "touch ran; sleep 1000", nil)
	a.swept()
	require.NoFileExists(t, filepath.Join(a.spec.Directories.Code, "ran"))
}

func TestKilledBesideADaemonTheDaemonIsStillFound(t *testing.T) {
	a := crash(t, "runner.killed-while-child-daemonised", daemon+"sleep 1000", nil)
	pid := a.waitFor("daemon")
	require.True(t, living(pid))
	a.swept()
	requireDead(t, pid)
}

func TestKilledBetweenReadingAndAppendingTheJournalIsWhole(t *testing.T) {
	a := crash(t, "runner.read-before-journal-append", "echo 'perennial: final 1'; sleep 1000", nil)
	a.swept()
	require.Empty(t, a.records())
}

func TestKilledBeforeTheExitRecordEveryMetricIsInTheJournal(t *testing.T) {
	a := crash(t, "runner.child-dead-before-exit-record", "echo 'perennial: final 1'", nil)
	require.Equal(t, []string{"FINAL 0 1"}, a.metrics())
}

func TestKilledWhileItCancelsTheIntentIsKnown(t *testing.T) {
	for _, point := range []string{"cancel.intent-before-TERM", "cancel.TERM-before-KILL"} {
		t.Run(point, func(t *testing.T) {
			a := crash(t, point, "trap '' TERM; echo > ready; while :; do sleep 0.05; done", func(a *attempt) {
				a.waitFor("ready")
				a.cancel()
			})
			a.swept()
			intent, err := a.ReadIntent()
			require.NoError(t, err)
			require.Equal(t, trial.CauseUser, intent.Cause)
		})
	}
}

func TestOnAFullDiskTheExitRecordIsWrittenAllTheSame(t *testing.T) {
	a := newAttempt(t, "until [ -e go ]; do sleep 0.01; done; exit 3")
	require.NoError(t, unix.Rmdir(a.Directory))
	a.Directory = machine.SmallDisk(t, "4m")
	a.spec.Directories.System, a.spec.Directories.Output = a.Directory, a.Directory
	a.begin()
	require.Eventually(t, func() bool {
		process, err := a.ReadProcess()
		return err == nil && process != nil
	}, patience, time.Millisecond)
	fill(t, a.Path("filler"))
	a.tell("go")
	require.Equal(t, trial.Exit{Code: 3}, a.end().Exit)
}

func fill(t *testing.T, path string) {
	file, err := os.Create(path)
	require.NoError(t, err)
	defer file.Close()
	for err == nil {
		_, err = file.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, unix.ENOSPC)
}

// leftover is a command that reports, ends, and leaves a process behind that
// reports after it and then lives on, with nothing left of its environment.
const leftover = `env -i /bin/bash -c 'setsid /bin/bash -c "echo \$\$ > daemon; until [ -e go ]; do sleep 0.01; done; echo perennial: final 2; echo > reported; sleep 1000" < /dev/null &'
until [ -s daemon ]; do sleep 0.01; done; echo 'perennial: intermediate 1'; exit `

func TestKilledWhileItEndsWhatWasLeftTheCommandsOwnEndStands(t *testing.T) {
	for _, code := range []int{0, 3} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			a := newAttempt(t, leftover+strconv.Itoa(code))
			a.begin(rundir.CrashVariable + "=runner.exit-noted-before-clean-up")
			a.gone()
			pid := a.waitFor("daemon")
			require.True(t, living(pid))
			require.Equal(t, []string{"PERIODICAL 0 1"}, a.metrics())
			a.tell("go")
			a.waitFor("reported")

			seen := a.over()
			require.Equal(t, trial.Exit{Code: code}, seen.Exit.Exit)
			requireDead(t, pid)
			require.Equal(t, []string{"PERIODICAL 0 1", "FINAL 0 2"}, a.metrics(), "what the leftover reported is kept, once")
			exit, err := a.ReadExit()
			require.NoError(t, err)
			require.Equal(t, seen.Exit, exit)
			a.over()
			require.Len(t, a.metrics(), 2)
		})
	}
}

func TestALeftoverThatAlreadyReportedIsNotReadTwice(t *testing.T) {
	a := newAttempt(t, leftover+"0")
	a.begin()
	require.Eventually(t, func() bool {
		exit, err := a.ReadExit()
		return err == nil && exit != nil
	}, patience, time.Millisecond, "the end is durable before the clean-up is over")
	a.tell("go")
	require.Eventually(t, func() bool { return len(a.records()) == 2 }, patience, time.Millisecond)
	require.NoError(t, a.runner.Process.Kill())
	a.gone()
	require.Zero(t, a.over().Exit.Exit.Code)
	require.Equal(t, []string{"PERIODICAL 0 1", "FINAL 0 2"}, a.metrics())
}

// A process that shed its environment, its session and its parents before anybody
// could write it down.
func TestKilledAtOnceNothingIsLeftThatShedAllElse(t *testing.T) {
	a := newAttempt(t, `for i in 1 2 3 4 5 6; do env -i setsid /bin/bash -c 'echo $$ > d'$i'; exec sleep 1000' & done
for i in 1 2 3 4 5 6; do until [ -s d$i ]; do sleep 0.01; done; done; kill -KILL $PPID`).begin()
	a.gone()
	_, err := a.Reconcile(a.spec.Key)
	require.NoError(t, err)
	for i := range 6 {
		requireDead(t, a.waitFor("d"+strconv.Itoa(i+1)))
	}
}
