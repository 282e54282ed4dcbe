package command

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDashboardPrintsALinkToAllExperimentsOrToOne(t *testing.T) {
	s := newStage(t).accepted(anID)
	require.Equal(t, ExitDone, s.run("dashboard"), s.err)
	require.Equal(t, "http://127.0.0.1:40003/?token=once\n", s.out.String())
	require.Equal(t, ExitDone, s.run("dashboard", s.id[:4]), s.err)
	require.Equal(t, "http://127.0.0.1:40003/e/"+s.id+"?token=once\n", s.out.String())
	require.Equal(t, ExitBadInput, s.run("dashboard", "nobody"))
}
