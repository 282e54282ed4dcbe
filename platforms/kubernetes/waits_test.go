package kubernetes_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/testsuite/kube"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
)

func TestATrialThatAQuotaRefusesWaitsInTheQuotasWordsAndRunsOnceThereIsRoom(t *testing.T) {
	cluster := kube.Up(t)
	namespace := cluster.Namespace(t)
	quotas := "/api/v1/namespaces/" + namespace + "/resourcequotas"
	cluster.Create(t, quotas, kube.Object{"metadata": kube.Object{"name": "none"}, "spec": kube.Object{"hard": kube.Object{"pods": "0"}}})
	cluster.Await(t, "the quota", func() bool {
		quota, err := cluster.API.Get(t.Context(), quotas+"/none")
		return err == nil && kube.Field(quota, "status", "hard", "pods") == "0"
	})
	p := open(t, cluster, namespace, nil)
	handle := submit(t, p, "true")
	report := await(t, p, handle, saying("quota", "none, requested: pods=1, used: pods=0, limited: pods=0"))
	require.Equal(t, platforms.Waiting, report.Phase)
	require.NoError(t, cluster.API.Patch(t.Context(), quotas+"/none", kube.Object{"spec": kube.Object{"hard": kube.Object{"pods": "9"}}}))
	report = await(t, p, handle, func(r platforms.Report) bool { return r.Phase.Definite() })
	require.Equal(t, 0, report.Exit.Code)
}

func TestATrialThatWantsAGPUWhereThereIsNoneSaysSo(t *testing.T) {
	cluster := kube.Up(t)
	p := open(t, cluster, cluster.Namespace(t), nil)
	made, one := job(t, key(), platformtest.Behaviour{}), 1
	made.GPUs = &one
	handle, err := p.Submit(t.Context(), made)
	require.NoError(t, err)
	report := await(t, p, handle, saying("unschedulable", "Insufficient nvidia.com/gpu"))
	require.Equal(t, platforms.Waiting, report.Phase)
}

func TestATrialWhoseImageIsNotPulledInTimeHasFailed(t *testing.T) {
	cluster := kube.Up(t)
	namespace := cluster.Namespace(t)
	keys := map[string]any{"image": "laboratory.invalid/nowhere:1", "imagePullLimit": 1}
	p := open(t, cluster, namespace, keys)
	handle := submit(t, p, "true")
	report := await(t, p, handle, func(r platforms.Report) bool { return r.Phase.Definite() })
	require.Equal(t, platforms.Exited, report.Phase)
	require.Nil(t, report.Intent, "nobody wanted that")
	require.Contains(t, report.Exit.Text, "its image could not be pulled for 1s")
	again := await(t, open(t, cluster, namespace, keys), handle, func(r platforms.Report) bool { return r.Phase.Definite() })
	require.Equal(t, report.Exit, again.Exit, "whoever comes after a crash tells the same")
}

// kueuesWorkload is the kind in which Kueue keeps what it thinks of an object.
var kueuesWorkload = kube.Object{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": kube.Object{"name": "workloads.kueue.x-k8s.io",
	"annotations": kube.Object{"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/kueue"}},
	"spec": kube.Object{"group": "kueue.x-k8s.io", "scope": "Namespaced", "names": kube.Object{"kind": "Workload", "plural": "workloads"},
		"versions": []any{kube.Object{"name": "v1beta1", "served": true, "storage": true,
			"schema": kube.Object{"openAPIV3Schema": kube.Object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}}

// Kueue itself is not in the laboratory: the test says what Kueue 0.14 says, on a real
// API server.
func TestATrialThatKueueHoldsBackSaysInWhichQueueAndWhy(t *testing.T) {
	cluster := kube.Up(t)
	namespace := cluster.Namespace(t)
	require.NoError(t, cluster.API.Apply(t.Context(), "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workloads.kueue.x-k8s.io", kueuesWorkload))
	t.Cleanup(func() {
		_, err := cluster.API.Do(context.Background(), "DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workloads.kueue.x-k8s.io", nil)
		require.NoError(t, err)
	})
	p := open(t, cluster, namespace, map[string]any{"queue": "night", "nodeSelector": map[string]string{"nobody": "has"}})
	handle := submit(t, p, "true")
	path := "/apis/batch/v1/namespaces/" + namespace + "/jobs/perennial-" + handle.Key.String()
	made, err := cluster.API.Get(t.Context(), path)
	require.NoError(t, err)
	require.Equal(t, "night", kube.Field(made, "metadata", "labels", "kueue.x-k8s.io/queue-name"))
	workload := kube.Object{"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload",
		"metadata": kube.Object{"name": "job", "labels": kube.Object{"kueue.x-k8s.io/job-uid": kube.Field(made, "metadata", "uid")}},
		"status":   kube.Object{"conditions": []any{kube.Object{"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "insufficient unused quota for cpu in flavor default, 1 more needed"}}}}
	cluster.Await(t, "a workload", func() bool {
		return cluster.API.Apply(t.Context(), "/apis/kueue.x-k8s.io/v1beta1/namespaces/"+namespace+"/workloads/job", workload) == nil
	})
	require.NoError(t, cluster.API.Patch(t.Context(), path, kube.Object{"spec": kube.Object{"suspend": true}}))
	report := await(t, p, handle, saying("suspended", "in queue night: insufficient unused quota for cpu"))
	require.Equal(t, platforms.Waiting, report.Phase)
}
