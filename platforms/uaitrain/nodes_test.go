package uaitrain_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
	"github.com/perennial-ml/perennial/trial"
)

// together is a trial whose every process says that it is there; the first one waits for
// all of them, reports how many there are and ends, the others would go on for ever.
func together(witness string, processes int) string {
	return fmt.Sprintf(`
echo "perennial: intermediate 0.5"
echo "$TF_CONFIG$DMLC_ROLE" >>'%[1]s'
case "$PERENNIAL_OUTPUT_DIR" in */nodes/*) exec sleep 3600;; esac
while [ $(wc -l <'%[1]s') -lt %[2]d ]; do sleep 0.1; done
echo "perennial: final $(wc -l <'%[1]s')"`, witness, processes)
}

func TestSeveralNodesTrainTogetherAndTheFirstOneCounts(t *testing.T) {
	t.Parallel()
	for framework, processes := range map[string]int{"tensorflow": 8, "mxnet": 9} { // of 4 nodes
		t.Run(framework, func(t *testing.T) {
			t.Parallel()
			o := open(t, map[string]any{"nodeCount": 4, "framework": framework})
			witness := filepath.Join(t.TempDir(), "witness")
			handle := o.Start(1, together(witness, processes))
			report := o.Await(handle, platformtest.Succeeded)
			require.Equal(t, []string{"PERIODICAL 0.5", fmt.Sprintf("FINAL %d", processes)}, o.Reported(handle))
			require.Eventually(t, func() bool { return o.States()["Done"] == 1 }, time.Minute, 50*time.Millisecond, "the others end with the first one")
			content, err := os.ReadFile(witness)
			require.NoError(t, err)
			require.Equal(t, processes, strings.Count(string(content), "\n"), "each process ran it once")
			nodes, err := os.ReadDir(filepath.Join(report.Output, "nodes"))
			require.NoError(t, err)
			require.Len(t, nodes, processes-1)
			for _, node := range nodes {
				require.Contains(t, o.Read(handle, platforms.Log{Stream: "stdout", Replica: node.Name()}), "perennial: intermediate 0.5")
			}
			_, err = o.Platform.(platforms.WithLogs).Logs(t.Context(), handle, platforms.Log{Stream: "stdout", Replica: "ps-9"})
			require.ErrorContains(t, err, nodes[0].Name())
		})
	}
}

func TestACancelEndsAllNodes(t *testing.T) {
	t.Parallel()
	o := open(t, map[string]any{"nodeCount": 2, "framework": "tensorflow"})
	witness := filepath.Join(t.TempDir(), "witness")
	handle := o.Start(1, together(witness, 99))
	require.Eventually(t, func() bool {
		content, _ := os.ReadFile(witness) // not there yet
		return strings.Count(string(content), "\n") == 4
	}, time.Minute, 50*time.Millisecond)
	require.NoError(t, o.Cancel(t.Context(), handle, trial.Intent{Cause: trial.CauseEarlyStop}))
	report := o.Await(handle, platformtest.Over)
	require.Equal(t, platforms.Exited, report.Phase)
	require.Equal(t, trial.CauseEarlyStop, report.Intent.Cause)
	require.Eventually(t, func() bool { return o.States()["Doing"] == 0 }, time.Minute, 50*time.Millisecond)
}
