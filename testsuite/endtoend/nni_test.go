package endtoend

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/machine"
)

func TestARealNNIExperimentRunsUnmodified(t *testing.T) {
	t.Parallel()
	runDigits(t, machine.PythonWithNNI(t, "3.0"), "experiment.yml")
}

func TestARealNNIExperimentOfTheFirstSchemaRunsUnmodified(t *testing.T) {
	t.Parallel()
	runDigits(t, machine.PythonWithNNI(t, "3.0"), "experiment_v1.yml")
}

func TestARealExperimentRunsWithNNI210(t *testing.T) {
	t.Parallel()
	runDigits(t, machine.PythonWithNNI(t, "2.10"), "experiment.yml")
}

// runDigits runs the example in place, with python3 from an environment as if
// that were activated.
func runDigits(t *testing.T, interpreter, file string) {
	h := NewHome(t)
	example := h.With("PATH=" + filepath.Dir(interpreter) + ":" + os.Getenv("PATH"))
	run := example.Follow(filepath.Join(Root(), "examples", "digits", file))
	finished := run.Finished(4 * Patience)
	require.Equal(t, "DONE", finished.Status)
	require.Equal(t, 12, finished.Trials["SUCCEEDED"]+finished.Trials["EARLY_STOPPED"], "%+v", finished.Trials)
	require.Positive(t, finished.Trials["SUCCEEDED"])
	for id, exported := range h.Export(run.ID()) {
		var parameters map[string]any
		require.NoError(t, json.Unmarshal(exported.Parameter, &parameters))
		require.NotEmpty(t, parameters, id)
		require.Greater(t, len(exported.Intermediate), 1, id)
		require.Equal(t, exported.Value, exported.Intermediate[len(exported.Intermediate)-1])
	}
	require.NotNil(t, h.Show(run.ID()).Best)
	h.RequireNothingLeft()
}

// withoutNNI is a trial that imports nni in a Python that has none: -S leaves out
// whatever is installed.
const withoutNNI = `#!/bin/sh
exec python3 -S - <<'END'
import nni
parameters = nni.get_next_parameter()
print(nni.__version__, nni.get_experiment_id(), nni.get_trial_id(), nni.get_sequence_id())
for step in range(3):
    nni.report_intermediate_result(parameters['x'] * step)
nni.report_final_result({'default': parameters['x'], 'n': parameters['n']})
END
`

func TestAPythonTrialNeedsNoNNI(t *testing.T) {
	t.Parallel()
	if err := exec.Command("python3", "-c", "").Run(); err != nil {
		Skip(t, "there is no python3: %v", err)
	}
	h := NewHome(t)
	for _, more := range []string{"", "trialModule: builtin\n"} {
		run := h.Follow(h.Experiment(Plan{Trials: 4, Concurrency: 2, Script: withoutNNI, More: more}))
		require.Equal(t, 4, run.Finished(Patience).Trials["SUCCEEDED"])
		for id, exported := range h.Export(run.ID()) {
			var parameters map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(exported.Parameter, &parameters))
			require.Len(t, exported.Intermediate, 4)
			require.Contains(t, exported.Value, `{"default": `)
			require.Contains(t, h.Must("logs", run.ID(), id), "3.0+perennial "+run.ID()+" "+id)
		}
	}
	run := h.Follow(h.Experiment(Plan{Trials: 1, Concurrency: 1, Script: withoutNNI, More: "trialModule: off\n"}))
	require.Equal(t, 1, run.Finished(Patience).Trials["FAILED"])
	require.Contains(t, h.Must("logs", run.ID(), "0", "--stderr"), "No module named 'nni'")
	h.RequireNothingLeft()
}

func TestTheShellExampleRuns(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	finished := h.Follow(filepath.Join(Root(), "examples", "shell", "experiment.yml")).Finished(2 * Patience)
	require.Equal(t, 20, finished.Trials["SUCCEEDED"], "%+v", finished.Trials)
	h.RequireNothingLeft()
}
