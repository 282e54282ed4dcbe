package experiment

// NNI's v1 schema as a table of what each key is called in v2. The values are
// checked by v2's declarations, which accept whatever either schema accepted.

// oldKey is a key of v1. Its case matters.
type oldKey struct {
	name string
	to   string // the v2 key, dotted where it lies deeper; empty where it means nothing here
	// of is set where the value is a mapping or a list of mappings, whose keys go
	// to `to`, or with an empty `to` beside those of the mapping around it.
	of      []oldKey
	convert func(c *converter, p pair) // instead of all that
}

// oldPlatform is what v1 called a platform, and its sections.
type oldPlatform struct {
	to       string // v2's name
	trial    []oldKey
	sections []oldKey // top-level keys beside trial
}

// successors tells, for v1 keys in a v2 file, what they are called now.
var successors = map[string]string{
	"maxExecDuration": "maxExperimentDuration", "maxTrialNum": "maxTrialNumber", "searchSpacePath": "searchSpaceFile",
	"logDir": "experimentWorkingDirectory", "command": "trialCommand", "codeDir": "trialCodeDirectory",
	"gpuNum": "trialGpuNumber", "builtinTunerName": "name", "builtinAssessorName": "name", "builtinAdvisorName": "name",
	"ip": "host", "username": "user", "passwd": "password", "sshKeyPath": "sshKeyFile", "passphrase": "sshPassphrase",
	"maxTrialNumPerGpu": "maxTrialNumberPerGpu", "image": "dockerImage", "trainingServicePlatform": "trainingService",
	"trial": "trialCommand", "memoryMB": "trialMemorySize", "cpuNum": "trialCpuNumber", "reuse": "reuseMode",
}

var oldTopLevel = []oldKey{
	{name: "authorName"},
	{name: "description"},
	{name: "experimentName", to: "experimentName"},
	{name: "trialConcurrency", to: "trialConcurrency"},
	{name: "maxExecDuration", to: "maxExperimentDuration", convert: (*converter).duration},
	{name: "maxTrialDuration", to: "maxTrialDuration", convert: (*converter).duration},
	{name: "maxTrialNum", to: "maxTrialNumber"},
	{name: "searchSpacePath", to: "searchSpaceFile"},
	{name: "useAnnotation", to: "useAnnotation"},
	{name: "multiPhase", convert: (*converter).multiPhase},
	{name: "multiThread"},
	{name: "nniManagerIp", to: "nniManagerIp"},
	{name: "logDir", to: "experimentWorkingDirectory"},
	{name: "debug", to: "debug"},
	{name: "versionCheck"},
	{name: "logLevel", to: "logLevel"},
	{name: "logCollection"},
	{name: "sharedStorage", to: "sharedStorage"},
	{name: "tuner", to: "tuner", convert: (*converter).algorithm},
	{name: "assessor", to: "assessor", convert: (*converter).algorithm},
	{name: "advisor", to: "advisor", convert: (*converter).algorithm},
	{name: "trainingServicePlatform", convert: (*converter).skip},
	{name: "trial", convert: (*converter).skip},
	{name: "hybridConfig", convert: (*converter).skip},
}

var oldAlgorithm = []oldKey{
	{name: "builtinTunerName", to: "name"},
	{name: "builtinAssessorName", to: "name"},
	{name: "builtinAdvisorName", to: "name"},
	{name: "codeDir", to: "codeDirectory"},
	{name: "classFileName", convert: (*converter).skip},
	{name: "className", to: "className"},
	{name: "classArgs", to: "classArgs"},
	{name: "gpuIndices", convert: (*converter).skip},
	{name: "includeIntermediateResults", convert: (*converter).skip},
}

