package runner_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// claimedElsewhere has the claim lie where platforms put it: out of the trial's
// reach.
func (a *attempt) claimedElsewhere() *attempt {
	a.Claim = filepath.Join(filepath.Dir(a.Directory), "claim")
	a.spec.Claim = a.Claim
	return a
}

func TestATrialThatRemovesItsDirectoryKeepsItsMetricsAndItsEnd(t *testing.T) {
	for name, command := range map[string]string{
		"the directory":   `rm -rf "$PERENNIAL_OUTPUT_DIR"`,
		"what lies in it": `rm -rf "$PERENNIAL_OUTPUT_DIR"/* "$PERENNIAL_OUTPUT_DIR"/.[a-z]*`,
	} {
		t.Run(name, func(t *testing.T) {
			a := newAttempt(t, `echo one; echo 'perennial: intermediate 1'; echo two >&2
until [ -e go1 ]; do sleep 0.01; done; `+command+`; echo 'perennial: intermediate 2'; until [ -e go2 ]; do sleep 0.01; done
cat "$PERENNIAL_PARAMETERS"; echo three; echo 'perennial: final 3'; exit 4`).claimedElsewhere()
			require.NoError(t, os.WriteFile(a.Path(trial.ParametersFile), []byte("{\"x\": 5.0}\n"), 0o644))
			a.begin()
			require.Eventually(t, func() bool { return len(a.records()) == 1 }, patience, time.Millisecond)
			records, cursor, err := metrics.ReadJournal(a.Path(rundir.JournalFile), 0)
			require.NoError(t, err)
			require.Len(t, records, 1)
			a.tell("go1")
			require.Eventually(t, func() bool {
				seen, err := a.Reconcile(a.spec.Key)
				require.NoError(t, err)
				require.True(t, seen.Held)
				_, err = os.Stat(a.Path(trial.ParametersFile))
				return seen.Process != nil && !seen.Process.Removed.IsZero() && err == nil
			}, patience, time.Millisecond)
			a.tell("go2")
			require.Equal(t, trial.Exit{Code: 4}, a.end().Exit)
			later, _, err := metrics.ReadJournal(a.Path(rundir.JournalFile), cursor)
			require.NoError(t, err)
			require.Len(t, later, 2, "a place in the journal stays what it was")
			require.Equal(t, []string{"PERIODICAL 0 1", "PERIODICAL 1 2", "FINAL 0 3"}, a.metrics())
			require.Equal(t, "one\nperennial: intermediate 1\nperennial: intermediate 2\n{\"x\": 5.0}\nthree\nperennial: final 3\n", a.file(rundir.Stdout))
			require.Equal(t, "two\n", a.file(rundir.Stderr))
			require.Contains(t, a.file(rundir.RunnerLog), "the directory was removed")
		})
	}
}

func TestADirectoryThatWasOnlyMovedIsNotMadeAnew(t *testing.T) {
	a := newAttempt(t, `echo 'perennial: intermediate 1'; until [ -e go ]; do sleep 0.01; done; echo 'perennial: intermediate 2'; until [ -e end ]; do sleep 0.01; done`).claimedElsewhere().begin()
	require.Eventually(t, func() bool { return len(a.records()) == 1 }, patience, time.Millisecond)
	require.NoError(t, os.Rename(a.Directory, a.Directory+".away"))
	a.tell("go")
	require.Eventually(t, func() bool {
		content, err := os.ReadFile(filepath.Join(a.Directory+".away", rundir.JournalFile))
		return err == nil && strings.Count(string(content), "PERIODICAL") == 2
	}, patience, time.Millisecond)
	require.NoDirExists(t, a.Directory)
	require.NoError(t, os.Rename(a.Directory+".away", a.Directory))
	a.tell("end")
	require.Zero(t, a.end().Exit.Code)
	require.Len(t, a.metrics(), 2)
}

func TestATrialThatClearsItsDirectoryAtItsEndKeepsItsMetrics(t *testing.T) {
	a := newAttempt(t, `echo 'perennial: final 3'; rm -rf "$PERENNIAL_OUTPUT_DIR"`).claimedElsewhere().begin()
	require.Zero(t, a.end().Exit.Code)
	require.Equal(t, []string{"FINAL 0 3"}, a.metrics())
}
