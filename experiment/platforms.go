package experiment

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// platform declares one training service: its own keys beside the common ones,
// and what no single key can tell.
type platform struct {
	name    string
	options *section
	check   func(*reader, *values)
	// ownCommands is set where a trial's command may stand elsewhere than in
	// trialCommand; codeElsewhere where its code is not on this machine.
	ownCommands   bool
	codeElsewhere bool
}

const defaultImage = "msranni/nni:latest"

var gpuSharing = []key{
	{name: "useActiveGpu", kind: boolean, doc: "use GPUs on which others' processes run"},
	{name: "maxTrialNumberPerGpu", kind: integerFrom(1), fallback: int64(1), doc: "trials that share a GPU"},
	{name: "gpuIndices", kind: indices, doc: "the GPUs to use; all by default"},
}

func reuse(by bool) key {
	return key{name: "reuseMode", kind: boolean, fallback: by, doc: "one environment runs many trials"}
}

func image(required bool) key {
	if required {
		return key{name: "dockerImage", kind: text, required: true, doc: "the container image"}
	}
	return key{name: "dockerImage", kind: text, fallback: defaultImage, doc: "the container image"}
}

var localOptions = (&section{keys: gpuSharing}).with(
	reuse(false),
	key{name: "snapshot", kind: boolean, doc: "run trials from an immutable copy of the code directory"},
)

var remoteOptions = &section{keys: []key{
	// As in NNI 3.0; 2.x had true. Connections and runners are reused anyway.
	{name: "reuseMode", kind: boolean, fallback: false, doc: "trials of a machine share one copy of the code; else each has its own"},
	{name: "machineList", kind: listOf(object(machine)), required: true, doc: "the machines, each by SSH"},
	{name: "sshConfigFile", kind: existingFile, doc: "the ssh configuration to use instead of ~/.ssh/config"},
	{name: "hostLostAfter", kind: durationFrom(60), doc: "give up a machine's trials when nothing was heard of it for that long, and start them again elsewhere; never by default"},
}}

var machine = &section{keys: []key{
	{name: "host", kind: text, required: true, doc: "name or address, or a Host of ~/.ssh/config"},
	{name: "port", kind: integerIn(1, 65535), doc: "of SSH; what ~/.ssh/config says by default, else 22"},
	{name: "user", kind: text, doc: "who logs in; what ~/.ssh/config says by default, else you"},
	{name: "password", kind: text, doc: "instead of a key; better ${env:NAME} or ${file:PATH} than here"},
	{name: "sshKeyFile", kind: path, doc: "the private key; the ssh agent's and those of ~/.ssh by default; not used beside a password"},
	{name: "sshPassphrase", kind: text, doc: "of the private key"},
	{name: "useActiveGpu", kind: boolean, fallback: false, doc: "use GPUs on which others' processes run"},
	{name: "maxTrialNumberPerGpu", kind: integerFrom(1), fallback: int64(1), doc: "trials that share a GPU"},
	{name: "gpuIndices", kind: indices, doc: "the GPUs to use; all by default"},
	{name: "pythonPath", kind: text, doc: "a directory on the machine, put in front of PATH"},
	{name: "preCommand", kind: text, doc: "run before the trial's command, joined by &&"},
	{name: "directory", kind: text, doc: "where everything of ours is on the machine; ~/.perennial by default"},
}}

var openpaiOptions = &section{keys: []key{
	{name: "host", kind: text, required: true, doc: "the address of OpenPAI"},
	{name: "username", kind: text, required: true, doc: "who submits"},
	{name: "token", kind: text, doc: "the access token"},
	{name: "password", kind: text, doc: "instead of a token, as in v1"},
	{name: "trialCpuNumber", kind: integerFrom(1), doc: "CPU cores for each trial"},
	{name: "trialMemorySize", kind: megabytes, doc: "memory for each trial"},
	{name: "sharedMemorySize", kind: megabytes, doc: "shared memory for each trial"},
	{name: "storageConfigName", kind: text, doc: "OpenPAI's name of the storage"},
	image(false),
	{name: "virtualCluster", kind: text, doc: "the virtual cluster; OpenPAI's default where unset"},
	{name: "skuType", kind: text, doc: "the kind of node, where the cluster has HiveD"},
	{name: "skuNumber", kind: integerFrom(1), doc: "how many of skuType a trial has; 1 where unset"},
	{name: "localStorageMountPoint", kind: existingDirectory, required: true, doc: "where the storage is mounted here"},
	{name: "containerStorageMountPoint", kind: text, required: true, doc: "where trials find the storage"},
	reuse(true),
	{name: "openpaiConfig", kind: free, doc: "a whole OpenPAI job configuration"},
	{name: "openpaiConfigFile", kind: existingFile, doc: "a file with a whole OpenPAI job configuration"},
	{name: "useActiveGpu", kind: boolean, doc: "use GPUs on which others' processes run"},
	{name: "maxTrialNumberPerGpu", kind: integerFrom(1), doc: "trials that share a GPU"},
}}

