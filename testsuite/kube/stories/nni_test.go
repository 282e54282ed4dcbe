package stories

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/adl"
	"github.com/perennial-ml/perennial/platforms/kubeflow"
	"github.com/perennial-ml/perennial/runner/binary"
	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/testsuite/kube"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
	"github.com/perennial-ml/perennial/trial"
)

// nnisTrial reports by NNI, and leaves a mark in a directory.
const nnisTrial = `import nni, os, pathlib, sys
x = nni.get_next_parameter()["x"]
nni.report_intermediate_result(x / 2)
nni.report_final_result(x)
pathlib.Path(sys.argv[1], os.environ["NNI_TRIAL_JOB_ID"]).touch()
`

// nnisHome is a user with NNI's kind of files, and the way to the cluster that NNI
// took.
func nnisHome(t *testing.T, cluster *kube.Cluster) *endtoend.Home {
	h := endtoend.NewHome(t).With("KUBECONFIG=" + cluster.Kubeconfig)
	h.Write("search_space.json", `{"x": {"_type": "uniform", "_value": [0.1, 1]}}`)
	h.Write("trial.py", nnisTrial)
	return h
}

// runsAll runs a file of NNI's to its end, whose trials report in so many pods.
func runsAll(t *testing.T, h *endtoend.Home, file string, trials, pods int) {
	run := h.Follow(h.Write("nni.yml", file))
	finished := run.Finished(4 * endtoend.Patience)
	require.Equal(t, trials, finished.Trials["SUCCEEDED"], "%+v", finished.Trials)
	for id, exported := range h.Export(run.ID()) {
		require.Len(t, exported.Intermediate, pods+1, "what each pod reported, and the final: %s", id)
		require.NotEmpty(t, exported.Value, id)
	}
}

// volume gives a namespace a claim that is bound to a directory of the node, and
// returns that directory.
func volume(t *testing.T, cluster *kube.Cluster, namespace, name string) string {
	directory := filepath.Join(cluster.Exports(), namespace)
	require.NoError(t, os.MkdirAll(directory, 0o755))
	persistentVolume(t, cluster, namespace, namespace, directory)
	cluster.Create(t, "/api/v1/namespaces/"+namespace+"/persistentvolumeclaims", kube.Object{"apiVersion": "v1", "kind": "PersistentVolumeClaim",
		"metadata": kube.Object{"name": name}, "spec": kube.Object{"storageClassName": namespace, "accessModes": []any{"ReadWriteMany"},
			"resources": kube.Object{"requests": kube.Object{"storage": "1Gi"}}}})
	return directory
}

// persistentVolume is one that a claim of a storage class gets.
func persistentVolume(t *testing.T, cluster *kube.Cluster, class, name, directory string) {
	cluster.Create(t, "/api/v1/persistentvolumes", kube.Object{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": kube.Object{"name": name},
		"spec": kube.Object{"storageClassName": class, "capacity": kube.Object{"storage": "1Gi"}, "accessModes": []any{"ReadWriteMany"},
			"persistentVolumeReclaimPolicy": "Retain", "hostPath": kube.Object{"path": directory}}})
}

func requireMarks(t *testing.T, directory string, count int) {
	marks, err := filepath.Glob(filepath.Join(directory, "*"))
	require.NoError(t, err)
	require.Len(t, marks, count, "the storage is used")
}

func TestTheExamplesOfNNIsFilesAreValid(t *testing.T) {
	h := endtoend.NewHome(t)
	nobody := h.Write("kubeconfig", string(kube.Kubeconfig("https://127.0.0.1:1", "none", nil))) // which is a warning
	h = h.With("KUBECONFIG=" + nobody)
	for _, name := range []string{"nni-kubeflow.yml", "nni-frameworkcontroller.yml", "nni-adl.yml"} {
		result := h.Run("validate", filepath.Join(endtoend.Root(), "examples", "kubernetes", name))
		require.Zero(t, result.Code, "%s: %s", name, result.Stderr)
		require.NotContains(t, result.Stderr, "means nothing", name)
		require.NotContains(t, result.Stderr, "there is no script", name)
	}
}

