package remote

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/testsuite/sshlab"
)

func TestStory8_TheLinkIsDownAndThenTheHostReboots(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sshlab.Spec{}, sshlab.Spec{})
	run := w.follow(doomed(2, 2))
	id := run.ID()
	w.AwaitRunning(id, 2)
	trial := w.Trial(id, 0).ID
	host := w.runnerOf(trial, 1).host
	host.Cut()
	w.awaitReason(id, 0, "cannot-reach")
	host.Reboot()
	// The host is there again and the link is not: still nobody can know.
	require.Never(t, func() bool { return w.Trial(id, 0).Attempts > 1 }, 3*time.Second, 500*time.Millisecond)
	require.Equal(t, "RUNNING", w.Trial(id, 0).State)
	host.Heal()
	require.Equal(t, "DONE", run.Finished(2*endtoend.Patience).Status)
	require.Equal(t, 2, w.Trial(id, 0).Attempts)
	require.Equal(t, "machine-rebooted", w.attempts(id, 0)[0].Reason.Code)
	w.RequireExactlyOnce(id, 2, map[string]bool{trial + "/1": true})
	w.requireNothingLeft()
}

func TestStory8_HadItOnlyBeenTheLinkNothingIsMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sshlab.Spec{})
	run := w.follow(endtoend.Plan{Trials: 2, Concurrency: 2, Steps: "20", Pause: "0.4"})
	id := run.ID()
	w.AwaitRunning(id, 2)
	w.lab.Hosts[0].Cut()
	w.awaitReason(id, 0, "cannot-reach")
	w.Await("the end of the trials, which nobody sees", func() bool { return len(w.runners()) == 0 })
	w.lab.Hosts[0].Heal()
	require.Equal(t, "DONE", run.Finished(2*endtoend.Patience).Status)
	w.RequireExactlyOnce(id, 2, nil)
	w.requireNothingLeft()
}

func TestARebootedHostLosesItsTrialsAndTheyRunAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sshlab.Spec{}, sshlab.Spec{})
	run := w.follow(doomed(2, 2))
	id := run.ID()
	w.AwaitRunning(id, 2)
	trial := w.Trial(id, 0).ID
	w.runnerOf(trial, 1).host.Reboot()
	require.Equal(t, "DONE", run.Finished(2*endtoend.Patience).Status)
	require.Equal(t, 2, w.Trial(id, 0).Attempts)
	w.RequireExactlyOnce(id, 2, map[string]bool{trial + "/1": true})
	w.requireNothingLeft()
}

// notMounted has a host that is off come back with another disk of this size where
// its home was.
func (w *world) notMounted(host *sshlab.Host, size string) {
	host.Disk = size
	host.PowerOn()
}

// awaitNotMounted waits until a trial's reason is that its directory is away.
func (w *world) awaitNotMounted(id string) {
	w.t.Helper()
	w.Await("the reason", func() bool {
		return strings.Contains(w.awaitReason(id, 0, "cannot-reach"), "is a file system not mounted?")
	})
}

// TestWhatEndedUnseenIsFoundOnceTheHomeIsMountedAgain has a trial end while nobody
// can see it, on a host that then comes back without its home for a while.
func TestWhatEndedUnseenIsFoundOnceTheHomeIsMountedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sshlab.Spec{})
	run := w.follow(endtoend.Plan{Trials: 1, Concurrency: 1, Steps: "10", Pause: "0.4"})
	id, host := run.ID(), w.lab.Hosts[0]
	w.AwaitRunning(id, 1)
	host.Cut()
	w.awaitReason(id, 0, "cannot-reach")
	w.Await("the end of the trial, which nobody sees", func() bool { return len(w.runners()) == 0 })
	host.PowerOff()
	w.notMounted(host, "200m")
	host.Heal()
	w.awaitNotMounted(id)
	require.Never(t, func() bool { return w.Trial(id, 0).Attempts > 1 || len(w.runners()) > 0 }, 3*time.Second, 500*time.Millisecond)
	require.Equal(t, "RUNNING", w.Trial(id, 0).State)
	host.PowerOff()
	w.notMounted(host, "")
	require.Equal(t, "DONE", run.Finished(2*endtoend.Patience).Status)
	w.RequireExactlyOnce(id, 1, nil)
	w.requireNothingLeft()
}

