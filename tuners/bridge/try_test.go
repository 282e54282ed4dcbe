package bridge

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tried tries an algorithm, and returns what broke down.
func tried(t *testing.T, spec Spec) *Breakdown {
	t.Helper()
	spec.Experiment, spec.Space = "abcdefgh", json.RawMessage(`{"x": {"_type": "uniform", "_value": [0, 1]}}`)
	spec.Home.Environment = append(os.Environ(), spec.Home.Environment...)
	err := Try(t.Context(), spec)
	if err == nil {
		return nil
	}
	var broken *Breakdown
	require.ErrorAs(t, err, &broken)
	require.Empty(t, broken.Log, "which is gone")
	return broken
}

func program(t *testing.T, text string) *Algorithm {
	t.Helper()
	directory := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(directory, "program.py"), []byte(text), 0o644))
	return &Algorithm{Command: "python3 program.py", CodeDirectory: directory}
}

func TestAProgramIsTriedAsAnExperimentWouldRunIt(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	broken := tried(t, Spec{Tuner: program(t, "def begin():\n    import no_such_module\n\nbegin()\n")})
	require.Equal(t, "it exited with code 1: ModuleNotFoundError: No module named 'no_such_module'", broken.Message)
	require.Equal(t, beginning, broken.Traceback[0])
	require.Contains(t, strings.Join(broken.Traceback, "\n"), "line 2, in begin\n    import no_such_module")

	broken = tried(t, Spec{Tuner: program(t, "import json, sys\nfor line in sys.stdin:\n    if json.loads(line)['op'] == 'suggest': {}['key']\n")})
	require.Equal(t, "it exited with code 1: KeyError: 'key'", broken.Message)
	broken = tried(t, Spec{Assessor: program(t, "import sys\nsys.exit('no licence')\n")})
	require.Equal(t, "it exited with code 1: no licence", broken.Message)

	answering := "import json, sys\nfor line in sys.stdin:\n    if json.loads(line)['op'] == 'suggest': print('{\"trial\": 0, \"parameters\": {}}', flush=True)\n"
	require.Nil(t, tried(t, Spec{Tuner: program(t, answering)}))
	require.Nil(t, tried(t, Spec{Assessor: program(t, answering)}))

	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestOfALongTracebackTheEndIsKept(t *testing.T) {
	broken := tried(t, Spec{Tuner: program(t, "def deeper(n):\n    if n: return deeper(n - 1)\n    raise ValueError('x' * 9000)\n\ndeeper(50)\n")})
	require.Len(t, broken.Traceback, tracebackLines)
	require.Less(t, len(strings.Join(broken.Traceback, "\n")), 3000)
	require.Less(t, len(broken.Message), 400)
}

func TestAClassIsMadeWithItsArgumentsAndAskedOnceWhenItIsTried(t *testing.T) {
	directory := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(directory, "mine.py"), []byte(`from nni.tuner import Tuner

class Mine(Tuner):
    def __init__(self, fails=None):
        self.fails = fails
        self.check("init")

    def check(self, place):
        if self.fails == place:
            raise KeyError(place)

    def update_search_space(self, search_space):
        self.check("space")

    def generate_parameters(self, parameter_id, **kwargs):
        self.check("generate")
        return {"x": 1}

    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        pass
`), 0o644))
	everyRelease(t, func(t *testing.T, python string) {
		for _, place := range []string{"init", "space", "generate", ""} {
			spec := Spec{Tuner: &Algorithm{ClassName: "mine.Mine", CodeDirectory: directory, Arguments: json.RawMessage(`{"fails": "` + place + `"}`)}}
			spec.Home.Environment = []string{"PATH=" + filepath.Dir(python) + ":" + os.Getenv("PATH")}
			broken := tried(t, spec)
			if place == "" {
				require.Nil(t, broken)
				continue
			}
			require.Contains(t, broken.Message, "KeyError: '"+place+"'")
			text := strings.Join(broken.Traceback, "\n")
			require.Contains(t, text, filepath.Join(directory, "mine.py")+`", line 10, in check`, place)
			require.Contains(t, text, "raise KeyError(place)")
		}
	})
}
