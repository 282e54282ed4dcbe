package runner_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// frozen waits until others see that the runner does not move.
func (a *attempt) frozen() {
	require.Eventually(a.t, func() bool {
		seen, err := a.Reconcile(a.spec.Key)
		require.NoError(a.t, err)
		return seen.Frozen
	}, patience, 10*time.Millisecond)
}

// over reconciles, as whoever polls does, until the run is over.
func (a *attempt) over() (seen rundir.Observation) {
	require.Eventually(a.t, func() bool {
		var err error
		seen, err = a.Reconcile(a.spec.Key)
		require.NoError(a.t, err)
		return seen.Over() && !seen.Ending()
	}, patience, 10*time.Millisecond)
	left, err := a.Processes(a.spec.Key)
	require.NoError(a.t, err)
	require.Empty(a.t, left)
	return seen
}

func TestAFrozenRunnerIsSeenAndEndsItsTrialWhenSomebodyWantsThat(t *testing.T) {
	a := newAttempt(t, `echo $$ > pid; kill -STOP $PPID; echo > ready; sleep 1000`).begin()
	a.waitFor("ready")
	a.frozen()
	held, err := a.Held()
	require.NoError(t, err)
	require.True(t, held, "frozen is not dead")
	a.cancel()
	seen := a.over()
	require.NotNil(t, seen.Exit)
	require.Equal(t, trial.Exit{Code: 143, Signal: "SIGTERM"}, seen.Exit.Exit)
	require.Equal(t, trial.CauseUser, seen.Exit.Intent.Cause)
	requireDead(t, a.waitFor("pid"))
}

func TestAFrozenRunnerDoesNotEvadeMaxTrialDuration(t *testing.T) {
	a := newAttempt(t, `kill -STOP $PPID; sleep 1000`)
	a.spec.MaxDuration = 300 * time.Millisecond
	seen := a.begin().over()
	require.NotNil(t, seen.Exit)
	require.Equal(t, trial.CauseMaxDuration, seen.Exit.Intent.Cause)
}

func TestARunnerThatIsFrozenAgainAndAgainHasAnHonestEnd(t *testing.T) {
	a := newAttempt(t, `trap '' TERM; echo > ready; while :; do kill -STOP $PPID; done`)
	a.spec.Grace = 100 * time.Millisecond
	a.begin()
	a.waitFor("ready")
	a.frozen()
	a.cancel()
	seen := a.over()
	require.NotNil(t, seen.Intent)
	require.Equal(t, trial.CauseUser, seen.Intent.Cause)
	if seen.Exit != nil {
		require.NotNil(t, seen.Exit.Intent, "its trial was killed on somebody's behalf")
	}
}
