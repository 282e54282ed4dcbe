package kube

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/trial"
)

func TestAContainerThatWasKilledBeforeItsRunnersFirstWordIsNoFailureOfItsTrial(t *testing.T) {
	ended := func(code int, reason string) platforms.Report {
		report := platforms.Report{Key: trial.Key{Experiment: "abcdefgh"}}
		sight{pod: &podState{trial: containerState{terminated: true, code: code, reason: reason}}}.ended(&report)
		return report
	}
	for _, reason := range []string{"Error", "ContainerStatusUnknown"} {
		report := ended(137, reason)
		require.Equal(t, platforms.Lost, report.Phase, reason)
		require.Equal(t, "runner-died", report.Reason.Code)
	}
	require.Equal(t, platforms.Exited, ended(137, outOfMemory).Phase, "it needs more memory, and would another time")
	require.Equal(t, platforms.Exited, ended(126, "Error").Phase, "its code could not be unpacked")
}