// TestAHostThatComesBackWithoutRoomLeavesItsTrialsToTheOther has the host lose its
// disk, and get one that is too small for trials.
func TestAHostThatComesBackWithoutRoomLeavesItsTrialsToTheOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sshlab.Spec{}, sshlab.Spec{})
	run := w.follow(doomed(2, 2))
	id := run.ID()
	w.AwaitRunning(id, 2)
	trial := w.Trial(id, 0).ID
	rebooted := w.runnerOf(trial, 1).host
	rebooted.PowerOff()
	w.notMounted(rebooted, "32m")
	w.awaitNotMounted(id)
	w.Must("kill", id, "0", "--lost")
	again := w.runnerOf(trial, 2)
	require.NotEqual(t, rebooted.Name, again.host.Name)
	require.Equal(t, "DONE", run.Finished(2*endtoend.Patience).Status)
	w.RequireExactlyOnce(id, 2, map[string]bool{trial + "/1": true})
	w.requireNothingLeft()
}

func TestAHostThatComesBackEmptyRunsATrialAgainOnceThatIsDeclaredLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sshlab.Spec{})
	run := w.follow(doomed(1, 1))
	id := run.ID()
	w.AwaitRunning(id, 1)
	trial := w.Trial(id, 0).ID
	w.runnerOf(trial, 1)
	w.lab.Hosts[0].Reinstall()
	w.awaitNotMounted(id)
	require.Equal(t, 1, w.Trial(id, 0).Attempts)
	w.Must("kill", id, "0", "--lost")
	require.Equal(t, "DONE", run.Finished(2*endtoend.Patience).Status)
	require.Equal(t, 2, w.Trial(id, 0).Attempts)
	w.RequireExactlyOnce(id, 1, map[string]bool{trial + "/1": true})
	w.requireNothingLeft()
}

// The two that take longest come last, since go test starts these first.

// partition is longer than every time-out on the way to a host: two minutes for a
// verb of a platform, one for a poll and for a heartbeat.
var partition = flag.Duration("partition", 130*time.Second, "how long the link is down")

func TestAPartitionLongerThanEveryTimeoutLosesNothingAndRunsNothingTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sshlab.Spec{}, sshlab.Spec{})
	// Some trials end while the hosts are away and some after.
	steps := fmt.Sprintf("20 + PERENNIAL_SEQUENCE * %d", int(partition.Seconds()+20)/7)
	run := w.follow(endtoend.Plan{Trials: 8, Concurrency: 8, Steps: steps, Pause: "0.9"})
	id := run.ID()
	w.AwaitRunning(id, 8)
	runners := w.runners()
	require.Len(t, runners, 8)
	for _, h := range w.lab.Hosts {
		h.Cut()
	}
	healed := time.After(*partition)
	text := w.awaitReason(id, 7, "cannot-reach")
	t.Log(text)
	<-healed
	for _, row := range w.Trials(id) {
		require.Equal(t, "RUNNING", row.State, "nobody can know of an end: %+v", row)
		require.Equal(t, 1, row.Attempts, "%+v", row)
	}
	for _, h := range w.lab.Hosts {
		h.Heal()
	}
	require.Equal(t, "DONE", run.Finished(2*endtoend.Patience).Status)
	w.RequireExactlyOnce(id, 8, nil)
	w.requireNothingLeft()
}

// TestAHostThatIsSilentForTooLongIsGivenUp takes hostLostAfter and the minute that
// the host gets beyond it.
func TestAHostThatIsSilentForTooLongIsGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sshlab.Spec{}, sshlab.Spec{})
	platform := strings.Replace(w.machines(), "  machineList:", "  hostLostAfter: 60s\n  machineList:", 1)
	run := w.follow(endtoend.Plan{Trials: 1, Concurrency: 1, Script: endless, Platform: platform})
	id := run.ID()
	w.AwaitRunning(id, 1)
	trial := w.Trial(id, 0).ID
	first := w.runnerOf(trial, 1)
	first.host.Cut()
	w.AwaitFor(3*endtoend.Patience, "the end of attempt 2", func() bool { return w.Ledger()[trial][2] != nil && w.Ledger()[trial][2].Ended })
	for _, runner := range w.runners() {
		require.NotEqual(t, first.attempt, runner.attempt, "the host had ended attempt 1 by itself, behind the cut")
	}
	first.host.Heal()
	require.Equal(t, "DONE", run.Finished(endtoend.Patience).Status)
	require.Equal(t, "host-lost", w.attempts(id, 0)[0].Reason.Code)
	w.RequireExactlyOnce(id, 1, map[string]bool{trial + "/1": true})
	w.requireNothingLeft()
}
