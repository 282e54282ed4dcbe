package fake_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/fake"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
	"github.com/perennial-ml/perennial/trial"
)

func TestConformance(t *testing.T) {
	platformtest.Run(t, func(t *testing.T) platformtest.Subject {
		state := t.TempDir()
		return platformtest.Subject{
			Open: func(*testing.T) platforms.Platform { return fake.New(fake.Options{StateDirectory: state}) },
			Job:  job,
		}
	})
}

func job(t *testing.T, key trial.Key, behaviour platformtest.Behaviour) platforms.Job {
	job := platformtest.ShellJob(t, key, behaviour)
	duration := 0.1
	if behaviour.Forever {
		duration = 3600
	}
	options := map[string]any{"duration": duration, "exitCode": behaviour.ExitCode}
	var intermediates []any
	for i, value := range behaviour.Intermediates {
		intermediates = append(intermediates, map[string]any{"at": 0.01 * float64(i), "value": value})
	}
	options["intermediates"] = intermediates
	if behaviour.Final != nil {
		options["final"] = *behaviour.Final
	}
	text, err := json.Marshal(options)
	require.NoError(t, err)
	job.Options = text
	return job
}
