package experiment

// The top level of experiment.yml in NNI's v2 schema, with our own keys beside.

// gracePeriod and logLimit are what holds where a file says nothing.
const (
	gracePeriod = Seconds(5)
	logLimit    = int64(256 << 20)
)

// trialKeys may stand at the top level and in every training service, which wins.
var trialKeys = []key{
	{name: "trialCommand", kind: text, doc: "the command that runs a trial, by a shell"},
	{name: "trialCodeDirectory", kind: path, doc: "the directory the command runs in; the file's own by default"},
	{name: "trialGpuNumber", kind: integerFrom(0), doc: "GPUs for each trial; unset leaves GPUs alone, 0 hides them"},
	{name: "nniManagerIp", kind: text, doc: "the address NNI's trials called back; kept, not used"},
	{name: "debug", kind: boolean, doc: "log level debug"},
	{name: "trialGracePeriod", kind: durationFrom(0), doc: "time between TERM and KILL when a trial is ended; 5s by default"},
	{name: "logLimit", kind: byteCount, doc: "how much is kept of each of a trial's stdout and stderr; 256mb by default"},
}

var topLevel = (&section{keys: []key{
	{name: "experimentName", kind: text, doc: "a name for people"},
	{name: "experimentType", kind: oneOf("hpo", "nas"), doc: "hpo; architecture search is not supported"},
	{name: "searchSpaceFile", kind: path, doc: "the search space, as JSON or YAML"},
	{name: "searchSpace", kind: searchSpaceKind, doc: "the search space itself"},
	{name: "trialConcurrency", kind: integerFrom(1), required: true, doc: "how many trials run at a time"},
	{name: "maxExperimentDuration", kind: durationFrom(1), doc: "how long the experiment may run; unlimited by default"},
	{name: "maxTrialDuration", kind: durationFrom(1), doc: "how long a trial may run, then it is early-stopped; unlimited by default"},
	{name: "maxTrialNumber", kind: integerFrom(1), doc: "how many trials are made; unlimited by default"},
	{name: "useAnnotation", kind: boolean, doc: "not supported, false only"},
	{name: "logLevel", kind: oneOf("fatal", "error", "warning", "info", "debug", "trace"), doc: "info by default"},
	{name: "trialModule", kind: oneOf("auto", "builtin", "off"), doc: "the nni that Python trials import: what is installed, else ours (auto, the default), always ours, or never ours"},
	{name: "experimentWorkingDirectory", kind: path, doc: "where experiments keep their trials' files; below the state directory by default"},
	{name: "algorithmTimeout", kind: durationFrom(1), doc: "how long a tuner or assessor in a process of its own may take to start, for one proposal or one result; then it is started anew; 10m by default"},
	{name: "tunerGpuIndices", kind: indices, doc: "GPUs that the tuner's process sees; none by default"},
	{name: "includeIntermediateResults", kind: boolean, doc: "give the last intermediate result of an early-stopped trial to the tuner"},
	{name: "tuner", kind: object(algorithm), doc: "proposes parameters"},
	{name: "assessor", kind: object(algorithm), doc: "stops trials early"},
	{name: "advisor", kind: object(algorithm), doc: "NNI's old word for a tuner that also stops trials"},
	{name: "trainingService", kind: services, required: true, doc: "where trials run; a list for several"},
	{name: "sharedStorage", kind: object(sharedStorage), doc: "a file system that all machines see"},
}}).with(trialKeys...)

var algorithm = &section{keys: []key{
	{name: "name", kind: text, doc: "a built-in algorithm"},
	{name: "className", kind: text, doc: "module.Class of an algorithm of your own"},
	{name: "codeDirectory", kind: existingDirectory, doc: "where the module of className is; where command runs, the file's own directory by default"},
	{name: "command", kind: text, doc: "a program in any language that proposes, or judges, by JSON lines"},
	{name: "classArgs", kind: free, doc: "the algorithm's arguments"},
}}

var sharedStorage = &section{keys: []key{
	{name: "storageType", kind: oneOf("NFS", "AzureBlob"), required: true, doc: "what kind of storage"},
	{name: "localMountPoint", kind: path, required: true, doc: "where it is mounted on this machine"},
	{name: "remoteMountPoint", kind: text, required: true, doc: "where remote machines have it, from the home directory on where it is relative"},
	{name: "localMounted", kind: oneOf("usermount", "nnimount", "nomount"), required: true, doc: "who mounts it on this machine"},
	{name: "nfsServer", kind: text, doc: "NFS: the server's address"},
	{name: "exportedDirectory", kind: text, doc: "NFS: the exported directory"},
	{name: "storageAccountName", kind: text, doc: "AzureBlob: the account"},
	{name: "storageAccountKey", kind: text, doc: "AzureBlob: accepted and not used, since starter mounts no blobs"},
	{name: "containerName", kind: text, doc: "AzureBlob: the container"},
}}