// All kinds are on the laboratory's cluster, which looks at what trials would be.
func TestTheClusterTakesTheExampleOfEveryKind(t *testing.T) {
	t.Parallel()
	h := endtoend.NewHome(t).With("KUBECONFIG=" + kube.Up(t).Kubeconfig)
	examples := filepath.Join(endtoend.Root(), "examples", "kubernetes")
	for _, name := range []string{"job", "jobset", "trainjob", "pytorchjob", "tfjob", "mpijob", "xgboostjob", "paddlejob", "jaxjob"} {
		result := h.Run("validate", filepath.Join(examples, name+".yml"))
		require.Zero(t, result.Code, "%s: %s", name, result.Stderr)
		require.NotContains(t, strings.ToLower(result.Stderr), "warning", name)
	}
}

// kubeflowV2 has every key that NNI's v2 knew of kubeflow, as its classes spell them.
const kubeflowV2 = `experimentName: v2 on kubeflow
searchSpaceFile: search_space.json
trialCodeDirectory: .
trialConcurrency: 2
maxTrialNumber: 2
nniManagerIp: 10.1.10.11
tuner:
  name: TPE
  classArgs:
    optimize_mode: maximize
trainingService:
  platform: kubeflow
  operator: tf-operator
  api_version: v1alpha2
  namespace: %[1]s
  reuseMode: true
  storage:
    storageType: nfs
    server: 10.10.10.10
    path: /v2/%[1]s
  worker: &role
    replicas: 1
    command: python3 trial.py /tmp/mount
    gpuNumber: 0
    cpuNumber: 1
    memorySize: 512mb
    dockerImage: %[2]s
    codeDirectory: .
  ps:
    <<: *role
    command: sleep 0.1
trialCommand: ''
`

func TestNNIsV2FileForKubeflowRunsAsItIs(t *testing.T) {
	cluster := kube.Up(t)
	namespace, h := cluster.Namespace(t), nnisHome(t, cluster)
	runsAll(t, h, fmt.Sprintf(kubeflowV2, namespace, cluster.Python(t)), 2, 1)
	requireMarks(t, filepath.Join(cluster.Exports(), "v2", namespace), 2)
}

const frameworkV2 = `experimentName: v2 on frameworkcontroller
searchSpaceFile: search_space.json
trialConcurrency: 2
maxTrialNumber: 2
tuner: {name: Random}
trainingService:
  platform: frameworkcontroller
  namespace: %[1]s
  reuseMode: false
  serviceAccountName: default
  storage: {storageType: pvc, claimName: nni-storage}
  taskRoles:
    - name: worker
      taskNumber: 1
      command: python3 trial.py /tmp/mount
      gpuNumber: 0
      cpuNumber: 1
      memorySize: 512mb
      dockerImage: %[2]s
      privateRegistryAuthPath: registry.json
      frameworkAttemptCompletionPolicy:
        minFailedTaskCount: 1
        minSucceedTaskCount: 1
`

const registry = `{"auths": {"registry.example.com": {"auth": "` + "YWRhOmJlc3Qta2VwdC1zZWNyZXQ=" + `"}}}`

func TestNNIsV2FileForFrameworkControllerRunsAsItIs(t *testing.T) {
	cluster := kube.Up(t)
	namespace, h := cluster.Namespace(t), nnisHome(t, cluster)
	h.Write("registry.json", registry)
	file := fmt.Sprintf(frameworkV2, namespace, cluster.Python(t))
	refused := h.Run("validate", h.Write("early.yml", file))
	require.NotZero(t, refused.Code)
	require.Contains(t, refused.Stderr, `trainingService.storage.claimName: the cluster has no persistent volume claim "nni-storage"`)
	directory := volume(t, cluster, namespace, "nni-storage")
	runsAll(t, h, file, 2, 1)
	requireMarks(t, directory, 2)
	requireNowhere(t, h, "YWRhOmJlc3Qta2VwdC1zZWNyZXQ")
}