var paiYarnOptions = &section{keys: []key{
	{name: "host", kind: text, required: true, doc: "the address of OpenPAI"},
	{name: "username", kind: text, required: true, doc: "who submits"},
	{name: "token", kind: text, doc: "the access token"},
	{name: "password", kind: text, doc: "instead of a token"},
	{name: "trialCpuNumber", kind: integerFrom(1), required: true, doc: "CPU cores for each trial"},
	{name: "trialMemorySize", kind: megabytes, required: true, doc: "memory for each trial"},
	{name: "sharedMemorySize", kind: megabytes, doc: "shared memory for each trial"},
	image(true),
	{name: "authFile", kind: path, doc: "the registry's credentials"},
	{name: "virtualCluster", kind: text, doc: "the virtual cluster"},
	{name: "portList", kind: listOf(object(port)), doc: "ports that trials get"},
}}

var port = &section{keys: []key{
	{name: "label", kind: text, required: true, doc: "the ports' name"},
	{name: "beginAt", kind: integerIn(0, 65535), required: true, doc: "the first port; 0 for any"},
	{name: "portNumber", kind: integerFrom(1), required: true, doc: "how many"},
}}

// What NNI took from the environment is a reference here: secrets are not stored.
var dltsOptions = &section{keys: []key{
	{name: "dashboard", kind: text, required: true, doc: "the address of DLTS"},
	{name: "cluster", kind: text, fallback: ".default", doc: "the cluster"},
	{name: "team", kind: text, fallback: "${env:DLWS_VC_NAME}", doc: "the team"},
	{name: "email", kind: text, fallback: "${env:DLWS_USER_EMAIL}", doc: "who submits"},
	{name: "password", kind: text, fallback: "${env:DLTS_JOB_TOKEN}", doc: "the job token"},
	image(true),
	{name: "gpuType", kind: text, doc: "the kind of GPU; the first that DLTS names for the team"},
	{name: "jobPriority", kind: integerIn(100, 200), doc: "the jobs' priority"},
	{name: "localStorageMountPoint", kind: existingDirectory, doc: "where the cluster's storage is mounted here; the directory that holds trialCodeDirectory by default"},
	{name: "containerStorageMountPoint", kind: text, doc: "where trials find the same storage; at the same path by default"},
}}

var amlOptions = &section{keys: []key{
	{name: "subscriptionId", kind: text, required: true, doc: "the Azure subscription"},
	{name: "resourceGroup", kind: text, required: true, doc: "the resource group"},
	{name: "workspaceName", kind: text, required: true, doc: "the workspace"},
	{name: "computeTarget", kind: text, required: true, doc: "the compute target, a cluster of the workspace"},
	{name: "tenantId", kind: text, doc: "the tenant of the service principal to log in as; without it as az login, or the machine's identity"},
	{name: "clientId", kind: text, doc: "the service principal's client id"},
	{name: "clientSecret", kind: text, doc: "the service principal's secret; better ${env:NAME} or ${file:PATH} than here"},
	{name: "endpoint", kind: text, doc: "the address of Azure's Resource Manager; the public cloud's by default"},
	{name: "sharedMemorySize", kind: megabytes, doc: "shared memory for each trial"},
	image(false),
	{name: "maxTrialNumberPerGpu", kind: integerFrom(1), fallback: int64(1), doc: "trials that share a GPU"},
	{name: "useActiveGpu", kind: boolean, doc: "use GPUs on which others' processes run"},
}}

var adlOptions = &section{keys: []key{
	image(true),
	{name: "namespace", kind: text, fallback: "default", doc: "the Kubernetes namespace"},
	{name: "imagePullSecrets", kind: listOf(object(named)), doc: "Kubernetes secrets by name"},
	{name: "nfs", kind: object(nfsMount), doc: "a volume for trials"},
	{name: "adaptive", kind: boolean, fallback: false, doc: "not used: a trial keeps its one replica"},
	{name: "checkpoint", kind: object(checkpoint), doc: "a volume for checkpoints"},
	{name: "trialCpuNumber", kind: integerFrom(1), fallback: int64(1), doc: "CPU cores for each trial"},
	{name: "memorySize", kind: text, fallback: "1Gi", doc: "memory for each trial, as Kubernetes writes it"},
}}

