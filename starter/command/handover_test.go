package command

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAWorkerOfAnOlderReleaseIsHandedNothing(t *testing.T) {
	require.ErrorContains(t, outdated(Host{Version: "v0.9.0"}, "v0.10.0"), "it is of version v0.9.0, older than this starter (v0.10.0)")
	for _, version := range []string{"v0.10.0", "v1.0.0", "devel"} {
		require.NoError(t, outdated(Host{Version: version}, "v0.10.0"), version)
	}
	require.NoError(t, outdated(Host{Version: "v0.9.0"}, "25d8dfd"))
}
