package kubernetes_test

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/testsuite/kube"
)

// reports is a trial that tells two numbers, with something between them.
func reports(between string) string {
	return `echo "perennial: intermediate 1"; ` + between + `; echo "perennial: final 2"`
}

func exited(r platforms.Report) bool { return r.Phase == platforms.Exited && !r.Pending }

// podOf waits until the pod of a run is as wanted, and returns its path.
func podOf(t *testing.T, cluster *kube.Cluster, namespace string, handle platforms.Handle, wanted func(kube.Object) bool) string {
	t.Helper()
	path := ""
	cluster.Await(t, "the pod of "+handle.Key.String(), func() bool {
		for _, pod := range cluster.Pods(t, namespace, "perennial.dev/run="+handle.Key.String()) {
			if path = "/api/v1/namespaces/" + namespace + "/pods/" + kube.Field(pod, "metadata", "name").(string); wanted(pod) {
				return true
			}
		}
		return false
	})
	return path
}

// stateOf is that of one of a pod's containers: waiting, running or terminated.
func stateOf(pod kube.Object, container, state string) bool {
	statuses, _ := kube.Field(pod, "status", "containerStatuses").([]any)
	for _, status := range statuses {
		if kube.Field(status, "name") == container {
			return kube.Field(status, "state", state) != nil
		}
	}
	return false
}

func runs(pod kube.Object) bool {
	return stateOf(pod, "trial", "running") && stateOf(pod, "perennial-journal", "running")
}

func remove(t *testing.T, cluster *kube.Cluster, path string) {
	_, err := cluster.API.Do(t.Context(), "DELETE", path+"?gracePeriodSeconds=0", nil)
	require.NoError(t, err)
}

// killIn ends the processes of a run's pod whose command line begins so.
func killIn(t *testing.T, handle platforms.Handle, commandLine string) {
	t.Helper()
	killed := 0
	processes, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	for _, process := range processes {
		arguments, _ := os.ReadFile(filepath.Join(process, "cmdline"))
		// The second container does not know whose run it is; its directory does.
		told, _ := os.ReadFile(filepath.Join(process, "root/perennial/run/attempt", rundir.JobFile))
		if strings.HasPrefix(string(arguments), strings.ReplaceAll(commandLine, " ", "\x00")) && strings.Contains(string(told), handle.Key.Experiment) {
			pid, _ := strconv.Atoi(filepath.Base(process))
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
			killed++
		}
	}
	require.Equal(t, 1, killed, "processes of %s", handle.Key)
}

func TestAPodThatIsDeletedTheMomentItEndedHasToldAll(t *testing.T) {
	cluster := kube.Up(t)
	t.Parallel()
	namespace := cluster.Namespace(t)
	p := open(t, cluster, namespace, nil)
	handle := submit(t, p, reports("sleep 1"))
	await(t, p, handle, func(r platforms.Report) bool { return r.Phase == platforms.Running })
	remove(t, cluster, podOf(t, cluster, namespace, handle, func(pod kube.Object) bool { return stateOf(pod, "trial", "terminated") }))
	report := await(t, p, handle, exited)
	require.Equal(t, 0, report.Exit.Code)
	require.Zero(t, report.Reason)
	require.Len(t, report.Journal.Records, 2)
}

func TestAPodThatIsDeletedWhileNobodyWatchesEndedAndWhatIsMissingIsSaid(t *testing.T) {
	cluster := kube.Up(t)
	t.Parallel()
	namespace := cluster.Namespace(t)
	p := open(t, cluster, namespace, nil)
	handle := submit(t, p, reports("sleep 1"))
	require.NoError(t, p.Close())
	job := "/apis/batch/v1/namespaces/" + namespace + "/jobs/perennial-" + handle.Key.String()
	cluster.Await(t, "the end", func() bool {
		object, err := cluster.API.Get(t.Context(), job)
		return err == nil && kube.Condition(object, "Complete")
	})
	remove(t, cluster, podOf(t, cluster, namespace, handle, func(kube.Object) bool { return true }))
	cluster.Await(t, "no pod", func() bool {
		return len(cluster.Pods(t, namespace, "perennial.dev/run="+handle.Key.String())) == 0
	})
	report := await(t, open(t, cluster, namespace, nil), handle, exited)
	require.Equal(t, 0, report.Exit.Code)
	require.Equal(t, "metrics-lost", report.Reason.Code)
}

func TestARunnerThatIsKilledIsNoFailureOfItsTrial(t *testing.T) {
	cluster := kube.Up(t)
	t.Parallel()
	namespace := cluster.Namespace(t)
	p := open(t, cluster, namespace, nil)
	handle := submit(t, p, reports("sleep 600"))
	await(t, p, handle, func(r platforms.Report) bool { return r.Journal != nil && len(r.Journal.Records) == 1 })
	killIn(t, handle, "/perennial/runner container")
	report := await(t, p, handle, func(r platforms.Report) bool { return r.Phase.Definite() })
	require.Equal(t, platforms.Lost, report.Phase, "%+v", report)
	require.Equal(t, "runner-died", report.Reason.Code)
}

func TestWhatIsReportedAfterTheJournalsContainerDiedCountsAllTheSame(t *testing.T) {
	cluster := kube.Up(t)
	t.Parallel()
	namespace := cluster.Namespace(t)
	p := open(t, cluster, namespace, nil)
	handle := submit(t, p, reports("sleep 5"))
	podOf(t, cluster, namespace, handle, runs)
	await(t, p, handle, func(r platforms.Report) bool { return r.Journal != nil && len(r.Journal.Records) == 1 })
	killIn(t, handle, "/perennial/runner journal")
	report := await(t, p, handle, exited)
	require.Equal(t, 0, report.Exit.Code)
	require.Zero(t, report.Reason)
	require.Len(t, report.Journal.Records, 2)
}

