package runner_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/testsuite/machine"
	"github.com/perennial-ml/perennial/trial"
)

// newPythonTrial is an attempt whose command imports nni.
func newPythonTrial(t *testing.T, mode trial.Module) *attempt {
	if err := exec.Command("python3", "-c", "").Run(); err != nil {
		machine.Lacks(t, "there is no python3: %v", err)
	}
	a := newAttempt(t, "python3 train.py")
	a.spec.TrialModule = mode
	files := map[string]string{
		filepath.Join(a.spec.Directories.Code, "train.py"): `
import nni
parameters = nni.get_next_parameter()
print(nni.get_trial_id(), nni.get_sequence_id(), parameters)
nni.report_intermediate_result({'default': parameters['x'] / 2})
nni.report_final_result(parameters['x'])
`,
		a.Path(trial.ParameterFile): `{"parameter_id": 7, "parameter_source": "algorithm", "parameters": {"x": 5.0}, "parameter_index": 0}`,
	}
	for path, content := range files {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return a
}

func (a *attempt) requireReported() {
	require.Zero(a.t, a.end().Exit.Code, "%s", a.file(rundir.Stderr))
	require.Equal(a.t, []string{`PERIODICAL 0 {"default": 2.5}`, "FINAL 0 5.0"}, a.metrics())
	require.Contains(a.t, a.file(rundir.Stdout), a.spec.Key.TrialID())
}

func TestAPythonTrialImportsOursOnEveryPlatform(t *testing.T) {
	for _, platform := range []string{"local", "remote"} {
		a := newPythonTrial(t, trial.ModuleBuiltin)
		a.spec.NNIPlatform = platform
		a.begin().requireReported()
	}
}

func TestAnNNIOfTheUsersIsImportedInstead(t *testing.T) {
	theirs := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(theirs, "nni.py"), []byte(`
def get_next_parameter(): return {'x': 1}
get_trial_id = get_sequence_id = lambda: 'theirs'
report_intermediate_result = report_final_result = print`), 0o600))
	for _, mode := range []trial.Module{"", trial.ModuleAuto, trial.ModuleOff} {
		a := newPythonTrial(t, mode)
		a.begin("PYTHONPATH=" + theirs)
		require.Zero(t, a.end().Exit.Code, "%s", a.file(rundir.Stderr))
		require.Contains(t, a.file(rundir.Stdout), "theirs theirs")
	}
	a := newPythonTrial(t, trial.ModuleBuiltin)
	a.begin("PYTHONPATH=" + theirs).requireReported()
}

func TestWithTheModuleOffNothingIsPutIntoTheEnvironment(t *testing.T) {
	a := newAttempt(t, `echo "${PYTHONPATH-unset} ${PERENNIAL_TRIAL_MODULE-unset}"`)
	a.spec.TrialModule = trial.ModuleOff
	a.begin("PYTHONPATH=/a:/b").end()
	require.Equal(t, "/a:/b unset\n", a.file(rundir.Stdout))
	b := newAttempt(t, a.spec.Command)
	b.begin("PYTHONPATH=/a:/b").end()
	require.Regexp(t, `^/a:/b:/.*/trialmodule-[0-9a-f]{16} auto\n$`, b.file(rundir.Stdout))
}

// runnerWithoutPlace has the test's runners start from a directory that
// PYTHONPATH cannot name, and returns it.
func runnerWithoutPlace(t *testing.T) string {
	directory := filepath.Join(t.TempDir(), "with:colon")
	require.NoError(t, os.Mkdir(directory, 0o700))
	content, err := os.ReadFile(binary)
	require.NoError(t, err)
	moved := filepath.Join(directory, "perennial-runner")
	require.NoError(t, os.WriteFile(moved, content, 0o700))
	t.Cleanup(func(before string) func() { return func() { binary = before } }(binary))
	binary = moved
	return directory
}

func TestWhereTheRunnersPlaceCannotTakeTheModuleTheRunDoes(t *testing.T) {
	runnerWithoutPlace(t)
	a := newPythonTrial(t, trial.ModuleBuiltin).begin()
	a.requireReported()
	found, err := filepath.Glob(a.Path("trialmodule-*"))
	require.NoError(t, err)
	require.Len(t, found, 1)
}

func TestATrialRunsWhereTheModuleFindsNoPlace(t *testing.T) {
	base := runnerWithoutPlace(t)
	a := newAttempt(t, `echo "${PYTHONPATH-unset}"`)
	a.Directory = filepath.Join(base, "run")
	a.spec.Directories.System, a.spec.Directories.Output = a.Directory, a.Directory
	require.NoError(t, os.Mkdir(a.Directory, 0o700))
	a.begin("PYTHONPATH=/a").end()
	require.Equal(t, "/a\n", a.file(rundir.Stdout))
	require.Contains(t, a.file(rundir.RunnerLog), "goes without our nni")
}
