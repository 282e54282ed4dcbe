package remote

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/testsuite/sshlab"
)

func TestARemovalWaitsForAHostThatCannotBeReachedAndLeavesNothingThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sshlab.Spec{}, sshlab.Spec{})
	run := w.follow(short(4, 4))
	id := run.ID()
	require.Equal(t, "DONE", run.Finished(endtoend.Patience).Status)
	away := w.lab.Hosts[0]
	require.NotEmpty(t, attemptsOn(t, away))
	away.Cut()
	w.Must("rm", id, "--yes", "--detach")
	w.Await("the reason why it is still there", func() bool { return w.Show(id).Reason.Text != "" })
	require.Equal(t, "REMOVING", w.Show(id).Status)
	away.Heal()
	w.Must("rm", id, "--yes")
	for _, h := range w.lab.Hosts {
		require.Empty(t, attemptsOn(t, h), h.Name)
	}
	w.requireNothingLeft()
}