// requireNowhere looks for words in all that a home keeps.
func requireNowhere(t *testing.T, h *endtoend.Home, words string) {
	require.NoError(t, filepath.WalkDir(h.Dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil
		}
		content, _ := os.ReadFile(path)
		require.NotContains(t, string(content), words, path)
		return nil
	}))
}

// customV1 and customTemplate are NNI's example of a Framework of the user's own, but
// for what its init container would pull.
const customV1 = `authorName: default
experimentName: example_mnist_pytorch
trialConcurrency: 1
maxExecDuration: 1h
maxTrialNum: 1
logLevel: trace
nniManagerIp: 127.0.0.1
trainingServicePlatform: frameworkcontroller
searchSpacePath: search_space.json
useAnnotation: false
tuner:
  builtinTunerName: TPE
  classArgs:
    optimize_mode: maximize
trial:
  codeDir: .
frameworkcontrollerConfig:
  configPath: fc_template.yml
  storage: pvc
  namespace: %q
  pvc:
    path: "/tmp/data"
`

const customTemplate = `apiVersion: frameworkcontroller.microsoft.com/v1
kind: Framework
metadata:
  name: pytorchcpu
  namespace: default
spec:
  executionType: Start
  retryPolicy:
    fancyRetryPolicy: true
    maxRetryCount: 2
  taskRoles:
  - name: worker
    taskNumber: 2
    frameworkAttemptCompletionPolicy:
      minFailedTaskCount: 1
      minSucceededTaskCount: 2
    task:
      retryPolicy:
        fancyRetryPolicy: false
        maxRetryCount: 0
      podGracefulDeletionTimeoutSec: 1800
      pod:
        spec:
          restartPolicy: Never
          hostNetwork: false
          containers:
          - name: mnist-pytorch
            image: %[1]s
            command: ["python3", "trial.py", "/tmp/data/$FC_TASK_INDEX", "&&", "test", "-e", "/mnt/barrier/passed"]
            ports:
            - containerPort: 5001
            volumeMounts:
            - name: barrier
              mountPath: /mnt/barrier
            - name: data-volume
              mountPath: /tmp/data
          initContainers:
          - name: barrier
            image: %[1]s
            command: ["sh", "-c", "mkdir -p /tmp/data/0 /tmp/data/1 && touch /mnt/barrier/passed"]
            volumeMounts:
            - name: barrier
              mountPath: /mnt/barrier
            - name: data-volume
              mountPath: /tmp/data
          volumes:
          - name: barrier
            emptyDir: {}
          - name: data-volume
            persistentVolumeClaim:
              claimName: nni-storage
`

func TestNNIsFileWithAFrameworkOfTheUsersOwnRunsAsItIs(t *testing.T) {
	cluster := kube.Up(t)
	namespace, h := cluster.Namespace(t), nnisHome(t, cluster)
	h.Write("fc_template.yml", fmt.Sprintf(customTemplate, cluster.Python(t)))
	directory := volume(t, cluster, namespace, "nni-storage")
	runsAll(t, h, fmt.Sprintf(customV1, namespace), 1, 2)
	requireMarks(t, filepath.Join(directory, "0"), 1)
	requireMarks(t, filepath.Join(directory, "1"), 1)
}

// vault answers as Azure's own program would.
const vault = `#!/bin/sh
[ -e "$(dirname "$0")/logged-in" ] || { echo "ERROR: Please run 'az login' to setup account." >&2; exit 1; }
[ "$*" = "keyvault secret show --vault-name v --name k --query value --output tsv" ] && echo key-of-the-account
`

