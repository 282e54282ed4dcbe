package executable_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/executable"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
	"github.com/perennial-ml/perennial/testsuite/slurmlab"
	"github.com/perennial-ml/perennial/trial"
)

var runner string

func TestMain(m *testing.M) {
	directory, err := os.MkdirTemp("", "executable-test-")
	if err == nil {
		runner = filepath.Join(directory, "perennial-runner")
		err = buildRunner()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(directory)
	os.Exit(code)
}

func buildRunner() error {
	build := exec.Command("go", "build", "-o", runner, "github.com/perennial-ml/perennial/runner/perennial-runner")
	build.Env, build.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	return build.Run()
}

// subject is one of the examples, with options of its own.
func subject(t *testing.T, example string, options any, environment ...string) platformtest.Subject {
	path, err := filepath.Abs(filepath.Join("../../examples/platforms", example))
	require.NoError(t, err)
	section, err := json.Marshal(map[string]any{"executable": path, "options": options})
	require.NoError(t, err)
	state := t.TempDir()
	require.NoError(t, executable.New(executable.Options{Environment: append(os.Environ(), environment...)}).Check(section))
	return platformtest.Subject{
		Kind: func(*testing.T) platforms.Kind {
			return executable.New(executable.Options{StateDirectory: state, Runner: runner, Environment: append(os.Environ(), environment...)})
		},
		Options: func() json.RawMessage { return section },
		Job: func(t *testing.T, key trial.Key, behaviour platformtest.Behaviour) platforms.Job {
			return platformtest.ShellJob(t, key, behaviour)
		},
	}
}

func TestConformanceOfThePageOfShell(t *testing.T) {
	platformtest.Run(t, func(t *testing.T) platformtest.Subject {
		return subject(t, "here/here.sh", map[string]string{"directory": t.TempDir()})
	})
}

func TestConformanceOfThePageOfPython(t *testing.T) {
	platformtest.Run(t, func(t *testing.T) platformtest.Subject {
		return subject(t, "own-ways/own_ways.py", map[string]string{})
	})
}

func TestConformanceOnARealSlurm(t *testing.T) {
	cluster := slurmlab.New(t)
	platformtest.Run(t, func(t *testing.T) platformtest.Subject {
		directory, err := os.MkdirTemp(cluster.Home, "")
		require.NoError(t, err)
		return subject(t, "slurm/slurm.py", map[string]any{"directory": directory, "poll": 0.2}, cluster.Environment()...)
	})
}

func TestThePageOfPythonFinishesARunWhoseSubmitBrokeOff(t *testing.T) {
	s := subject(t, "own-ways/own_ways.py", map[string]string{})
	platform := s.Kind(t).Open(platforms.Section{Platform: executable.Name, Experiment: "abcdefgh", Resolve: func(context.Context) (json.RawMessage, error) {
		return s.Options(), nil
	}})
	job := platforms.Job{Key: trial.Key{Experiment: "abcdefgh", Sequence: 1, Attempt: 1}, Command: "true", Parameter: []byte("{}")}
	job.Workspace.Directory = filepath.Join(t.TempDir(), "missing")
	_, err := platform.Submit(t.Context(), job)
	require.Error(t, err, "its code cannot be copied")
	job.Workspace.Directory = t.TempDir()
	handle, err := platform.Submit(t.Context(), job)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		reports, err := platform.Poll(t.Context(), platforms.Ask(handle))
		return err == nil && reports[0].Phase == platforms.Exited && reports[0].Exit.Code == 0
	}, time.Minute, 100*time.Millisecond)
}
