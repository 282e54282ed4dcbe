package stories

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
)

// ofFour is a trial of four replicas: each says who it is, the third has the result.
const ofFour = `#!/bin/sh
echo "replica $JOB_COMPLETION_INDEX of $PERENNIAL_REPLICAS"
until [ -e "$LEDGER.go" ]; do sleep 0.1; done
[ "$JOB_COMPLETION_INDEX" = 2 ] && echo "perennial: final $(( PERENNIAL_SEQUENCE + 1 ))"
echo "replica $JOB_COMPLETION_INDEX ends"
`

func TestTrialsOfFourReplicasHaveOneResultAndTheirOutputsAreFollowedAndKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plan := endtoend.Plan{Trials: 2, Concurrency: 2, Script: ofFour}
	file := w.experiment(plan)
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(content), "  platform: kubernetes\n", "  platform: kubernetes\n  replicas: 4\n", 1)), 0o644))
	run := w.Follow(file)
	id := run.ID()
	w.AwaitRunning(id, 2)
	followed := make(chan endtoend.Result, 1)
	go func() { followed <- w.Run("logs", id, "0", "--follow") }()
	require.NoError(t, os.WriteFile(w.LedgerFile()+".go", nil, 0o644))
	require.Equal(t, "DONE", run.Finished(4*endtoend.Patience).Status)
	live, kept := (<-followed).Stdout, w.Must("logs", id, "0")
	for replica := range 4 {
		for _, line := range []string{"%[1]d | replica %[1]d of 4", "%[1]d | replica %[1]d ends"} {
			require.Contains(t, kept, fmt.Sprintf(line, replica))
			require.Contains(t, live, fmt.Sprintf(line, replica))
		}
	}
	for sequence := range 2 {
		row := w.Trial(id, sequence)
		require.Equal(t, "SUCCEEDED", row.State)
		require.Equal(t, 1, row.Attempts)
		require.Equal(t, fmt.Sprint(sequence+1), strings.Trim(string(w.Export(id)[row.ID].Value), `"`))
	}
	w.lab.Await(t, "nothing of ours on the cluster", func() bool { return len(leftovers(t, w.lab, w.namespace)) == 0 })
}
