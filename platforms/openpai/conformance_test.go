package openpai_test

import (
	"os"
	"testing"
	"time"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/openpai"
	"github.com/perennial-ml/perennial/testsuite/openpailab"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
)

var runner string

func TestMain(m *testing.M) { os.Exit(platformtest.RunWithRunner(m, &runner)) }

// keys are a section for a cluster, with some as a test has them.
func keys(cluster *openpailab.Cluster, more map[string]any) map[string]any {
	return platformtest.Keys(map[string]any{
		"host": cluster.URL, "username": openpailab.User, "token": openpailab.Token,
		"trialCpuNumber": 1, "trialMemorySize": 512, "storageConfigName": openpailab.Storage, "dockerImage": "msranni/nni:latest",
		"localStorageMountPoint": cluster.Here, "containerStorageMountPoint": cluster.There, "reuseMode": false,
	}, more)
}

// conform runs the suite, which polls more often than anybody would.
func conform(t *testing.T, more map[string]any) {
	limitless := func(state string) platforms.Kind {
		return openpai.New(openpai.Options{StateDirectory: state, Runner: runner, Interval: 100 * time.Millisecond, Limitless: true})
	}
	platformtest.RunSection(t, limitless, func(t *testing.T) map[string]any {
		cluster := openpailab.New(t)
		cluster.Unlimited()
		return keys(cluster, more)
	})
}

func TestConformanceWithAJobForEachTrial(t *testing.T) { conform(t, nil) }

func TestConformanceWithEnvironmentsThatTakeTrialAfterTrial(t *testing.T) {
	conform(t, map[string]any{"reuseMode": nil})
}

func TestConformanceWithAPassword(t *testing.T) {
	conform(t, map[string]any{"token": "", "password": openpailab.Password})
}