// Not in parallel with others: the kubelet answers nobody meanwhile.
func TestATrialOnANodeThatIsNotHeardOfSaysSoAndGoesOn(t *testing.T) {
	cluster := kube.Up(t)
	namespace := cluster.Namespace(t)
	p := open(t, cluster, namespace, nil)
	handle := submit(t, p, reports("sleep 600"))
	path := podOf(t, cluster, namespace, handle, func(pod kube.Object) bool { return runs(pod) && kube.Condition(pod, "Ready") })
	cluster.Freeze(t, kube.Kubelet)
	t.Cleanup(func() { cluster.Thaw(t, kube.Kubelet) })
	pod, err := cluster.API.Get(t.Context(), path)
	require.NoError(t, err)
	conditions := kube.Field(pod, "status", "conditions").([]any)
	for _, condition := range conditions { // as the controller of nodes does after most of a minute
		if kube.Field(condition, "type") == "Ready" {
			condition.(kube.Object)["status"], condition.(kube.Object)["lastTransitionTime"] = "False", "2026-01-02T03:04:05Z"
		}
	}
	require.NoError(t, cluster.API.Patch(t.Context(), path+"/status", kube.Object{"status": kube.Object{"conditions": conditions}}))
	report := await(t, p, handle, saying("node-silent", "node "+kube.NodeName+" has not been heard of since 2026-01-02 03:04:05 UTC"))
	require.Equal(t, platforms.Running, report.Phase)
	cluster.Thaw(t, kube.Kubelet)
	await(t, p, handle, func(r platforms.Report) bool { return r.Phase == platforms.Running && r.Reason.Zero() })
}

// Not in parallel with others: there is no kubelet meanwhile.
func TestALogThatCannotBeReadIsAskedForLessAndLessOften(t *testing.T) {
	cluster := kube.Up(t)
	proxy := cluster.Proxy(t, &kube.Proxy{})
	p := open(t, cluster, cluster.Namespace(t), map[string]any{"kubeconfig": proxy.Kubeconfig})
	handle := submit(t, p, reports("sleep 5"))
	await(t, p, handle, func(r platforms.Report) bool { return r.Journal != nil && len(r.Journal.Records) == 1 })
	before, begun := proxy.Calls()["get pods/log"], time.Now()
	cluster.Kill(t, kube.Kubelet)
	cluster.Await(t, "that the log was asked for five times", func() bool { return proxy.Calls()["get pods/log"] >= before+5 })
	took := time.Since(begun)
	cluster.Restart(t, kube.Kubelet)
	require.Greater(t, took, 3*time.Second)
	report := await(t, p, handle, exited)
	require.Equal(t, 0, report.Exit.Code)
	require.Len(t, report.Journal.Records, 2)
}

func TestAPodThatOthersDeleteIsLostAndWhatItsOperatorMakesInsteadDoesNotCount(t *testing.T) {
	for _, kind := range []string{"Job", "PyTorchJob", "Framework"} {
		t.Run(kind, func(t *testing.T) {
			cluster := kube.Up(t)
			t.Parallel()
			namespace := cluster.Namespace(t)
			p := open(t, cluster, namespace, map[string]any{"kind": kind})
			handle := submit(t, p, reports("sleep 600"))
			begun := await(t, p, handle, func(r platforms.Report) bool { return r.Journal != nil && len(r.Journal.Records) == 1 })
			require.NotNil(t, begun.Handle)
			handle = *begun.Handle
			remove(t, cluster, podOf(t, cluster, namespace, handle, func(kube.Object) bool { return true }))
			report := await(t, p, handle, func(r platforms.Report) bool { return r.Phase.Definite() })
			// Its runner may still have told that it was ended from outside.
			require.True(t, report.Phase == platforms.Lost || report.Exit.Outside, "%+v", report)
			require.NoError(t, p.Close())
			again := open(t, cluster, namespace, map[string]any{"kind": kind})
			report = await(t, again, handle, func(r platforms.Report) bool { return r.Phase.Definite() })
			require.True(t, report.Phase == platforms.Lost || report.Exit.Outside, "for whoever comes later: %+v", report)
		})
	}
}

func TestAnEndIsKnownBeforeTheClusterTellsIt(t *testing.T) {
	cluster := kube.Up(t)
	t.Parallel()
	proxy, gate := cluster.Proxy(t, &kube.Proxy{}), t.TempDir()
	p := open(t, cluster, cluster.Namespace(t), map[string]any{"kubeconfig": proxy.Kubeconfig,
		"volumes":      []any{map[string]any{"name": "gate", "hostPath": map[string]any{"path": gate}}},
		"volumeMounts": []any{map[string]any{"name": "gate", "mountPath": "/gate"}}})
	handle := submit(t, p, reports("until [ -e /gate/open ]; do sleep 0.1; done")+"; echo its last words; exit 3")
	await(t, p, handle, func(r platforms.Report) bool { return r.Journal != nil && len(r.Journal.Records) == 1 })
	proxy.Hold()
	require.NoError(t, os.WriteFile(filepath.Join(gate, "open"), nil, 0o644))
	report := await(t, p, handle, exited)
	require.Equal(t, 3, report.Exit.Code)
	require.Len(t, report.Journal.Records, 2)
	require.NoError(t, p.(platforms.WithForget).Forget(t.Context(), handle))
	log, err := p.(platforms.WithLogs).Logs(t.Context(), handle, platforms.Log{Stream: rundir.Stdout})
	require.NoError(t, err)
	defer log.Close()
	printed, err := io.ReadAll(log)
	require.NoError(t, err)
	require.Contains(t, string(printed), "its last words")
}