var (
	oldTrial = []oldKey{
		{name: "command", to: "trialCommand"},
		{name: "codeDir", to: "trialCodeDirectory"},
		{name: "gpuNum", to: "trialGpuNumber"},
	}
	oldSimpleTrial = append(oldTrial[:3:3], oldKey{name: "nasMode"})
	oldImageTrial  = append(oldTrial[:3:3], oldKey{name: "image", to: "dockerImage"})
	oldSharing     = []oldKey{
		{name: "gpuIndices", to: "gpuIndices"},
		{name: "maxTrialNumPerGpu", to: "maxTrialNumberPerGpu"},
		{name: "useActiveGpu", to: "useActiveGpu"},
	}
)

var oldMachine = append(oldSharing[:3:3],
	oldKey{name: "ip", to: "host"},
	oldKey{name: "port", to: "port"},
	oldKey{name: "username", to: "user"},
	oldKey{name: "passwd", to: "password"},
	oldKey{name: "sshKeyPath", to: "sshKeyFile"},
	oldKey{name: "passphrase", to: "sshPassphrase"},
	oldKey{name: "preCommand", to: "preCommand"},
	oldKey{name: "pythonPath", to: "pythonPath"},
)

var oldPaiTrial = append(oldImageTrial[:4:4],
	oldKey{name: "nniManagerNFSMountPath", to: "localStorageMountPoint"},
	oldKey{name: "containerNFSMountPath", to: "containerStorageMountPoint"},
	oldKey{name: "cpuNum", to: "trialCpuNumber"},
	oldKey{name: "memoryMB", to: "trialMemorySize"},
	oldKey{name: "virtualCluster", to: "virtualCluster"},
	oldKey{name: "paiStorageConfigName", to: "storageConfigName"},
	oldKey{name: "paiConfigPath", to: "openpaiConfigFile"},
	oldKey{name: "shmMB", to: "sharedMemorySize"},
	oldKey{name: "dataDir"},
	oldKey{name: "outputDir"},
)

var oldPaiConfig = []oldKey{
	{name: "userName", to: "username"},
	{name: "passWord", to: "password"},
	{name: "token", to: "token"},
	{name: "host", to: "host"},
	{name: "reuse", to: "reuseMode"},
	{name: "gpuNum", to: "trialGpuNumber"},
	{name: "cpuNum", to: "trialCpuNumber"},
	{name: "memoryMB", to: "trialMemorySize"},
	{name: "maxTrialNumPerGpu", to: "maxTrialNumberPerGpu"},
	{name: "useActiveGpu", to: "useActiveGpu"},
}

var oldPaiYarnTrial = append(oldImageTrial[:4:4],
	oldKey{name: "cpuNum", to: "trialCpuNumber"},
	oldKey{name: "memoryMB", to: "trialMemorySize"},
	oldKey{name: "authFile", to: "authFile"},
	oldKey{name: "shmMB", to: "sharedMemorySize"},
	oldKey{name: "virtualCluster", to: "virtualCluster"},
	oldKey{name: "portList", to: "portList"},
	oldKey{name: "dataDir"},
	oldKey{name: "outputDir"},
)

var oldAdlTrial = append(oldImageTrial[:4:4],
	oldKey{name: "namespace", to: "namespace"},
	oldKey{name: "imagePullSecrets", to: "imagePullSecrets"},
	oldKey{name: "nfs", to: "nfs"},
	oldKey{name: "adaptive", to: "adaptive"},
	oldKey{name: "checkpoint", to: "checkpoint"},
	oldKey{name: "cpuNum", to: "trialCpuNumber"},
	oldKey{name: "memorySize", to: "memorySize"},
)

var oldResources = []oldKey{
	{name: "command", to: "command"},
	{name: "gpuNum", to: "gpuNumber"},
	{name: "cpuNum", to: "cpuNumber"},
	{name: "memoryMB", to: "memorySize"},
	{name: "image", to: "dockerImage"},
	{name: "privateRegistryAuthPath", to: "privateRegistryAuthPath"},
}

