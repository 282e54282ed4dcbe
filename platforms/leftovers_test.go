package platforms

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAHomeIsALabelAndKnownAgainOnAMachineOfAnotherName(t *testing.T) {
	require.Equal(t, "gpu-box.example.org.aogzexlj", Home("gpu-box.example.org", "aogzexlj"))
	require.Equal(t, "my-box.aogzexlj", Home("-my box.", "aogzexlj"))
	require.Equal(t, "aogzexlj", Home("…", "aogzexlj"))
	require.LessOrEqual(t, len(Home(strings.Repeat("long-", 50), "aogzexlj")), 63)
	require.True(t, SameHome(Home("a.b", "aogzexlj"), Home("", "aogzexlj")))
	require.False(t, SameHome(Home("a", "aogzexlj"), Home("a", "bogzexlj")))
	require.False(t, SameHome("", ""), "what has no mark belongs to nobody that is known")
}
