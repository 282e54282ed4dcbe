package services

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/amllab"
	"github.com/perennial-ml/perennial/testsuite/endtoend"
)

func TestTrialsOnAzureMLOutliveTheirHostAndAreStoppedByTheAssessorAndByHand(t *testing.T) {
	t.Parallel()
	azure, err := amllab.Start()
	require.NoError(t, err)
	t.Cleanup(azure.Close)
	h := endtoend.NewHome(t)
	h.Env = azure.Environment()
	watched := h.Follow(h.Experiment(endtoend.Plan{Trials: 3, Concurrency: 1, Script: judged, Code: "judged", Platform: azure.Section(), More: medianstop})).ID()
	run := h.Follow(h.Experiment(endtoend.Plan{Trials: 2, Concurrency: 2, Steps: "10", Pause: "0.3", Code: "code", Platform: azure.Section()}))
	for sequence := range 2 {
		h.Await("another trial in the ledger", func() bool { return len(h.Ledger()) > sequence })
		h.KillAndAwait(endtoend.Host)
	}
	azure.Expire()
	require.Empty(t, commandsWith(t, amllab.ClientSecret))
	require.Equal(t, "DONE", run.Finished(3*endtoend.Patience).Status)
	h.RequireExactlyOnce(run.ID(), 2, nil)
	require.Contains(t, h.Must("trials", run.ID(), "--output", "json"), "https://ml.azure.com/runs/", "where a person can look")
	var environments []string
	for _, id := range []string{run.ID(), watched} {
		environments = append(environments, filepath.Join(h.Dir, "experiments", id, "environment"))
	}
	require.ElementsMatch(t, environments, filesWith(t, h.Dir, amllab.ClientSecret))
	require.Empty(t, filesWith(t, h.Dir, "Bearer"))

	h.AwaitState(watched, 1, "EARLY_STOPPED", 1)
	stopped := h.Trial(watched, 1)
	require.Contains(t, stopped.Reason.Text, "median")
	require.NotNil(t, stopped.Metric)
	require.Equal(t, 2.0, *stopped.Metric, "what it reported as it was ended counts")
	h.AwaitState(watched, 2, "RUNNING", 1)
	h.Must("stop", watched)
	h.AwaitFor(endtoend.Patience, "no job that runs or waits", func() bool { return azure.Living() == 0 })
}

// judged is a trial that the assessor stops if it is the second one; the third one stays.
const judged = `#!/bin/sh
value=100
[ "$PERENNIAL_SEQUENCE" = 1 ] && value=1
trap 'echo "perennial: intermediate 2"; exit 1' TERM
for step in 1 2 3 4; do echo "perennial: intermediate $value"; done
[ "$PERENNIAL_SEQUENCE" = 0 ] || { sleep 600 & wait; }
echo "perennial: final $value"
`

const medianstop = "includeIntermediateResults: true\nassessor:\n  name: Medianstop\n  classArgs:\n    optimize_mode: maximize\n    start_step: 2\n"