var (
	named    = &section{keys: []key{{name: "name", kind: text, required: true, doc: "the name"}}}
	nfsMount = &section{keys: []key{
		{name: "server", kind: text, required: true, doc: "the server's address"},
		{name: "path", kind: text, required: true, doc: "the exported directory"},
		{name: "containerMountPath", kind: text, required: true, doc: "where trials find it"},
	}}
	checkpoint = &section{keys: []key{
		{name: "storageClass", kind: text, required: true, doc: "the Kubernetes storage class"},
		{name: "storageSize", kind: text, required: true, doc: "its size, as Kubernetes writes it"},
	}}
)

var dlcOptions = &section{keys: []key{
	{name: "type", kind: text, fallback: "Worker", doc: "the pods' role"},
	{name: "image", kind: text, required: true, doc: "the container image"},
	{name: "jobType", kind: oneOf("TFJob", "PyTorchJob"), fallback: "TFJob", doc: "the kind of job"},
	{name: "podCount", kind: integerFrom(1), required: true, doc: "pods for each trial"},
	{name: "ecsSpec", kind: text, required: true, doc: "an instance type, or resources of a quota as text: {'resource_id': …, 'cpu': …, 'memory': …, 'gpu': …, 'gputype': …, 'shared_memory': …}"},
	{name: "region", kind: text, required: true, doc: "the region"},
	{name: "endpoint", kind: text, doc: "the address of the API, such as that of a VPC; the region's public one by default"},
	{name: "priority", kind: integerIn(1, 9), doc: "of trials' jobs in a quota"},
	{name: "workspaceId", kind: text, required: true, doc: "the workspace"},
	{name: "nasDataSourceId", kind: text, required: true, doc: "the NAS data source"},
	{name: "ossDataSourceId", kind: text, doc: "the OSS data source"},
	{name: "accessKeyId", kind: text, required: true, doc: "the access key's id; better ${env:NAME} or ${file:PATH} than here"},
	{name: "accessKeySecret", kind: text, required: true, doc: "the access key's secret; likewise"},
	{name: "localStorageMountPoint", kind: text, required: true, doc: "where the NAS is mounted here"},
	{name: "containerStorageMountPoint", kind: text, required: true, doc: "where trials find the NAS"},
	{name: "keepJobs", kind: boolean, doc: "leave jobs in the console when their experiment is over"},
	{name: "reuseMode", kind: boolean, doc: "environments, jobs that live long, take trial after trial"},
}}

// Of UAI-Train NNI never had a section: this one is ours.
var uaitrainOptions = &section{keys: []key{
	{name: "publicKey", kind: text, required: true, doc: "the public key of the UCloud account; better ${env:NAME} or ${file:PATH} than here"},
	{name: "privateKey", kind: text, required: true, doc: "its private key; likewise"},
	{name: "projectId", kind: text, doc: "the project, such as org-abc123; the account's default where unset"},
	{name: "region", kind: text, fallback: "cn-bj2", doc: "the region"},
	{name: "zone", kind: text, fallback: "cn-bj2-04", doc: "the zone in it"},
	{name: "endpoint", kind: text, fallback: "https://api.ucloud.cn", doc: "the address of UCloud's API"},
	{name: "image", kind: text, required: true, doc: "the container image, in UHub and the same project; it needs python, and what the trial needs"},
	{name: "nodeType", kind: text, required: true, doc: "the kind of node, by its GPUs, such as 1-P40 or 4-P40"},
	{name: "nodeCount", kind: integerFrom(1), fallback: int64(1), doc: "nodes for each trial; several train together"},
	{name: "framework", kind: oneOf("tensorflow", "mxnet"), doc: "by what several nodes train together"},
	{name: "maxExecuteHours", kind: integerFrom(1), doc: "after how many hours UAI-Train ends a trial; the longest that it allows where unset"},
	{name: "businessGroup", kind: text, fallback: "default", doc: "the business group of jobs, for bills"},
	{name: "ufsPath", kind: text, doc: "a directory of a UFS, as ADDRESS:/PATH; trials find it at /data/data, and what is in perennial there at /data/output"},
	{name: "localStorageMountPoint", kind: text, doc: "where the directory of ufsPath is mounted here"},
	{name: "ufilePath", kind: text, doc: "instead of ufsPath a directory of a bucket of UFile (US3), as BUCKET.HOST/PATH; nothing is mounted here then"},
	{name: "ufileEndpoint", kind: text, doc: "the address of the bucket from here, such as one inside UCloud; https://BUCKET.HOST by default"},
	{name: "inputPath", kind: text, doc: "a directory with data, of the UFS or the bucket, for trials to find at /data/data"},
	{name: "keepJobs", kind: boolean, doc: "leave jobs in the console when they are over"},
}}

