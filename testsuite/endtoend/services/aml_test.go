package services

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/amllab"
	"github.com/perennial-ml/perennial/testsuite/endtoend"
)

func onAML(azure *amllab.Service) string {
	return fmt.Sprintf(`  platform: aml
  subscriptionId: %s
  resourceGroup: %s
  workspaceName: %s
  computeTarget: %s
  dockerImage: msranni/nni:latest
  endpoint: %s
`, amllab.Subscription, amllab.Group, amllab.Workspace, amllab.Compute, azure.URL)
}

func TestTrialsOnAzureMLOutliveTheirHostAndAreStopped(t *testing.T) {
	t.Parallel()
	azure, err := amllab.Start()
	require.NoError(t, err)
	t.Cleanup(azure.Close)
	h := endtoend.NewHome(t)
	h.Env = azure.Environment()
	run := h.Follow(h.Experiment(endtoend.Plan{Trials: 2, Concurrency: 2, Steps: "10", Pause: "0.3", Code: "code", Platform: onAML(azure)}))
	for sequence := range 2 {
		h.Await("another trial in the ledger", func() bool { return len(h.Ledger()) > sequence })
		h.KillAndAwait(endtoend.Host)
	}
	azure.Expire()
	require.Empty(t, commandsWith(t, amllab.ClientSecret))
	require.Equal(t, "DONE", run.Finished(3*endtoend.Patience).Status)
	h.RequireExactlyOnce(run.ID(), 2, nil)
	require.Equal(t, 2, azure.Calls("submit"))
	require.Contains(t, h.Must("trials", run.ID(), "--output", "json"), "https://ml.azure.com/runs/", "where a person can look")
	require.Equal(t, []string{filepath.Join(h.Dir, "experiments", run.ID(), "environment")}, filesWith(t, h.Dir, amllab.ClientSecret))
	require.Empty(t, filesWith(t, h.Dir, "Bearer"))

	run = h.Follow(h.Experiment(endtoend.Plan{Trials: 1, Concurrency: 1, Steps: "4000", Pause: "0.3", Code: "code", Platform: onAML(azure)}))
	h.AwaitState(run.ID(), 0, "RUNNING", 1)
	h.Must("stop", run.ID())
	h.AwaitFor(endtoend.Patience, "no job that runs or waits", func() bool { return azure.Living() == 0 })
}
