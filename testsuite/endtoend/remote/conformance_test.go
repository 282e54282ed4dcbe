package remote

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/remote"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
	"github.com/perennial-ml/perennial/testsuite/sshlab"
	"github.com/perennial-ml/perennial/trial"
)

// standing is what a platform stands on, for a process that the suite starts.
type standing struct {
	State, Runner string
	Section       json.RawMessage
}

// standingVariable carries a standing.
const standingVariable = "REMOTE_TEST_STANDING"

func (s standing) subject() platformtest.Subject {
	return platformtest.Subject{
		Kind: func(*testing.T) platforms.Kind {
			return remote.New(remote.Options{
				StateDirectory: s.State, Runner: func(string, string) ([]byte, error) { return os.ReadFile(s.Runner) },
			})
		},
		Options: func() json.RawMessage { return s.Section },
	}
}

func (s standing) open(experiment string) platforms.Platform {
	subject := s.subject()
	return subject.Kind(nil).Open(platformtest.Section(remote.Name, experiment, subject.Options))
}

// submitElsewhere is what this program does when the suite starts it to be killed.
func submitElsewhere() {
	platformtest.Main(func() platformtest.Subject {
		var s standing
		if err := json.Unmarshal([]byte(os.Getenv(standingVariable)), &s); err != nil {
			panic(err)
		}
		return s.subject()
	})
}

// scratch is for the tests together; TestMain makes and removes it.
var scratch string

// runner builds the runner's binary, once.
var runner = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "perennial-runner")
	build := exec.Command("go", "build", "-o", path, "github.com/perennial-ml/perennial/runner/perennial-runner")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", errors.New(string(out))
	}
	return path, nil
})

// section names some hosts by their names in the controller's ssh config.
func section(t *testing.T, lab *sshlab.Lab, hosts ...*sshlab.Host) json.RawMessage {
	var machines []map[string]any
	for _, h := range hosts {
		machines = append(machines, map[string]any{"host": h.Name, "sshKeyFile": lab.KeyFile(sshlab.Key)})
	}
	content, err := json.Marshal(map[string]any{"machineList": machines, "sshConfigFile": filepath.Join(lab.Home, ".ssh", "config")})
	require.NoError(t, err)
	return content
}

// subject is one controller of some hosts.
func subject(t *testing.T, lab *sshlab.Lab, hosts ...*sshlab.Host) platformtest.Subject {
	program, err := runner()
	require.NoError(t, err)
	s := standing{State: t.TempDir(), Runner: program, Section: section(t, lab, hosts...)}
	content, err := json.Marshal(s)
	require.NoError(t, err)
	witness := func(job platforms.Job) string { return filepath.Join(lab.Evidence, job.Key.String()) }
	of := s.subject()
	return platformtest.Subject{
		Kind: of.Kind, Options: of.Options,
		Job: func(t *testing.T, key trial.Key, behaviour platformtest.Behaviour) platforms.Job {
			job := platformtest.ShellJob(t, key, behaviour)
			job.Workspace = prepared(t, s, key.Experiment)
			job.Command = behaviour.Command(witness(job))
			return job
		},
		Environment: []string{standingVariable + "=" + string(content)},
		Witness:     witness,
	}
}

func prepared(t *testing.T, s standing, experiment string) platforms.Workspace {
	code := filepath.Join(s.State, "code")
	require.NoError(t, os.MkdirAll(code, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(code, "file"), []byte("content"), 0o644))
	platform := s.open(experiment)
	defer platform.Close()
	workspace, err := platform.Prepare(t.Context(), platforms.Bundle{CodeDirectory: code})
	require.NoError(t, err)
	return workspace
}

// TestConformance has every test as a controller of its own of the same two hosts.
func TestConformance(t *testing.T) {
	t.Parallel()
	lab := sshlab.New(t, sshlab.Spec{}, sshlab.Spec{})
	platformtest.Run(t, func(t *testing.T) platformtest.Subject { return subject(t, lab, lab.Hosts...) })
}

// TestCrashPoints has a host for each test, since the host is what is armed. It is
// this very machine, so that the suite sees processes by their ids.
func TestCrashPoints(t *testing.T) {
	t.Parallel()
	platformtest.RunCrashes(t, func(t *testing.T) platformtest.Subject {
		lab := sshlab.One(t, sshlab.Spec{})
		s := subject(t, lab, lab.Hosts...)
		s.Arm = func(t *testing.T, point string) {
			if point == "" {
				lab.Hosts[0].SetEnv()
				return
			}
			lab.Hosts[0].SetEnv("PERENNIAL_CRASH_POINT=" + point)
		}
		s.Directory = func(report platforms.Report) string { return directoryOf(lab.Hosts[0], report.Key) }
		return s
	})
}

// directoryOf is the directory of an attempt on a host, "/" while there is none.
func directoryOf(h *sshlab.Host, key trial.Key) string {
	pattern := filepath.Join(h.Home(), ".perennial", "experiments", key.Experiment, "trials", key.TrialID(), "attempt-"+strconv.Itoa(key.Attempt))
	found, _ := filepath.Glob(pattern)
	if len(found) == 0 {
		return "/"
	}
	return found[0]
}
