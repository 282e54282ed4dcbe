package kubernetes_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/kubernetes"
	"github.com/perennial-ml/perennial/testsuite/kube"
)

func TestAPatchOfThePodChangesWhatItNamesAndNothingElse(t *testing.T) {
	cluster := kube.Up(t)
	namespace := cluster.Namespace(t)
	patch := kube.Object{"metadata": kube.Object{"annotations": kube.Object{"example.com/team": "vision"}},
		"spec": kube.Object{"containers": []any{kube.Object{"name": "trial", "env": []any{kube.Object{"name": "PATCHED", "value": "7"}}}}}}
	p := open(t, cluster, namespace, map[string]any{"podPatch": patch})
	handle := submit(t, p, `echo "perennial: final $PATCHED"`)
	report := await(t, p, handle, func(r platforms.Report) bool { return r.Phase == platforms.Exited && !r.Pending })
	require.Len(t, report.Journal.Records, 1)
	require.JSONEq(t, "7", string(report.Journal.Records[0].Value))
	pods := cluster.Pods(t, namespace, "perennial.dev/run="+handle.Key.String())
	require.Len(t, pods, 1)
	require.Equal(t, "vision", kube.Field(pods[0], "metadata", "annotations", "example.com/team"))

	misspelt := kube.Object{"spec": kube.Object{"runtimeClas": "nvidia"}}
	faults := try(t, open(t, cluster, namespace, map[string]any{"podPatch": misspelt})).Faults
	require.Len(t, faults, 1)
	require.Contains(t, faults[0].Message, `unknown field "spec.template.spec.runtimeClas"`)
}

func TestAPatchThatIsNoneOfAPodIsRefusedWithItsKey(t *testing.T) {
	check := kubernetes.New(kubernetes.Options{}).Check
	for _, patch := range []kube.Object{{"containers": []any{}}, {"spec": kube.Object{"containers": "trial"}}} {
		section, err := json.Marshal(kube.Object{"image": "a:1", "podPatch": patch})
		require.NoError(t, err)
		require.ErrorContains(t, check(section), "podPatch: ")
	}
}