var (
	oldRole     = append(oldResources[:6:6], oldKey{name: "replicas", to: "replicas"})
	oldTaskRole = append(oldResources[:6:6],
		oldKey{name: "name", to: "name"},
		oldKey{name: "taskNum", to: "taskNumber"},
		oldKey{name: "frameworkAttemptCompletionPolicy", to: "frameworkAttemptCompletionPolicy", of: []oldKey{
			{name: "minFailedTaskCount", to: "minFailedTaskCount"},
			{name: "minSucceededTaskCount", to: "minSucceedTaskCount"},
		}},
	)
)

var oldKubernetes = []oldKey{
	{name: "storage", to: "storage.storageType"},
	{name: "nfs", to: "storage", of: []oldKey{{name: "server", to: "server"}, {name: "path", to: "path"}}},
	{name: "keyVault", to: "storage", of: []oldKey{{name: "vaultName", to: "keyVaultName"}, {name: "name", to: "keyVaultKey"}}},
	{name: "azureStorage", to: "storage", of: []oldKey{{name: "accountName", to: "azureAccount"}, {name: "azureShare", to: "azureShare"}}},
	{name: "uploadRetryCount"},
	{name: "namespace", to: "namespace"},
	{name: "reuse", to: "reuseMode"},
}

// oldPlatforms is every platform of v1 by its v1 name.
var oldPlatforms = map[string]oldPlatform{
	"local": {"local", oldSimpleTrial, []oldKey{{name: "localConfig", of: oldSharing}}},
	"remote": {"remote", oldSimpleTrial, []oldKey{
		{name: "machineList", to: "machineList", of: oldMachine},
		{name: "remoteConfig", of: []oldKey{{name: "reuse", to: "reuseMode"}}},
	}},
	"pai": {"openpai", oldPaiTrial, []oldKey{{name: "paiConfig", of: oldPaiConfig}}},
	"paiYarn": {"paiyarn", oldPaiYarnTrial, []oldKey{{name: "paiYarnConfig", of: []oldKey{
		{name: "userName", to: "username"}, {name: "passWord", to: "password"},
		{name: "token", to: "token"}, {name: "host", to: "host"},
	}}}},
	"dlts": {"dlts", oldImageTrial, []oldKey{{name: "dltsConfig", of: []oldKey{
		{name: "dashboard", to: "dashboard"}, {name: "cluster", to: "cluster"}, {name: "team", to: "team"},
		{name: "email", to: "email"}, {name: "password", to: "password"},
	}}}},
	"aml": {"aml", oldImageTrial, []oldKey{{name: "amlConfig", of: []oldKey{
		{name: "subscriptionId", to: "subscriptionId"}, {name: "resourceGroup", to: "resourceGroup"},
		{name: "workspaceName", to: "workspaceName"}, {name: "computeTarget", to: "computeTarget"},
		{name: "maxTrialNumPerGpu", to: "maxTrialNumberPerGpu"}, {name: "useActiveGpu", to: "useActiveGpu"},
	}}}},
	"adl": {"adl", oldAdlTrial, nil},
	"kubeflow": {"kubeflow", []oldKey{
		{name: "codeDir", to: "trialCodeDirectory"},
		{name: "ps", to: "ps", of: oldRole},
		{name: "master", to: "master", of: oldRole},
		{name: "worker", to: "worker", of: oldRole},
	}, []oldKey{{name: "kubeflowConfig", of: append([]oldKey{
		{name: "operator", to: "operator"}, {name: "apiVersion", to: "apiVersion"},
	}, oldKubernetes...)}}},
	"frameworkcontroller": {"frameworkcontroller", []oldKey{
		{name: "codeDir", to: "trialCodeDirectory"},
		{name: "taskRoles", to: "taskRoles", of: oldTaskRole},
	}, []oldKey{{name: "frameworkcontrollerConfig", of: append([]oldKey{
		{name: "serviceAccountName", to: "serviceAccountName"},
		{name: "pvc", to: "storage", of: []oldKey{{name: "path", to: "path"}}},
		{name: "configPath", to: "configPath"},
	}, oldKubernetes...)}}},
}