var resources = []key{
	{name: "command", kind: text, required: true, doc: "the role's command"},
	{name: "gpuNumber", kind: integerFrom(0), fallback: int64(0), doc: "GPUs for each pod"},
	{name: "cpuNumber", kind: integerFrom(1), required: true, doc: "CPU cores for each pod"},
	{name: "memorySize", kind: megabytes, required: true, doc: "memory for each pod"},
	image(false),
	{name: "privateRegistryAuthPath", kind: existingFile, doc: "the registry's credentials, as docker login writes them"},
}

var role = (&section{keys: resources}).with(
	key{name: "replicas", kind: integerFrom(1), required: true, doc: "pods of the role"},
	key{name: "codeDirectory", kind: text, doc: "not used: the command runs in trialCodeDirectory"},
)

var taskRole = (&section{keys: resources}).with(
	key{name: "name", kind: text, required: true, doc: "the role's name"},
	key{name: "taskNumber", kind: integerFrom(1), required: true, doc: "tasks of the role"},
	key{name: "frameworkAttemptCompletionPolicy", kind: object(completionPolicy), doc: "when the whole is over"},
)

var completionPolicy = &section{keys: []key{
	{name: "minFailedTaskCount", kind: integerFrom(-1), required: true, doc: "failed tasks that fail the whole"},
	{name: "minSucceedTaskCount", kind: integerFrom(-1), required: true, doc: "succeeded tasks that complete the whole"},
}}

var kubernetesStorage = &section{keys: []key{
	{name: "storageType", kind: oneOf("nfs", "azureStorage", "pvc"), fallback: "nfs", doc: "what kind of storage"},
	{name: "server", kind: text, doc: "nfs: the server's address"},
	{name: "path", kind: text, doc: "nfs: the exported directory; pvc: where NNI's manager saw it, not used"},
	{name: "claimName", kind: text, doc: "pvc: the persistent volume claim"},
	{name: "azureAccount", kind: text, doc: "azureStorage: the account"},
	{name: "azureShare", kind: text, doc: "azureStorage: the share"},
	{name: "keyVaultName", kind: text, doc: "azureStorage: the key vault"},
	{name: "keyVaultKey", kind: text, doc: "azureStorage: the name of the key in the vault"},
	{name: "azureAccountKey", kind: text, doc: "azureStorage: the account's key itself, instead of a vault; better ${env:NAME} or ${file:PATH} than here"},
}}

var kubeflowOptions = &section{keys: []key{
	{name: "operator", kind: oneOf("tf-operator", "pytorch-operator"), required: true, doc: "who runs the job"},
	{name: "apiVersion", kind: oneOf("v1alpha2", "v1beta1", "v1beta2", "v1"), required: true, doc: "of the operator; v1 is used"},
	{name: "storage", kind: object(kubernetesStorage), required: true, doc: "what trials find at /tmp/mount"},
	{name: "worker", kind: object(role), doc: "the workers"},
	{name: "ps", kind: object(role), doc: "TensorFlow's parameter servers"},
	{name: "master", kind: object(role), doc: "PyTorch's master"},
	reuse(true),
	{name: "namespace", kind: text, fallback: "default", doc: "the Kubernetes namespace"},
}}

var frameworkcontrollerOptions = &section{keys: []key{
	{name: "storage", kind: object(kubernetesStorage), required: true, doc: "what trials find at /tmp/mount"},
	{name: "serviceAccountName", kind: text, doc: "the Kubernetes service account; the namespace's default where unset"},
	{name: "taskRoles", kind: listOf(object(taskRole)), doc: "the roles of a trial"},
	reuse(true),
	{name: "namespace", kind: text, fallback: "default", doc: "the Kubernetes namespace"},
	{name: "configPath", kind: existingFile, doc: "a Framework of your own, as YAML, whose pods trials run in"},
	{name: "framework", kind: free, doc: "the same in place; what is in the file of configPath is kept as this"},
}}

