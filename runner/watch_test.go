package runner

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/runner/rundir"
)

func TestAClaimIsTouchedAtLeastDailyAndNotAtEveryLook(t *testing.T) {
	for name, c := range map[string]struct {
		kept    time.Duration // ago
		touched bool
	}{"long ago": {24 * time.Hour, true}, "just now": {time.Minute, false}, "by a clock that was set back": {-time.Hour, true}} {
		run := rundir.Run{Directory: t.TempDir()}
		old := time.Now().Add(-48 * time.Hour)
		require.NoError(t, os.WriteFile(run.Path(rundir.ClaimFile), nil, 0o600))
		require.NoError(t, os.Chtimes(run.Path(rundir.ClaimFile), old, old))
		a := &attempt{run: run, kept: time.Now().Add(-c.kept)}
		a.keepClaim()
		info, err := os.Stat(run.Path(rundir.ClaimFile))
		require.NoError(t, err)
		require.Equal(t, c.touched, time.Since(info.ModTime()) < time.Hour, name)
	}
}
