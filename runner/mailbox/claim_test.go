package mailbox

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOfSeveralJobsOfOneEnvironmentTheFirstServesAlsoAfterARestart(t *testing.T) {
	t.Parallel()
	taker := Taker{Mailbox{t.TempDir()}, "environment-1"}
	for _, claim := range []struct {
		job  string
		mine bool
	}{{"first", true}, {"second", false}, {"first", true}} {
		mine, err := taker.Claim(claim.job)
		require.NoError(t, err)
		require.Equal(t, claim.mine, mine, claim.job)
	}
	require.NoError(t, os.MkdirAll(taker.path(over), 0o755))
	require.NoError(t, taker.Bury(Environment{Name: taker.Name}, nil))
	mine, err := taker.Claim("first")
	require.NoError(t, err)
	require.False(t, mine, "it is buried: others may have what it had")
}
