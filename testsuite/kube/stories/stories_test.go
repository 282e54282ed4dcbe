// Package stories tells the stories of users whose trials run on a Kubernetes
// cluster, with the real program.
package stories

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/testsuite/kube"
)

// section is a training service on the laboratory's cluster.
func section(cluster *kube.Cluster, namespace, image, more string) string {
	return fmt.Sprintf("trainingService:\n  platform: kubernetes\n  kubeconfig: %s\n  namespace: %s\n  image: %s\n%s", cluster.Kubeconfig, namespace, image, more)
}

// leftovers are the runs of ours in a namespace.
func leftovers(t *testing.T, cluster *kube.Cluster, namespace string) (names []string) {
	for _, collection := range []string{"/apis/batch/v1/namespaces/" + namespace + "/jobs", "/api/v1/namespaces/" + namespace + "/pods"} {
		list, err := cluster.API.Get(t.Context(), collection+"?labelSelector=perennial.dev/experiment")
		require.NoError(t, err)
		items, _ := list["items"].([]any)
		for _, item := range items {
			names = append(names, kube.Field(item, "metadata", "name").(string))
		}
	}
	return names
}

func TestARealNNIExperimentRunsInPodsAndLeavesNothing(t *testing.T) {
	cluster := kube.Up(t)
	namespace, image := cluster.Namespace(t), cluster.Python(t)
	h := endtoend.NewHome(t)
	digits := filepath.Join(endtoend.Root(), "examples", "digits")
	run := h.Follow(h.Write("digits.yml", fmt.Sprintf(`experimentName: digits
searchSpaceFile: %[1]s/search_space.json
trialCommand: python3 digits.py
trialCodeDirectory: %[1]s
trialConcurrency: 2
maxTrialNumber: 4
tuner:
  name: Random
  classArgs: {seed: 7}
`, digits)+section(cluster, namespace, image, "")))
	finished := run.Finished(4 * endtoend.Patience)
	require.Equal(t, "DONE", finished.Status)
	require.Equal(t, 4, finished.Trials["SUCCEEDED"], "%+v", finished.Trials)
	for id, exported := range h.Export(run.ID()) {
		require.Greater(t, len(exported.Intermediate), 1, id)
		require.Equal(t, exported.Value, exported.Intermediate[len(exported.Intermediate)-1])
	}
	require.NotNil(t, h.Show(run.ID()).Best)
	cluster.Await(t, "no run of ours on the cluster", func() bool { return len(leftovers(t, cluster, namespace)) == 0 })
}
