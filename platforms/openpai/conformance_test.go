package openpai_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/openpai"
	"github.com/perennial-ml/perennial/testsuite/openpailab"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
)

var runner string

func TestMain(m *testing.M) {
	directory, err := os.MkdirTemp("", "openpai-test-")
	if err == nil {
		runner = filepath.Join(directory, "perennial-runner")
		build := exec.Command("go", "build", "-o", runner, "github.com/perennial-ml/perennial/runner/perennial-runner")
		build.Env, build.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
		err = build.Run()
	}
	code := 1
	if err == nil {
		code = m.Run()
	}
	os.RemoveAll(directory)
	os.Exit(code)
}

// options are a section for a cluster, with some keys as a test has them.
func options(t *testing.T, cluster *openpailab.Cluster, more map[string]any) json.RawMessage {
	section := map[string]any{
		"host": cluster.URL, "username": openpailab.User, "token": openpailab.Token,
		"trialCpuNumber": 1, "trialMemorySize": 512, "storageConfigName": openpailab.Storage, "dockerImage": "msranni/nni:latest",
		"localStorageMountPoint": cluster.Here, "containerStorageMountPoint": cluster.There, "reuseMode": false,
	}
	for name, value := range more {
		section[name] = value
	}
	content, err := json.Marshal(section)
	require.NoError(t, err)
	return content
}

func subject(t *testing.T, more map[string]any) platformtest.Subject {
	cluster, state := openpailab.New(t), t.TempDir()
	cluster.Unlimited() // the suite polls more often than anybody would
	section := options(t, cluster, more)
	return platformtest.Subject{
		Kind: func(*testing.T) platforms.Kind {
			return openpai.New(openpai.Options{StateDirectory: state, Runner: runner, Interval: 100 * time.Millisecond, Limitless: true})
		},
		Options: func() json.RawMessage { return section },
		Job:     platformtest.ShellJob,
	}
}

func TestConformanceWithAJobForEachTrial(t *testing.T) {
	platformtest.Run(t, func(t *testing.T) platformtest.Subject { return subject(t, nil) })
}

func TestConformanceWithEnvironmentsThatTakeTrialAfterTrial(t *testing.T) {
	platformtest.Run(t, func(t *testing.T) platformtest.Subject { return subject(t, map[string]any{"reuseMode": nil}) })
}

func TestConformanceWithAPassword(t *testing.T) {
	platformtest.Run(t, func(t *testing.T) platformtest.Subject {
		return subject(t, map[string]any{"token": "", "password": openpailab.Password})
	})
}
