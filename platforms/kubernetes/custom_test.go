package kubernetes_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/kubernetes"
	"github.com/perennial-ml/perennial/testsuite/kube"
)

// customJobSet is a JobSet as one would bring it who knows no more of it than where its
// pods are and how it ends: its pods' template is in a list and is only begun.
func customJobSet() map[string]any {
	return map[string]any{"kind": "custom", "custom": map[string]any{
		"manifest": map[string]any{
			"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": map[string]any{"labels": map[string]any{"team": "vision"}},
			"spec": map[string]any{"failurePolicy": map[string]any{"maxRestarts": 0}, "replicatedJobs": []any{map[string]any{
				"name": "all", "replicas": 1, "template": map[string]any{"spec": map[string]any{"backoffLimit": 0, "template": map[string]any{
					"spec": map[string]any{"containers": []any{map[string]any{"name": "main"}}}}}}}}},
		},
		"pods":      []any{map[string]any{"path": "spec.replicatedJobs[0].template.spec.template"}},
		"succeeded": `object.status.conditions.exists(c, c.type == "Completed" && c.status == "True")`,
		"failed":    `object.status.conditions.exists(c, c.type == "Failed" && c.status == "True")`,
	}}
}

// customPyTorchJob says how a PyTorchJob is suspended, and leaves the template to us.
func customPyTorchJob() map[string]any {
	return map[string]any{"kind": "custom", "custom": map[string]any{
		"manifest": map[string]any{"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": map[string]any{
			"runPolicy": map[string]any{"backoffLimit": 0, "cleanPodPolicy": "None"}, "pytorchReplicaSpecs": map[string]any{
				"Master": map[string]any{"replicas": 1, "restartPolicy": "Never"}}}},
		"pods":      []any{map[string]any{"path": "spec.pytorchReplicaSpecs.Master.template"}},
		"container": "pytorch",
		"succeeded": `object.status.conditions.exists(c, c.type == "Succeeded" && c.status == "True")`,
		"failed":    `object.status.conditions.exists(c, c.type == "Failed" && c.status == "True")`,
		"reason":    `object.status.conditions.filter(c, c.status == "True").map(c, c.message)[0]`,
		"suspend":   map[string]any{"runPolicy": map[string]any{"suspend": true}},
	}}
}

// with is a section of kind custom with something of it otherwise.
func with(section map[string]any, key string, value any) map[string]any {
	section["custom"].(map[string]any)[key] = value
	return section
}

func TestACustomKindThatCannotWorkIsRefusedByField(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		section     map[string]any
		field, says string
	}{
		{with(customJobSet(), "succeeded", `object.status.(`), "custom.succeeded", "Syntax error"},
		{with(customJobSet(), "failed", `thing.status`), "custom.failed", "undeclared reference to 'thing'"},
		{with(customJobSet(), "failed", ""), "custom.failed", "is missing"},
		{with(customJobSet(), "pods", []any{map[string]any{"path": "spec.replicatedJobs[3].template"}}), "custom.pods[0]", "the manifest has no place"},
		{with(customJobSet(), "pods", []any{map[string]any{"path": "status.template"}}), "custom.pods[0]", "no path below spec"},
		{with(customJobSet(), "pods", []any{map[string]any{"path": "spec.x.template", "replicas": 2}}), "custom.pods[0]", "custom.index"},
		{with(customJobSet(), "pods", []any{}), "custom.pods", "is missing"},
		{with(customJobSet(), "manifest", map[string]any{"kind": "JobSet"}), "custom.manifest", "has no apiVersion"},
		{map[string]any{"kind": "custom"}, "kind", "custom says what that is"},
		{map[string]any{"kind": "Job", "custom": customJobSet()["custom"]}, "kind", "custom says what that is"},
	} {
		c.section["image"] = "python"
		written, err := json.Marshal(c.section)
		require.NoError(t, err)
		var faults platforms.OptionFaults
		require.ErrorAs(t, kubernetes.New(kubernetes.Options{}).Check(written), &faults, c.says)
		require.Equal(t, c.field, faults[0].Field)
		require.Contains(t, faults[0].Message, c.says)
	}
}

func TestACustomKindThatTheClusterDoesNotHaveIsRefusedAndItsRightsAreNamed(t *testing.T) {
	cluster := kube.Up(t)
	t.Parallel()
	p := open(t, cluster, cluster.Namespace(t), customPyTorchJob())
	rights, err := p.(platforms.WithRights).Rights(t.Context())
	require.NoError(t, err)
	require.Contains(t, rights, "pytorchjobs")
	states, err := p.(platforms.WithHosts).Try(t.Context())
	require.NoError(t, err)
	require.Empty(t, states[0].Faults)
	require.Empty(t, states[0].Problems)
	strange := with(customPyTorchJob(), "manifest", map[string]any{"apiVersion": "kubeflow.org/v1", "kind": "NoJob", "spec": map[string]any{"replicas": map[string]any{}}})
	strange = with(strange, "pods", []any{map[string]any{"path": "spec.template"}})
	states, err = open(t, cluster, cluster.Namespace(t), strange).(platforms.WithHosts).Try(t.Context())
	require.NoError(t, err)
	require.Contains(t, states[0].Faults[0].Message, "this cluster has no NoJob (kubeflow.org/v1)")
}
