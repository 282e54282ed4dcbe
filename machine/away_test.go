package machine_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/machine"
	"github.com/perennial-ml/perennial/trial"
)

// over is a machine with a run that is over, in a directory of its own.
func over(t *testing.T) (here *machine.Machine, index, experiments string) {
	index, experiments = filepath.Join(t.TempDir(), "runs"), filepath.Join(t.TempDir(), "experiments")
	here = machine.New(machine.Options{Index: index, Experiments: experiments})
	require.NoError(t, here.Cancel(t.Context(), machine.Ref{Key: key(1)}, trial.Intent{Cause: trial.CauseUser}))
	require.Equal(t, machine.Exited, here.Report(machine.Ref{Key: key(1)}).Phase)
	return here, index, experiments
}

func TestARunWhoseDirectoryIsAwayCannotBeReachedAndIsFoundAgain(t *testing.T) {
	here, _, experiments := over(t)
	refs, err := here.List(key(1).Experiment)
	require.NoError(t, err)
	require.NoError(t, os.Rename(experiments, experiments+"-not-mounted"))
	for _, ref := range append(refs, machine.Ref{Key: key(1)}) {
		report := here.Report(ref)
		require.Equal(t, machine.Unreachable, report.Phase)
		require.Contains(t, report.Reason.Text, "is a file system not mounted?")
		require.ErrorContains(t, here.Cancel(t.Context(), ref, trial.Intent{Cause: trial.CauseUser}), "not mounted")
	}
	_, err = here.Submit(t.Context(), machine.Job{Key: key(1)}, machine.Terms{})
	require.Equal(t, machine.Transient, machine.CodeOf(err))
	require.NoDirExists(t, experiments, "nothing may be made in its place")
	require.NoError(t, os.Rename(experiments+"-not-mounted", experiments))
	require.Equal(t, machine.Exited, here.Report(refs[0]).Phase)
}

// TestAnEntryOfAnOlderVersionDoesNotTellThatItsDirectoryWasMade has a submission
// that was interrupted between the two.
func TestAnEntryOfAnOlderVersionDoesNotTellThatItsDirectoryWasMade(t *testing.T) {
	here, index, experiments := over(t)
	content, err := json.Marshal(map[string]any{"format": 1, "key": key(2), "directory": filepath.Join(experiments, "never-made")})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(index, key(2).Experiment, key(2).String()+".run"), content, 0o600))
	report := here.Report(machine.Ref{Key: key(2)})
	require.Equal(t, machine.Absent, report.Phase)
	require.Equal(t, "half-made", report.Reason.Code)
}

func TestARunWhoseDirectoryIsAwayIsNotTakenForRemoved(t *testing.T) {
	here, index, experiments := over(t)
	require.NoError(t, os.Rename(experiments, experiments+"-not-mounted"))
	require.ErrorContains(t, here.Remove(key(1).Experiment), "is a file system not mounted?")
	require.NoError(t, os.Rename(experiments+"-not-mounted", experiments))
	for range 2 {
		require.NoError(t, here.Remove(key(1).Experiment))
	}
	require.NoDirExists(t, filepath.Join(experiments, key(1).Experiment))
	require.NoDirExists(t, filepath.Join(index, key(1).Experiment))
}
