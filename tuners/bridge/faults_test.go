package bridge

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
)

func TestAClassThatFailsIsAnErrorThatSaysHowAndIsRebuiltWithoutALoss(t *testing.T) {
	for _, release := range releases() {
		for fault, want := range map[string]string{
			"crash": "it exited with code 7", "oom": "it was killed by SIGKILL, as the kernel does when memory runs out",
			"memory": "MemoryError", "raises": "ValueError: no idea left", "garbage": "it proposed what is no JSON: this is no JSON",
			"hang": "it did not answer for 20s",
		} {
			if release != "3.0" && fault != "crash" && fault != "raises" {
				continue // what differs between releases is how they are spoken to
			}
			t.Run("nni "+release+" "+fault, func(t *testing.T) {
				t.Parallel()
				faults := filepath.Join(t.TempDir(), "faults")
				require.NoError(t, os.WriteFile(faults, nil, 0o644))
				e := begin(t, pythonWithNNI(t, release), class("Faulty", fmt.Sprintf(`{"faults": %q}`, faults)), nil)
				e.ask()
				e.end(0, trial.Succeeded, 1)
				require.NoError(t, os.WriteFile(faults, []byte(fault), 0o644))
				if fault == "hang" {
					e.process.(*dispatcher).spec.Patience = 20 * time.Second
				}
				_, err := e.process.Propose(1)
				require.ErrorContains(t, err, want)
				require.ErrorContains(t, err, "tuner users.Faulty: ")
				e.rebuild()
				require.Contains(t, e.ask(), `"results": 1`)
			})
		}
	}
}

func TestAFaultInAProcessOfTwoIsBlamedOnNeitherAlone(t *testing.T) {
	faults := filepath.Join(t.TempDir(), "faults")
	require.NoError(t, os.WriteFile(faults, []byte("crash"), 0o644))
	e := begin(t, pythonWithNNI(t, "3.0"), class("Faulty", fmt.Sprintf(`{"faults": %q}`, faults)), class("Threshold", ""))
	_, err := e.process.Propose(0)
	require.ErrorContains(t, err, "tuner users.Faulty and assessor users.Threshold: it exited with code 7")
	require.NoError(t, e.process.Close())
	e.spec.Assessor = class("Threshold", `{"bra": 1}`)
	_, err = Open(e.spec)
	require.ErrorContains(t, err, "tuner users.Faulty and assessor users.Threshold: ")
}

func TestAProcessThatDoesNotReadIsLateToo(t *testing.T) {
	e := begin(t, pythonWithNNI(t, "3.0"), class("Faulty", `{"faults": "/dev/null"}`), nil)
	e.ask()
	d := e.process.(*dispatcher)
	d.spec.Patience = time.Second
	require.NoError(t, syscall.Kill(d.child.command.Process.Pid, syscall.SIGSTOP))
	value := `"` + strings.Repeat("long ", 8<<20) + `"`
	require.ErrorContains(t, d.measure(0, metric{Type: "FINAL", Value: value}), "it did not answer for 1s")
	require.NoError(t, d.Close())
}

func TestAPythonThatCannotBeStartedIsAnErrorAndNothingElse(t *testing.T) {
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "python3"), []byte("no program"), 0o755))
	for range 50 { // whether its start has failed when it is ended is a race
		_, err := Open(Spec{Experiment: "abcdefgh", Tuner: &Algorithm{Name: "TPE"}, Home: Home{
			Environment: []string{"PATH=" + bin}, Log: t.TempDir(), Checkpoint: t.TempDir(),
		}})
		require.ErrorContains(t, err, "exec format error")
	}
}

func TestAnAnswerThatComesLateIsStillAnAnswer(t *testing.T) {
	faults := filepath.Join(t.TempDir(), "faults")
	require.NoError(t, os.WriteFile(faults, []byte("late"), 0o644))
	e := begin(t, pythonWithNNI(t, "3.0"), class("Faulty", fmt.Sprintf(`{"faults": %q}`, faults)), nil)
	require.Equal(t, tuners.Try, e.propose().Answer)
}
