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

// leftovers are what of ours is in a namespace.
func leftovers(t *testing.T, cluster *kube.Cluster, namespace string) (names []string) {
	for _, collection := range []string{"/apis/batch/v1/namespaces/" + namespace + "/jobs", "/api/v1/namespaces/" + namespace + "/pods", "/api/v1/namespaces/" + namespace + "/configmaps", "/api/v1/namespaces/" + namespace + "/secrets", "/api/v1/namespaces/" + namespace + "/persistentvolumeclaims"} {
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
	cluster.Await(t, "nothing of ours on the cluster", func() bool { return len(leftovers(t, cluster, namespace)) == 0 })
}

// nnisFile is as NNI's examples for Kubeflow are, but for the image and the namespace.
const nnisFile = `experimentName: on kubeflow
trialConcurrency: 2
maxExecDuration: 1h
maxTrialNum: 3
trainingServicePlatform: kubeflow
searchSpacePath: %[1]s/search_space.json
useAnnotation: false
tuner:
  builtinTunerName: Random
trial:
  codeDir: %[1]s
  %[2]s:
    replicas: 1
    command: python3 digits.py && touch /tmp/mount/$NNI_TRIAL_JOB_ID
    gpuNum: 0
    cpuNum: 1
    memoryMB: 512
    image: %[4]s
kubeflowConfig:
  operator: %[3]s
  apiVersion: v1beta2
  storage: nfs
  namespace: %[5]s
  nfs:
    server: 10.10.10.10
    path: /var/nfs/%[5]s
`

func TestNNIsFilesForKubeflowRunAsTheyAre(t *testing.T) {
	cluster := kube.Up(t)
	image, digits := cluster.Python(t), filepath.Join(endtoend.Root(), "examples", "digits")
	for operator, role := range map[string]string{"tf-operator": "worker", "pytorch-operator": "master"} {
		t.Run(operator, func(t *testing.T) {
			namespace := cluster.Namespace(t)
			h := endtoend.NewHome(t).With("KUBECONFIG=" + cluster.Kubeconfig)
			run := h.Follow(h.Write("nni.yml", fmt.Sprintf(nnisFile, digits, role, operator, image, namespace)))
			finished := run.Finished(4 * endtoend.Patience)
			require.Equal(t, 3, finished.Trials["SUCCEEDED"], "%+v", finished.Trials)
			for id, exported := range h.Export(run.ID()) {
				require.Greater(t, len(exported.Intermediate), 1, id)
			}
			written, err := filepath.Glob(filepath.Join(cluster.Exports(), "var", "nfs", namespace, "*"))
			require.NoError(t, err)
			require.Len(t, written, 3, "the storage is used")
		})
	}
}

// nnisFramework is as NNI's examples for FrameworkController are.
const nnisFramework = `experimentName: on frameworkcontroller
trialConcurrency: 2
maxTrialNum: 3
trainingServicePlatform: frameworkcontroller
searchSpacePath: %[1]s/search_space.json
useAnnotation: false
tuner:
  builtinTunerName: Random
assessor:
  builtinAssessorName: Medianstop
  classArgs:
    optimize_mode: maximize
trial:
  codeDir: %[1]s
  taskRoles:
    - name: worker
      taskNum: 1
      command: python3 digits.py && touch /tmp/mount/$NNI_TRIAL_JOB_ID
      gpuNum: 0
      cpuNum: 1
      memoryMB: 512
      image: %[2]s
      frameworkAttemptCompletionPolicy:
        minFailedTaskCount: 1
        minSucceededTaskCount: 1
frameworkcontrollerConfig:
  storage: nfs
  namespace: %[3]s
  nfs:
    server: 10.10.10.10
    path: /var/nfs/%[3]s
`

func TestNNIsFilesForFrameworkControllerRunAsTheyAre(t *testing.T) {
	cluster := kube.Up(t)
	namespace := cluster.Namespace(t)
	h := endtoend.NewHome(t).With("KUBECONFIG=" + cluster.Kubeconfig)
	digits := filepath.Join(endtoend.Root(), "examples", "digits")
	run := h.Follow(h.Write("nni.yml", fmt.Sprintf(nnisFramework, digits, cluster.Python(t), namespace)))
	finished := run.Finished(4 * endtoend.Patience)
	require.Equal(t, 3, finished.Trials["SUCCEEDED"]+finished.Trials["EARLY_STOPPED"], "%+v", finished.Trials)
	require.NotNil(t, h.Show(run.ID()).Best)
	cluster.Await(t, "nothing of ours on the cluster", func() bool { return len(leftovers(t, cluster, namespace)) == 0 })
}