var executableOptions = &section{keys: []key{
	{name: "executable", kind: existingFile, required: true, doc: "a program that is the platform, called once for each verb"},
	{name: "options", kind: free, doc: "the program's own; it gets them as they are"},
	{name: "timeout", kind: durationFrom(1), fallback: int64(60), doc: "how long one call may take"},
	{name: "concurrency", kind: integerFrom(1), fallback: int64(4), doc: "calls at once"},
}}

// customKind is a kind of Kubernetes object that a user brings.
var customKind = &section{keys: []key{
	{name: "manifest", kind: free, required: true, doc: "the object that a trial is, as kubectl takes it, without a name: apiVersion, kind, spec, and labels and annotations in metadata"},
	{name: "resource", kind: text, doc: "what the cluster calls the kind in addresses, such as pytorchjobs; by default the kind in small letters, with an s"},
	{name: "pods", kind: listOf(object(customPods)), required: true, doc: "where the templates of pods are in the manifest; those of the first decide"},
	{name: "container", kind: text, doc: "what the trial's container is to be called; by default as in the template, or trial"},
	{name: "succeeded", kind: text, required: true, doc: "an expression of CEL over object: it is over, and well"},
	{name: "failed", kind: text, required: true, doc: "an expression of CEL over object: it is over, and not well"},
	{name: "reason", kind: text, doc: "an expression of CEL over object: why it waits or failed, a text"},
	{name: "suspend", kind: free, doc: "what, merged into spec, has the object start no pod and ends those that have not begun; without it a scheduling gate holds pods back that are not to start"},
	{name: "index", kind: text, doc: "the label or annotation that numbers the pods of one template from 0"},
}}

var customPods = &section{keys: []key{
	{name: "path", kind: text, required: true, doc: "of the template, such as spec.template or spec.jobs[0].template; it is made where it is not there"},
	{name: "replicas", kind: integerFrom(1), fallback: int64(1), doc: "how many pods the kind makes of it"},
}}

var kubernetesCode = &section{keys: []key{
	{name: "path", kind: text, doc: "the directory in image, or in the trial's own"},
	{name: "image", kind: text, doc: "an image with sh and cp that has the code; it is copied into each pod"},
	{name: "url", kind: text, doc: "a .tar.gz that each pod downloads, by curl, wget or python3 of its image"},
	{name: "sha256", kind: text, doc: "the archive's SHA-256 sum, which is checked"},
	{name: "volume", kind: text, doc: "one of volumes, onto which the code directory is brought once, however large it is"},
}}

var kubernetesOptions = &section{keys: []key{
	{name: "image", kind: text, doc: "the container image, required unless the manifest of kind custom names one; it needs sh, cat and chmod, and what the trial needs"},
	{name: "kind", kind: oneOf("custom", "Job", "PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob", "JobSet", "TrainJob", "Framework", "AdaptDLJob"), fallback: "Job", doc: "the kind of object that a trial is on the cluster; JobSet, TrainJob, Framework and AdaptDLJob need their controllers there, the others Kubeflow's training-operator, Job nothing; custom is one that you bring"},
	{name: "custom", kind: object(customKind), doc: "the kind of object that kind custom is"},
	{name: "replicas", kind: integerFrom(1), fallback: int64(1), doc: "pods that run each trial together; any of them may report, and the first decides"},
	{name: "namespace", kind: text, doc: "the Kubernetes namespace; that of the context by default"},
	{name: "kubeconfig", kind: existingFile, doc: "the way to the cluster; $KUBECONFIG or ~/.kube/config by default, or the pod that starter runs in"},
	{name: "context", kind: text, doc: "the context of the kubeconfig; its current one by default"},
	{name: "cpu", kind: text, doc: "CPU cores for each trial, as Kubernetes counts them"},
	{name: "memory", kind: text, doc: "memory for each trial, as Kubernetes writes it, such as 4Gi"},
	{name: "gpuResource", kind: text, fallback: "nvidia.com/gpu", doc: "what the cluster calls the GPUs that trialGpuNumber counts"},
	{name: "serviceAccount", kind: text, doc: "the service account of trials; the namespace's default where unset"},
	{name: "imagePullSecrets", kind: listOf(text), doc: "secrets of the namespace for the registry"},
	{name: "nodeSelector", kind: free, doc: "labels of the nodes to use"},
	{name: "priorityClass", kind: text, doc: "the priority class of trials"},
	{name: "tolerations", kind: listOf(free), doc: "taints of nodes to put up with, as a pod has them"},
	{name: "volumes", kind: listOf(free), doc: "volumes, as a pod has them"},
	{name: "volumeMounts", kind: listOf(free), doc: "where trials find the volumes, as a container has them"},
	{name: "queue", kind: text, doc: "the queue of Kueue that holds trials back, for kinds that Kueue knows"},
	{name: "podPatch", kind: free, doc: "metadata and spec of a pod, merged into those of trials as kubectl patch does; the trial's container is called trial"},
	{name: "imagePullLimit", kind: durationFrom(1), fallback: int64(1800), doc: "how long an image may fail to be pulled before the trial has failed"},
	{name: "keepFor", kind: durationFrom(0), doc: "how long objects and pods of ended trials stay, for people who want to look; they go at once where unset"},
	{name: "code", kind: object(kubernetesCode), doc: "where code comes from that is not packed out of trialCodeDirectory, such as more than 20 MiB of it"},
	{name: "runnerImage", kind: text, doc: "an image with sh and perennial-runner, from which pods get it instead of from ConfigMaps"},
}}

