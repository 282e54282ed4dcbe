package stories

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/testsuite/kube"
)

// told is an experiment of two trials that any shell can run.
const told = `searchSpace: {x: {_type: choice, _value: [1, 2]}}
trialCommand: 'echo "perennial: final 0.5"'
trialConcurrency: 2
maxTrialNumber: 2
tuner: {name: Random}
`

func TestAStrangerIsToldWhatIsMissingAndRunsWithExactlyTheRightsThatDoctorPrints(t *testing.T) {
	cluster := kube.Up(t)
	h := endtoend.NewHome(t)
	nowhere := h.Write("nowhere.yml", told+section(cluster, "nowhere", kube.ShellImage, ""))
	for _, command := range []string{"validate", "run"} {
		refused := h.Run(command, nowhere)
		require.Equal(t, 2, refused.Code, refused.Stderr)
		require.Contains(t, refused.Stderr, nowhere+":9:14: trainingService.namespace: the cluster has no namespace \"nowhere\"")
	}
	for what, more := range map[string]string{"Jobs": "",
		"Jobs whose code is on a volume": "  volumes: [{name: work, hostPath: {path: " + t.TempDir() + "}}]\n  code: {volume: work}\n"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			runsWithTheRightsThatDoctorPrints(t, cluster, more)
		})
	}
}

func runsWithTheRightsThatDoctorPrints(t *testing.T, cluster *kube.Cluster, more string) {
	h, namespace := endtoend.NewHome(t), cluster.Namespace(t)
	account := cluster.Account(t, namespace, "perennial")
	file := h.Write("experiment.yml", told+strings.Replace(section(cluster, namespace, kube.ShellImage, more), cluster.Kubeconfig, account, 1))
	refused := h.Run("run", file)
	require.Equal(t, 2, refused.Code, refused.Stderr)
	require.Contains(t, refused.Stderr, "you may not create jobs in namespace "+namespace)
	applyRights(t, cluster, namespace, h.Must("doctor", file, "--rbac"))
	h.Await("the rights", func() bool { return h.Run("validate", file).Code == 0 })
	finished := h.Follow(file).Finished(4 * endtoend.Patience)
	require.Equal(t, 2, finished.Trials["SUCCEEDED"], "%+v", finished.Trials)
	cluster.Await(t, "nothing of ours on the cluster", func() bool { return len(leftovers(t, cluster, namespace)) == 0 })
}

// applyRights applies what doctor printed, but for the account, which there is.
func applyRights(t *testing.T, cluster *kube.Cluster, namespace, manifest string) {
	t.Helper()
	for _, document := range strings.Split(manifest, "---\n") {
		var object kube.Object
		require.NoError(t, yaml.Unmarshal([]byte(document), &object))
		if kind := object["kind"].(string); kind != "ServiceAccount" {
			cluster.Create(t, fmt.Sprintf("/apis/rbac.authorization.k8s.io/v1/namespaces/%s/%ss", namespace, strings.ToLower(kind)), object)
		}
	}
}
