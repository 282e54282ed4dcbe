package remote

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/testsuite/sshlab"
)

func kill(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
}

// forking is a trial with daemons: one in a session of its own, one that wiped its
// environment as well, one that ignores TERM.
const forking = `#!/bin/sh
setsid sleep 611 > /dev/null 2>&1 < /dev/null &
setsid env -i sleep 612 > /dev/null 2>&1 < /dev/null &
(trap '' TERM; setsid sh -c 'while :; do sleep 0.613; done' > /dev/null 2>&1 < /dev/null &)
echo "perennial: intermediate 1"
exec sleep 614
`

func TestEarlyStopAndCancelLeaveNoProcessOfATrialWithDaemons(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sshlab.Spec{})
	run := w.follow(endtoend.Plan{Trials: 2, Concurrency: 2, Script: forking})
	id := run.ID()
	w.Await("all daemons of both trials", func() bool {
		count := map[string]int{}
		for _, process := range w.left() {
			count[process.Command]++
		}
		return count["sleep 611"] == 2 && count["sleep 612"] == 2 && count["sleep 0.613"] == 2 && count["sleep 614"] == 2
	})
	w.Must("kill", id, "0")
	w.Must("kill", id, "1", "--early-stop")
	w.AwaitState(id, 0, "USER_CANCELED", 1)
	w.AwaitState(id, 1, "EARLY_STOPPED", 1)
	require.Equal(t, "DONE", run.Finished(endtoend.Patience).Status)
	w.requireNothingLeft()
}

func TestACancelThatAHostMissedReachesItWhenTheLinkIsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sshlab.Spec{}, sshlab.Spec{})
	run := w.follow(doomed(2, 2))
	id := run.ID()
	w.AwaitRunning(id, 2)
	host := w.runnerOf(w.Trial(id, 0).ID, 1).host
	host.Cut()
	w.awaitReason(id, 0, "cannot-reach")
	w.Must("kill", id, "0")
	require.Never(t, func() bool { return w.Trial(id, 0).State != "RUNNING" }, 2*time.Second, 500*time.Millisecond,
		"it runs as far as anybody knows")
	host.Heal()
	w.AwaitState(id, 0, "USER_CANCELED", 1)
	require.Equal(t, "DONE", run.Finished(2*endtoend.Patience).Status)
	w.requireNothingLeft()
}

// endless is a trial whose first attempt runs until somebody ends it and counts
// what it reports from 1001 on.
const endless = `#!/bin/sh
note() { printf '%s %s %s %s\n' "$PERENNIAL_TRIAL" "$PERENNIAL_ATTEMPT" $$ "$*" >> "$LEDGER"; }
note start "$(cksum < "$PERENNIAL_PARAMETERS" | tr ' ' '-')"
step=0
while [ "$PERENNIAL_ATTEMPT" = 1 ]; do
  step=$(( step + 1 ))
  echo "perennial: intermediate $(( 1000 + step ))"
  sleep 0.2
done
note metric 1
echo "perennial: final 1"
note end
`

func TestASupersededAttemptThatReturnsIsEndedAndItsMetricsAreNotUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sshlab.Spec{}, sshlab.Spec{})
	run := w.follow(endtoend.Plan{Trials: 1, Concurrency: 1, Script: endless})
	id := run.ID()
	w.AwaitRunning(id, 1)
	trial := w.Trial(id, 0).ID
	first := w.runnerOf(trial, 1)
	first.host.Cut()
	w.awaitReason(id, 0, "cannot-reach")
	w.Must("kill", id, "0", "--lost")
	w.Await("the end of attempt 2", func() bool { return w.Ledger()[trial][2] != nil && w.Ledger()[trial][2].Ended })
	// The ledger is the trial's own word: its runner ends a moment later.
	w.Await("the end of attempt 2's runner", func() bool { return len(w.runners()) == 1 })
	first.host.Heal()
	// Nothing but the sweeper of a host that serves knows of it any more.
	w.Serve()
	w.Await("the end of the superseded attempt", func() bool { return len(w.runners()) == 0 })
	require.Equal(t, "DONE", run.Finished(endtoend.Patience).Status)
	w.RequireExactlyOnce(id, 1, map[string]bool{trial + "/1": true})
	require.Equal(t, []string{"1"}, w.Export(id)[trial].Intermediate)
	w.requireNothingLeft()
}

func TestTwoControllersShareHostsAndSeeOnlyTheirOwn(t *testing.T) {
	t.Parallel()
	lab := sshlab.New(t, sshlab.Spec{}, sshlab.Spec{})
	one, two := controller(t, lab, "one"), controller(t, lab, "two")
	first, second := one.follow(long(3, 3)), two.follow(long(3, 3))
	one.AwaitRunning(first.ID(), 3)
	two.AwaitRunning(second.ID(), 3)
	require.Len(t, one.runners(), 6)
	two.Must("stop", second.ID())
	require.Equal(t, "STOPPED", second.Finished(endtoend.Patience).Status)
	one.KillAndAwait(endtoend.Host)
	require.Equal(t, "DONE", first.Finished(2*endtoend.Patience).Status)
	one.RequireExactlyOnce(first.ID(), 3, nil)
	two.Must("serve", "--stop")
	one.requireNothingLeft()
}

func TestConnectionsThatAreKilledAgainAndAgainHinderNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sshlab.Spec{}, sshlab.Spec{Latency: 20 * time.Millisecond})
	run := w.follow(endtoend.Plan{Trials: 8, Concurrency: 4, Steps: "6", Pause: "0.3"})
	for deadline := time.Now().Add(2 * endtoend.Patience); !run.Ended(); time.Sleep(2 * time.Second) {
		require.True(t, time.Now().Before(deadline), "%s", fmt.Sprint(w.Trials(run.ID())))
		for _, h := range w.lab.Hosts {
			h.Disconnect()
		}
	}
	require.Equal(t, "DONE", run.Finished(endtoend.Patience).Status)
	w.RequireExactlyOnce(run.ID(), 8, nil)
	w.requireNothingLeft()
}
