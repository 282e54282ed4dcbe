package runs_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/runs"
	"github.com/perennial-ml/perennial/trial"
)

// over is a machine with a run that is over, in a directory of its own.
func over(t *testing.T) (machine *runs.Machine, index, experiments string) {
	index, experiments = filepath.Join(t.TempDir(), "runs"), filepath.Join(t.TempDir(), "experiments")
	machine = runs.New(runs.Options{Index: index, Experiments: experiments})
	require.NoError(t, machine.Cancel(t.Context(), runs.Ref{Key: key(1)}, trial.Intent{Cause: trial.CauseUser}))
	require.Equal(t, platforms.Exited, machine.Report(runs.Ref{Key: key(1)}).Phase)
	return machine, index, experiments
}

func TestARunWhoseDirectoryIsAwayCannotBeReachedAndIsFoundAgain(t *testing.T) {
	machine, _, experiments := over(t)
	refs, err := machine.List(key(1).Experiment)
	require.NoError(t, err)
	require.NoError(t, os.Rename(experiments, experiments+"-not-mounted"))
	for _, ref := range append(refs, runs.Ref{Key: key(1)}) {
		report := machine.Report(ref)
		require.Equal(t, platforms.Unreachable, report.Phase)
		require.Contains(t, report.Reason.Text, "is a file system not mounted?")
		require.ErrorContains(t, machine.Cancel(t.Context(), ref, trial.Intent{Cause: trial.CauseUser}), "not mounted")
	}
	_, err = machine.Submit(t.Context(), platforms.Job{Key: key(1)}, runs.Terms{})
	require.Equal(t, platforms.Transient, platforms.CodeOf(err))
	require.NoDirExists(t, experiments, "nothing may be made in its place")
	require.NoError(t, os.Rename(experiments+"-not-mounted", experiments))
	require.Equal(t, platforms.Exited, machine.Report(refs[0]).Phase)
}

// TestAnEntryOfAnOlderVersionDoesNotTellThatItsDirectoryWasMade has a submission
// that was interrupted between the two.
func TestAnEntryOfAnOlderVersionDoesNotTellThatItsDirectoryWasMade(t *testing.T) {
	machine, index, experiments := over(t)
	content, err := json.Marshal(map[string]any{"format": 1, "key": key(2), "directory": filepath.Join(experiments, "never-made")})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(index, key(2).Experiment, key(2).String()+".run"), content, 0o600))
	report := machine.Report(runs.Ref{Key: key(2)})
	require.Equal(t, platforms.Absent, report.Phase)
	require.Equal(t, "half-made", report.Reason.Code)
}
