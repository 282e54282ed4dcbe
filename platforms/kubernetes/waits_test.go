package kubernetes_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/testsuite/kube"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
	"github.com/perennial-ml/perennial/trial"
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

// queues makes a queue of Kueue's in a namespace, with room for one trial of half a processor.
func queues(t *testing.T, cluster *kube.Cluster, namespace, name string) {
	apply := func(path, kind string, spec kube.Object) {
		cluster.Await(t, kind, func() bool { // its webhooks may not be ready
			return cluster.API.Apply(t.Context(), "/apis/kueue.x-k8s.io/v1beta1"+path, kube.Object{"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": kind,
				"metadata": kube.Object{"name": filepath.Base(path)}, "spec": spec}) == nil
		})
	}
	quota := []any{kube.Object{"name": "cpu", "nominalQuota": "700m"}, kube.Object{"name": "memory", "nominalQuota": "1Gi"}}
	apply("/resourceflavors/"+namespace, "ResourceFlavor", kube.Object{})
	apply("/clusterqueues/"+namespace, "ClusterQueue", kube.Object{"namespaceSelector": kube.Object{}, "preemption": kube.Object{"withinClusterQueue": "LowerPriority"}, "resourceGroups": []any{kube.Object{
		"coveredResources": []any{"cpu", "memory"}, "flavors": []any{kube.Object{"name": namespace, "resources": quota}}}}})
	apply("/namespaces/"+namespace+"/localqueues/"+name, "LocalQueue", kube.Object{"clusterQueue": namespace})
}

func TestATrialThatKueueHoldsBackSaysInWhichQueueAndWhyAndRunsWhenItIsItsTurn(t *testing.T) {
	cluster := kube.Up(t)
	t.Parallel()
	cluster.Kueue(t)
	for _, kind := range []string{"Job", "PyTorchJob"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			namespace := cluster.Namespace(t)
			queues(t, cluster, namespace, "night")
			p := open(t, cluster, namespace, map[string]any{"kind": kind, "queue": "night", "cpu": "500m", "memory": "100Mi"})
			first := submit(t, p, `echo "perennial: intermediate 1"; sleep 600`)
			await(t, p, first, func(r platforms.Report) bool { return r.Phase == platforms.Running })
			second := submit(t, p, `echo "perennial: final 2"`)
			report := await(t, p, second, saying("suspended", "suspended in queue night by Kueue: couldn't assign flavors"))
			require.Equal(t, platforms.Waiting, report.Phase)
			require.NoError(t, p.Cancel(t.Context(), first, trial.Intent{Cause: trial.CauseUser}))
			await(t, p, first, exited)
			require.NoError(t, p.(platforms.WithForget).Forget(t.Context(), first))
			report = await(t, p, second, exited)
			require.Zero(t, report.Exit.Code)
			require.Len(t, report.Journal.Records, 1)
		})
	}
}

func TestATrialFromWhichKueueTakesItsRoomHasNotFailed(t *testing.T) {
	cluster := kube.Up(t)
	t.Parallel()
	cluster.Kueue(t)
	namespace := cluster.Namespace(t)
	queues(t, cluster, namespace, "night")
	p := open(t, cluster, namespace, map[string]any{"queue": "night", "cpu": "500m", "memory": "100Mi"})
	handle := submit(t, p, `echo "perennial: intermediate 1"; sleep 600`)
	await(t, p, handle, func(r platforms.Report) bool {
		return r.Phase == platforms.Running && r.Journal != nil && len(r.Journal.Records) == 1
	})
	require.NoError(t, cluster.API.Patch(t.Context(), "/apis/kueue.x-k8s.io/v1beta1/clusterqueues/"+namespace, kube.Object{"spec": kube.Object{"stopPolicy": "HoldAndDrain"}}))
	report := await(t, p, handle, func(r platforms.Report) bool { return r.Phase.Definite() && !r.Pending })
	require.True(t, report.Phase == platforms.Lost || report.Exit.Outside, "%+v", report)
}

// prioritised makes a priority class above that of all others.
func prioritised(t *testing.T, cluster *kube.Cluster, name string) {
	path := "/apis/scheduling.k8s.io/v1/priorityclasses/" + name
	require.NoError(t, cluster.API.Apply(t.Context(), path, kube.Object{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": kube.Object{"name": name}, "value": 1000}))
	t.Cleanup(func() { _, _ = cluster.API.Do(context.Background(), "DELETE", path, nil) })
}

func TestKueueLetsNothingBeginThatIsOverAndWhatItEvictsIsTriedAgain(t *testing.T) {
	cluster := kube.Up(t)
	t.Parallel()
	cluster.Kueue(t)
	namespace := cluster.Namespace(t)
	queues(t, cluster, namespace, "night")
	prioritised(t, cluster, namespace)
	cancelled := func(p platforms.Platform, handle platforms.Handle) platforms.Report {
		require.NoError(t, p.Cancel(t.Context(), handle, trial.Intent{Cause: trial.CauseUser}))
		return await(t, p, handle, exited)
	}
	keys := map[string]any{"queue": "night", "cpu": "500m", "memory": "100Mi"}
	p := open(t, cluster, namespace, keys)
	first := submit(t, p, "sleep 600")
	await(t, p, first, func(r platforms.Report) bool { return r.Phase == platforms.Running })
	second, third := submit(t, p, "true"), submit(t, p, "true")
	await(t, p, third, saying("suspended", "in queue night by Kueue: "))
	require.Equal(t, trial.CauseUser, cancelled(p, third).Intent.Cause)

	keys["priorityClass"] = namespace
	urgent := open(t, cluster, namespace, keys)
	preemptor := submit(t, urgent, "sleep 600")
	report := await(t, p, first, func(r platforms.Report) bool { return r.Phase.Definite() && !r.Pending })
	require.True(t, report.Phase == platforms.Lost || report.Exit.Outside, "%+v", report)
	await(t, urgent, preemptor, func(r platforms.Report) bool { return r.Phase == platforms.Running })
	next := first.Key
	next.Attempt++
	made := job(t, next, platformtest.Behaviour{})
	made.Command = "true"
	again, err := p.Submit(t.Context(), made)
	require.NoError(t, err)
	await(t, p, again, saying("suspended", "in queue night by Kueue: "))

	cancelled(urgent, preemptor)
	for _, handle := range []platforms.Handle{second, again} {
		require.Zero(t, await(t, p, handle, exited).Exit.Code, handle.Key)
	}
	last := submit(t, p, "true") // of a lower rank than whatever came before it
	require.Zero(t, await(t, p, last, exited).Exit.Code)
	for _, handle := range []platforms.Handle{first, third} {
		left, err := cluster.API.Get(t.Context(), "/apis/batch/v1/namespaces/"+namespace+"/jobs/perennial-"+handle.Key.String())
		require.NoError(t, err)
		require.Equal(t, true, kube.Field(left, "spec", "suspend"), handle.Key)
		require.NotEqual(t, "night", kube.Field(left, "metadata", "labels", "kueue.x-k8s.io/queue-name"))
	}
}
