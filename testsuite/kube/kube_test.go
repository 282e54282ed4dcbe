package kube_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/kube"
)

// prints is a template of a pod whose one container prints a word.
func prints(container, image, word string) kube.Object {
	return kube.Object{"spec": kube.Object{"restartPolicy": "Never", "containers": []any{
		kube.Object{"name": container, "image": image, "command": []any{"sh", "-c", "echo " + word}}}}}
}

func job(name string, template kube.Object) kube.Object {
	return kube.Object{"apiVersion": "batch/v1", "kind": "Job", "metadata": kube.Object{"name": name},
		"spec": kube.Object{"backoffLimit": 0, "template": template}}
}

func TestAJobRunsToItsEndAndItsLogIsRead(t *testing.T) {
	cluster := kube.Up(t)
	namespace := cluster.Namespace(t)
	jobs := "/apis/batch/v1/namespaces/" + namespace + "/jobs"
	cluster.Create(t, jobs, job("greets", prints("greets", kube.ShellImage, "hello")))
	awaitCondition(t, cluster, jobs+"/greets", "Complete")
	pods := cluster.Pods(t, namespace, "batch.kubernetes.io/job-name=greets")
	require.Len(t, pods, 1)
	require.Equal(t, "hello\n", cluster.Logs(t, namespace, kube.Field(pods[0], "metadata", "name").(string), "greets"))
}

func awaitCondition(t *testing.T, cluster *kube.Cluster, path, condition string) {
	t.Helper()
	var object kube.Object
	defer func() {
		if t.Failed() {
			status, _ := json.MarshalIndent(object["status"], "", " ")
			t.Logf("%s: %s", path, status)
		}
	}()
	cluster.Await(t, path+" "+condition, func() bool {
		read, err := cluster.API.Get(t.Context(), path)
		object = read
		return err == nil && kube.Condition(object, condition)
	})
}

func TestKubeflowsOperatorRunsAPyTorchJob(t *testing.T) {
	cluster := kube.Up(t)
	jobs := "/apis/kubeflow.org/v1/namespaces/" + cluster.Namespace(t) + "/pytorchjobs"
	cluster.Create(t, jobs, kube.Object{"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": kube.Object{"name": "trains"},
		"spec": kube.Object{"pytorchReplicaSpecs": kube.Object{"Master": kube.Object{"replicas": 1, "restartPolicy": "Never",
			"template": prints("pytorch", kube.ShellImage, "trained")}}}})
	awaitCondition(t, cluster, jobs+"/trains", "Succeeded")
}

func TestKubeflowsTrainerRunsATrainJob(t *testing.T) {
	cluster := kube.Up(t)
	group := "/apis/trainer.kubeflow.org/v1alpha1/namespaces/" + cluster.Namespace(t)
	template := prints("node", kube.ShellImage, "trained")
	node := kube.Object{"name": "node", "template": kube.Object{"metadata": kube.Object{"labels": kube.Object{"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
		"spec": kube.Object{"backoffLimit": 0, "template": template}}}
	cluster.Create(t, group+"/trainingruntimes", kube.Object{"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime", "metadata": kube.Object{"name": "plain"},
		"spec": kube.Object{"mlPolicy": kube.Object{"numNodes": 1}, "template": kube.Object{"spec": kube.Object{"replicatedJobs": []any{node}}}}})
	cluster.Create(t, group+"/trainjobs", kube.Object{"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": kube.Object{"name": "trains"},
		"spec": kube.Object{"runtimeRef": kube.Object{"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": "plain"}, "trainer": kube.Object{"numNodes": 2}}})
	awaitCondition(t, cluster, group+"/trainjobs/trains", "Complete")
}

func TestFrameworkControllerRunsAFramework(t *testing.T) {
	cluster := kube.Up(t)
	frameworks := "/apis/frameworkcontroller.microsoft.com/v1/namespaces/" + cluster.Namespace(t) + "/frameworks"
	role := kube.Object{"name": "worker", "taskNumber": 2, "frameworkAttemptCompletionPolicy": kube.Object{"minFailedTaskCount": 1, "minSucceededTaskCount": 2},
		"task": kube.Object{"retryPolicy": kube.Object{"maxRetryCount": 0}, "pod": prints("framework", kube.ShellImage, "worked")}}
	cluster.Create(t, frameworks, kube.Object{"apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework", "metadata": kube.Object{"name": "works"},
		"spec": kube.Object{"executionType": "Start", "retryPolicy": kube.Object{"maxRetryCount": 0}, "taskRoles": []any{role}}})
	cluster.Await(t, "framework", func() bool {
		framework, err := cluster.API.Get(t.Context(), frameworks+"/works")
		return err == nil && kube.Field(framework, "status", "state") == "Completed" &&
			kube.Field(framework, "status", "attemptStatus", "completionStatus", "type", "name") == "Succeeded"
	})
}

func TestTheMachinesPythonWithNNIRunsInAPod(t *testing.T) {
	cluster := kube.Up(t)
	namespace := cluster.Namespace(t)
	jobs := "/apis/batch/v1/namespaces/" + namespace + "/jobs"
	script := `python3 -c "import nni, sklearn.datasets; print(nni.__version__, len(sklearn.datasets.load_digits().data))"`
	template := prints("imports", cluster.Python(t), "; "+script)
	cluster.Create(t, jobs, job("imports", template))
	awaitCondition(t, cluster, jobs+"/imports", "Complete")
	pod := cluster.Pods(t, namespace, "batch.kubernetes.io/job-name=imports")[0]
	require.Contains(t, cluster.Logs(t, namespace, kube.Field(pod, "metadata", "name").(string), "imports"), "3.0 1797")
}

func TestPodsOutliveTheirAPIServerAndKubelet(t *testing.T) {
	cluster := kube.Up(t)
	jobs := "/apis/batch/v1/namespaces/" + cluster.Namespace(t) + "/jobs"
	cluster.Create(t, jobs, job("sleeps", prints("sleeps", kube.ShellImage, "begins; sleep 3")))
	cluster.Await(t, "a running pod", func() bool {
		object, err := cluster.API.Get(t.Context(), jobs+"/sleeps")
		return err == nil && kube.Field(object, "status", "ready") == 1.0
	})
	cluster.Kill(t, kube.Kubelet)
	cluster.Kill(t, kube.APIServer)
	_, err := cluster.API.Do(t.Context(), http.MethodGet, "/readyz", nil)
	require.Error(t, err)
	cluster.Restart(t, kube.APIServer)
	cluster.Restart(t, kube.Kubelet)
	awaitCondition(t, cluster, jobs+"/sleeps", "Complete")
}

func TestANodeThatWasTakenAwayComesBack(t *testing.T) {
	cluster := kube.Up(t)
	cluster.DeleteNode(t)
	cluster.ReturnNode(t)
	TestAJobRunsToItsEndAndItsLogIsRead(t)
}

func TestAClusterThatIsCutOffIsReachedAgain(t *testing.T) {
	cluster := kube.Up(t)
	cluster.Cut(t)
	defer cluster.Heal(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := cluster.API.Do(ctx, http.MethodGet, "/readyz", nil)
	require.Error(t, err)
	cluster.Heal(t)
	cluster.Await(t, "the API server", func() bool {
		_, err := cluster.API.Do(t.Context(), http.MethodGet, "/readyz", nil)
		return err == nil
	})
}