// Azure itself is not in the laboratory: what pods would mount is shown to be what the
// API server takes, with a secret that goes with the experiment.
func TestSecretsOfStorageAndRegistriesComeAndGoWithTheExperiment(t *testing.T) {
	cluster := kube.Up(t)
	namespace, directory := cluster.Namespace(t), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(directory, "az"), []byte(vault), 0o755))
	auth := filepath.Join(directory, "config.json")
	require.NoError(t, os.WriteFile(auth, []byte(registry), 0o600))
	options, err := json.Marshal(map[string]any{"operator": "tf-operator", "namespace": namespace,
		"storage": map[string]any{"storageType": "azureStorage", "azureAccount": "a", "azureShare": "s", "keyVaultName": "v", "keyVaultKey": "k"},
		"worker":  map[string]any{"replicas": 1, "command": "true", "cpuNumber": 1, "memorySize": 64, "dockerImage": kube.ShellImage, "privateRegistryAuthPath": auth}})
	require.NoError(t, err)
	section := platformtest.Section("kubeflow", trial.NewExperimentID(), func() json.RawMessage { return options })
	section.Environment = func() []string {
		return []string{"KUBECONFIG=" + cluster.Kubeconfig, "PATH=" + directory + ":" + os.Getenv("PATH")}
	}
	job := platforms.Job{Key: trial.Key{Experiment: section.Experiment, Attempt: 1}}
	p := kubeflow.New(kubeflow.Options{StateDirectory: t.TempDir(), Runner: binary.For}).Open(section)
	defer p.Close()
	_, err = p.Submit(t.Context(), job)
	require.Equal(t, platforms.Denied, platforms.CodeOf(err), "a vault that nobody is logged in to waits for a person")
	require.ErrorContains(t, err, "Please run 'az login'")
	require.NoError(t, os.WriteFile(filepath.Join(directory, "logged-in"), nil, 0o600))
	handle, err := p.Submit(t.Context(), job)
	require.NoError(t, err)

	held := func() (found map[string]kube.Object) {
		list, err := cluster.API.Get(t.Context(), "/api/v1/namespaces/"+namespace+"/secrets?labelSelector=perennial.dev/experiment="+section.Experiment)
		require.NoError(t, err)
		found = map[string]kube.Object{}
		for _, item := range list["items"].([]any) {
			found[kube.Field(item, "metadata", "name").(string)] = item.(kube.Object)
		}
		return found
	}
	var pods []kube.Object
	cluster.Await(t, "the pod", func() bool {
		pods = cluster.Pods(t, namespace, "perennial.dev/run="+handle.Key.String())
		return len(pods) == 1
	})
	azure := "perennial-" + section.Experiment + "-azure"
	require.Contains(t, kube.Field(pods[0], "spec", "volumes"), map[string]any{"name": "nni-vol", "azureFile": map[string]any{"secretName": azure, "shareName": "s"}})
	pull := kube.Field(pods[0], "spec", "imagePullSecrets", 0, "name").(string)
	require.Len(t, held(), 2)
	require.Equal(t, base64.StdEncoding.EncodeToString([]byte("key-of-the-account")), kube.Field(held()[azure], "data", "azurestorageaccountkey"))
	require.Equal(t, "kubernetes.io/dockerconfigjson", held()[pull]["type"])
	require.NoError(t, p.Cancel(t.Context(), handle, trial.Intent{Cause: trial.CauseStop}))
	require.NoError(t, p.(platforms.WithCleanup).CleanUp(t.Context()))
	require.Empty(t, held())
}

// adlV1 is NNI's template of a file for AdaptDL, with every key.
const adlV1 = `authorName: default
experimentName: minimal_adl

trainingServicePlatform: adl
nniManagerIp: 10.1.10.11
logCollection: http

tuner:
  builtinTunerName: GridSearch
searchSpacePath: search_space.json

trialConcurrency: 2
maxTrialNum: 2

trial:
  namespace: %[1]s
  adaptive: false # optional.
  image: %[2]s
  imagePullSecrets:  # optional
    - name: stagingsecret
  codeDir: /nfs/code
  command: python3 trial.py $ADAPTDL_CHECKPOINT_PATH
  gpuNum: 0
  cpuNum: 1  # optional
  memorySize: 64Mi  # optional
  nfs: # optional
    server: 10.20.41.55
    path: /adl/%[1]s
    containerMountPath: /nfs
  checkpoint: # optional
    storageClass: %[1]s
    storageSize: 1Gi
`