// platforms is every training service that NNI ever had, and ours.
var platforms = []platform{
	{name: "local", options: localOptions, check: checkLocal},
	{name: "remote", options: remoteOptions, check: checkRemote},
	{name: "openpai", options: openpaiOptions, check: checkOpenpai},
	{name: "paiyarn", options: paiYarnOptions, check: checkPaiYarn},
	{name: "kubeflow", options: kubeflowOptions, check: checkKubeflow, ownCommands: true},
	{name: "frameworkcontroller", options: frameworkcontrollerOptions, check: checkFrameworkcontroller, ownCommands: true},
	{name: "adl", options: adlOptions, check: checkAdl, codeElsewhere: true},
	{name: "kubernetes", options: kubernetesOptions},
	{name: "dlts", options: dltsOptions, check: checkDLTS},
	{name: "aml", options: amlOptions},
	{name: "dlc", options: dlcOptions},
	{name: "uai-train", options: uaitrainOptions},
	{name: "executable", options: executableOptions},
	{name: "fake", options: &section{rest: true}, ownCommands: true},
}

// PlatformNames returns every platform that files may name, in v2's spelling.
func PlatformNames() []string {
	var names []string
	for _, p := range platforms {
		names = append(names, p.name)
	}
	return names
}

func findPlatform(name string) *platform {
	i := slices.IndexFunc(platforms, func(p platform) bool { return fold(p.name) == fold(name) })
	if i < 0 {
		return nil
	}
	return &platforms[i]
}

// keys is everything that may stand in the platform's section of a file.
func (p *platform) keys() *section {
	common := &section{keys: []key{{name: "platform", kind: text, required: true, doc: "the training service"}}, rest: p.options.rest}
	for _, k := range trialKeys {
		if p.codeElsewhere && k.name == "trialCodeDirectory" {
			k.kind = text
		}
		common.keys = append(common.keys, k)
	}
	return common.with(p.options.keys...)
}

// services is one training service or a list of them.
var services = kind{"a mapping, or a list of mappings", readServices, servicesSchema}

func readServices(r *reader, n *yaml.Node) (any, error) {
	nodes := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		nodes = n.Content
	}
	if len(nodes) == 0 {
		return nil, complaint{"must name at least one training service", ""}
	}
	var list []any
	for _, node := range nodes {
		if node.Kind != yaml.MappingNode {
			return nil, errKind
		}
		if service := r.service(node); service != nil {
			list = append(list, service)
		}
	}
	return list, nil
}

// service reads a training service by the keys of its platform, nil where it
// names none.
func (r *reader) service(n *yaml.Node) *values {
	for name, value := range pairs(n) {
		if fold(name.Value) != "platform" {
			continue
		}
		if p := findPlatform(value.Value); p != nil {
			var service *values
			r.ofPlatform(p.name, func() { service = r.section(p.keys(), n) })
			service.platform = p
			return service
		}
		r.fault(value, "there is no platform "+quoted(value.Value), meantAmong(value.Value, PlatformNames()))
		return nil
	}
	r.missingAt(n, "platform", "one of local, remote, …")
	return nil
}
