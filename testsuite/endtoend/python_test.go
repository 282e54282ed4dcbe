package endtoend

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/machine"
)

// ofPython is the home of a user whose Python has nni, and perennial as pip installed it.
func ofPython(t *testing.T) (*Home, string) {
	interpreter := machine.PythonWithNNI(t, "3.0")
	h := NewHome(t)
	source := filepath.Join(h.Work, "source")
	require.NoError(t, os.CopyFS(source, os.DirFS(filepath.Join(Root(), "python"))))
	installed := filepath.Join(h.Work, "installed")
	said, err := exec.CommandContext(t.Context(), interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
		"--no-build-isolation", "--no-deps", "--target", installed, source).CombinedOutput()
	require.NoError(t, err, "%s", said)
	return h.With("PATH=" + filepath.Dir(interpreter) + ":" + os.Getenv("PATH")).With("PYTHONPATH=" + installed).
		With("PERENNIAL_STARTER=" + Program(t)), interpreter
}

// script starts a Python script of the user's.
func (h *Home) script(interpreter string, args ...string) *Following {
	return h.start(exec.Command(interpreter, args...), filepath.Base(args[0]))
}

func TestAPythonScriptWrittenForNNIRunsWithOneImportChanged(t *testing.T) {
	t.Parallel()
	h, interpreter := ofPython(t)
	for _, name := range []string{"surface.py", "model.py"} {
		content, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		h.Write(name, string(content))
	}
	run := h.script(interpreter, filepath.Join(h.Work, "surface.py"))
	require.Zero(t, run.Wait(3*Patience), "%s\n%s", run.said(), run.Said())
	h.RequireNothingLeft()
}

// answeredBy is the home of a user whose host is something that only answers.
func answeredBy(t *testing.T, answers http.HandlerFunc) *Home {
	host := httptest.NewServer(answers)
	t.Cleanup(host.Close)
	h := NewHome(t)
	require.NoError(t, os.MkdirAll(h.Dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(h.Dir, "token"), []byte("t\n"), 0o600))
	starter := h.Write("starter", "#!/bin/sh\necho "+host.URL+"/?t=once\n")
	require.NoError(t, os.Chmod(starter, 0o700))
	return h.With("PERENNIAL_STARTER=" + starter).With("PYTHONPATH=" + filepath.Join(Root(), "python")).With("PYTHONDONTWRITEBYTECODE=1")
}

func TestAnAnswerThatAHostsDeathCutsOffIsAskedForAgain(t *testing.T) {
	t.Parallel()
	asked := 0
	h := answeredBy(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 1 {
			w.Header().Set("Content-Length", "1000")
			w.Write([]byte(`{"half": `))
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		w.Write([]byte(`{"whole": 1}`))
	})
	run := h.script("python3", "-c", "from perennial.program import Host; print(Host().ask('GET', '/'))")
	require.Zero(t, run.Wait(Patience), run.said())
	require.Equal(t, "{'whole': 1}\n", run.Said())
}

func TestWhoHasAPortForNNIsClientsIsNotAskedThereWithTheToken(t *testing.T) {
	t.Parallel()
	h := answeredBy(t, func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"id": "survives"}`)) })
	served := filepath.Join(h.Dir, "experiments", "survives")
	require.NoError(t, os.MkdirAll(served, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(served, "nni-port.json"), []byte(`{"experiment": "survives", "port": 1}`), 0o600))
	run := h.script("python3", "-c", "from perennial import Experiment; print(Experiment.connect(1).id); Experiment.connect(2)")
	require.NotZero(t, run.Wait(Patience))
	require.Equal(t, "survives\n", run.Said(), "nobody listens there")
	require.Contains(t, run.said(), "has port 2; an id or a name finds every one")
}

// again is a script with an id of its own, which may be run again whatever befell it.
const again = `
from perennial import Experiment, ExperimentConfig
experiment = Experiment(ExperimentConfig.load('experiment.yml'), id='survives')
assert experiment.run() is True
assert len(experiment.export_data()) == 4
print(experiment.id)
`

// ofNNI is a script that knows of NNI only.
const ofNNI = `
import nni
from nni.experiment import Experiment
from nni.experiment.config import LocalConfig
experiment = nni.experiment.Experiment(None, id='survives')
assert isinstance(experiment, Experiment) and LocalConfig(trialGpuNumber=0).trial_gpu_number == 0
assert experiment.resume() is True
print(experiment.id)
`

func TestAPythonScriptThatWasKilledFindsItsExperimentAgain(t *testing.T) {
	t.Parallel()
	h, interpreter := ofPython(t)
	h.Experiment(long(4, 2))
	file := h.Write("again.py", again)
	first := h.script(interpreter, file)
	id := "survives"
	h.Await("the experiment", func() bool { return h.Run("show", id).Code == 0 })
	h.AwaitRunning(id, 2)
	first.Signal(syscall.SIGKILL)
	first.Wait(Patience)
	h.KillAndAwait(Host)
	second := h.script(interpreter, file)
	require.Zero(t, second.Wait(3*Patience), second.said())
	require.Equal(t, id+"\n", second.Said())
	unchanged := h.Write("unchanged.py", ofNNI)
	for _, without := range []string{"", "-S"} { // -S leaves out whatever is installed, such as nni
		third := h.start(exec.Command(interpreter, strings.Fields(without+" -m perennial "+unchanged)...), "unchanged")
		require.Zero(t, third.Wait(Patience), "what is done is read: %s", third.said())
		require.Equal(t, id+"\n", third.Said())
	}
	h.RequireExactlyOnce(id, 4, nil)
	h.RequireNothingLeft()
}