func TestNNIsFileForAdaptDLRunsAsItIs(t *testing.T) {
	cluster := kube.Up(t)
	cluster.AdaptDL(t)
	namespace, h := cluster.Namespace(t), nnisHome(t, cluster)
	h.Write("search_space.json", `{"x": {"_type": "choice", "_value": [0.5, 1]}}`)
	code := filepath.Join(cluster.Exports(), "adl", namespace, "code")
	require.NoError(t, os.MkdirAll(code, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(code, "trial.py"), []byte(nnisTrial), 0o644))
	checkpoints := filepath.Join(cluster.Exports(), "checkpoints", namespace)
	for _, name := range []string{"a", "b"} { // every trial has one of its own
		require.NoError(t, os.MkdirAll(filepath.Join(checkpoints, name), 0o755))
		persistentVolume(t, cluster, namespace, namespace+"-"+name, filepath.Join(checkpoints, name))
	}
	cluster.Create(t, "/api/v1/namespaces/"+namespace+"/secrets", kube.Object{"apiVersion": "v1", "kind": "Secret", "metadata": kube.Object{"name": "stagingsecret"},
		"type": "kubernetes.io/dockerconfigjson", "stringData": kube.Object{".dockerconfigjson": registry}})
	runsAll(t, h, fmt.Sprintf(adlV1, namespace, cluster.Python(t)), 2, 1)
	requireMarks(t, filepath.Join(checkpoints, "*", "adaptdl", "checkpoint"), 2)
	cluster.Await(t, "nothing of ours on the cluster", func() bool { return len(leftovers(t, cluster, namespace)) == 0 })
}

func TestATrialOnAdaptDLThatIsEndedBeforeItBeganNeverBegins(t *testing.T) {
	cluster := kube.Up(t)
	cluster.AdaptDL(t)
	namespace := cluster.Namespace(t)
	options, err := json.Marshal(map[string]any{"namespace": namespace, "dockerImage": "laboratory.invalid/nowhere:1", "trialCpuNumber": 1, "memorySize": "64Mi"})
	require.NoError(t, err)
	section := platformtest.Section(adl.Name, trial.NewExperimentID(), func() json.RawMessage { return options })
	section.Environment = func() []string { return []string{"KUBECONFIG=" + cluster.Kubeconfig} }
	p := adl.New(adl.Options{StateDirectory: t.TempDir(), Runner: binary.For}).Open(section)
	defer p.Close()
	job := platforms.Job{Key: trial.Key{Experiment: section.Experiment, Attempt: 1}, Command: "true"}
	handle, err := p.Submit(t.Context(), job)
	require.NoError(t, err)
	var last platforms.Report
	await := func(what string, holds func() bool) {
		cluster.Await(t, what, func() bool {
			reports, err := p.Poll(t.Context(), platforms.Ask(handle))
			require.NoError(t, err)
			last = reports[0]
			return holds()
		})
	}
	await("the reason why it waits", func() bool { return last.Reason.Code == "image" })
	require.NoError(t, p.Cancel(t.Context(), handle, trial.Intent{Cause: trial.CauseUser}))
	require.NoError(t, p.Cancel(t.Context(), handle, trial.Intent{Cause: trial.CauseStop}))
	await("its end", func() bool { return last.Phase == platforms.Exited })
	require.Equal(t, trial.CauseUser, last.Intent.Cause)
	cluster.Await(t, "the end of its pods", func() bool { return len(cluster.Pods(t, namespace, "perennial.dev/run="+handle.Key.String())) == 0 })
	_, err = p.Submit(t.Context(), job)
	require.NoError(t, err)
	await("the end that it had", func() bool { return last.Phase == platforms.Exited })
}
