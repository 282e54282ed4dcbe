package verbs

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

func TestTheEndInARunsDirectoryStandsBeforeWhatTheServiceSaw(t *testing.T) {
	t.Parallel()
	run := rundir.Run{Directory: t.TempDir(), Claim: filepath.Join(t.TempDir(), "claim")}
	l := &look{attempt: attempt{entry{Shared: true, Directory: run.Directory}, run, "", ""}, data: json.RawMessage("{}")}
	require.NoError(t, l.observe())
	require.NoError(t, run.WriteExit(rundir.ExitRecord{Format: rundir.Format, Exit: trial.Exit{Code: 3}, Ended: time.Now()}))
	require.NoError(t, l.hear(Report{Phase: Exited, Exit: &trial.Exit{Code: 137}}))
	require.Equal(t, 3, l.report.Exit.Code)
}
