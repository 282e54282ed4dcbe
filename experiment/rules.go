package experiment

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// What no single key of a training service can tell. Trial keys of the top level
// are copied down before.

func (r *reader) require(v *values, names ...string) {
	for _, name := range names {
		if !v.has(name) {
			r.missing(v, name)
		}
	}
}

// gpus is what a trial asks for; unset counts as 0.
func gpus(v *values) int64 { return get[int64](v, "trialGpuNumber") }

func checkLocal(r *reader, v *values) {
	if gpus(v) > 0 && !v.has("useActiveGpu") {
		r.missingAt(v.node, "useActiveGpu", "trialGpuNumber is above 0: say whether GPUs on which others' processes run may be used")
	}
	r.sharing(v, v)
	r.enoughIndices(v)
}

// enoughIndices finds a trial that asks for more GPUs than it may use.
func (r *reader) enoughIndices(v *values) {
	if listed := len(get[[]int](v, "gpuIndices")); listed > 0 && gpus(v) > int64(listed) {
		r.fault(v.at("gpuIndices"), fmt.Sprintf("names %d GPUs, and a trial asks for %d", listed, gpus(v)), "name more, or lower trialGpuNumber")
	}
}

// sharing finds a GPU shared by trials that use none. v1 knew no such rule.
func (r *reader) sharing(v, service *values) {
	if get[int64](v, "maxTrialNumberPerGpu") == 1 || !v.has("maxTrialNumberPerGpu") || gpus(service) > 0 {
		return
	}
	const message = "needs a trialGpuNumber above 0"
	if r.converted {
		r.warn(v.at("maxTrialNumberPerGpu"), message, "")
		return
	}
	r.fault(v.at("maxTrialNumberPerGpu"), message, "")
}

func checkRemote(r *reader, v *values) {
	machines := v.children("machineList")
	if len(machines) == 0 && v.at("machineList").Kind == yaml.SequenceNode && len(v.at("machineList").Content) == 0 {
		r.fault(v.at("machineList"), "must name at least one machine", "each is a mapping that begins with its name or address")
	}
	for _, m := range machines {
		r.sharing(m, v)
		r.keyFile(m)
	}
}

// keyFile finds out whether a key that is named is there. Where none is, ssh's own
// are tried, and its agent's.
func (r *reader) keyFile(m *values) {
	file := get[string](m, "sshKeyFile")
	if file == "" {
		return
	}
	if m.has("password") {
		r.warn(m.at("sshKeyFile"), "is not used: the machine has a password, which wins as it did in NNI", "remove one of them")
		return
	}
	if info, err := os.Stat(file); err != nil || info.IsDir() {
		r.fault(m.at("sshKeyFile"), "there is no such key file", "it was looked for at "+file)
	}
}

func checkOpenpai(r *reader, v *values) {
	if v.has("openpaiConfig") && v.has("openpaiConfigFile") {
		r.fault(v.at("openpaiConfigFile"), "a file has either openpaiConfig or openpaiConfigFile", "remove one of them")
	}
	r.credentials(v)
	withScheme(v, "host")
	if !v.has("openpaiConfig") && !v.has("openpaiConfigFile") {
		r.require(v, "trialCpuNumber", "trialMemorySize", "trialGpuNumber", "storageConfigName")
	}
	if shared := get[int64](v, "sharedMemorySize"); v.has("trialMemorySize") && shared > get[int64](v, "trialMemorySize") {
		r.fault(v.at("sharedMemorySize"), "is more than the trial's memory", "")
	}
}

// checkDLTS takes for the cluster's storage what NNI did where nothing is said: the code
// lies there, at the path by which containers know it.
func checkDLTS(r *reader, v *values) {
	withScheme(v, "dashboard")
	r.require(v, "trialGpuNumber")
	if !v.has("localStorageMountPoint") {
		code := get[string](v, "trialCodeDirectory")
		if code == "" {
			code, _ = r.resolve(".") // fails only on ~
		}
		around := filepath.Dir(code)
		v.entries["localStorageMountPoint"] = entry{value: around}
		r.warn(v.at("platform"), "code and results go through "+around+", which trials must find at the same path",
			"say where the cluster's storage is by localStorageMountPoint and containerStorageMountPoint")
	}
	if !v.has("containerStorageMountPoint") {
		v.entries["containerStorageMountPoint"] = v.entries["localStorageMountPoint"]
	}
}

// withScheme completes an address that was given without one.
func withScheme(v *values, name string) {
	if host := v.entries[name]; get[string](v, name) != "" && !strings.Contains(get[string](v, name), "://") {
		v.entries[name] = entry{host.node, "https://" + get[string](v, name)}
	}
}

func checkPaiYarn(r *reader, v *values) {
	r.credentials(v)
	r.require(v, "trialGpuNumber")
}

func (r *reader) credentials(v *values) {
	switch {
	case v.has("token") && v.has("password"):
		r.fault(v.at("password"), "a file has either a token or a password", "remove one of them")
	case !v.has("token") && !v.has("password"):
		r.missing(v, "token")
	}
}

func checkKubeflow(r *reader, v *values) {
	r.storage(v)
	r.ownPods(v)
	if version := get[string](v, "apiVersion"); version != "" && version != "v1" {
		r.warn(v.at("apiVersion"), "v1 is used: clusters serve no other any more", "write v1")
	}
	for _, name := range []string{"worker", "ps", "master"} {
		role := get[*values](v, name)
		if role != nil && get[string](role, "codeDirectory") != "" && get[string](role, "codeDirectory") != "." {
			r.warn(role.at("codeDirectory"), "means nothing here: every role's command runs in the code of trialCodeDirectory", "remove it")
		}
	}
	switch get[string](v, "operator") {
	case "tf-operator":
		r.require(v, "worker")
		r.refuse(v, "master", "tf-operator has no master")
	case "pytorch-operator":
		r.require(v, "master")
		r.refuse(v, "ps", "pytorch-operator has no ps")
	}
}

// ownPods finds keys that mean nothing where every trial has pods of its own.
func (r *reader) ownPods(v *values) {
	if written := v.entries["reuseMode"]; written.node != nil && written.value == true {
		r.warn(written.node, "means nothing here: every trial has pods of its own, and nothing is installed in them", "remove it")
	}
	if gpus(v) > 0 {
		r.warn(v.at("trialGpuNumber"), "means nothing here: gpuNumber of each role counts", "remove it")
	}
}

func (r *reader) refuse(v *values, name, message string) {
	if v.has(name) {
		r.fault(v.at(name), message, "remove it")
	}
}

func (r *reader) storage(v *values) {
	storage := get[*values](v, "storage")
	if storage == nil {
		return
	}
	switch get[string](storage, "storageType") {
	case "nfs":
		r.require(storage, "server", "path")
	case "azureStorage":
		r.require(storage, "azureAccount", "azureShare")
		if !storage.has("azureAccountKey") {
			r.require(storage, "keyVaultName", "keyVaultKey")
		}
	case "pvc":
		r.claim(v, storage)
	}
}

// claim finds out which volume is meant: NNI mounted none, and left that to the
// Framework of configPath.
func (r *reader) claim(v, storage *values) {
	if !storage.has("claimName") && !v.has("configPath") && !v.has("framework") {
		r.missingAt(storage.node, "claimName", "the persistent volume claim that pods mount at /tmp/mount")
	}
	if storage.has("path") {
		r.warn(storage.at("path"), "means nothing here: no code or result goes through the storage, which pods alone mount", "remove it")
	}
}

func checkFrameworkcontroller(r *reader, v *values) {
	r.storage(v)
	r.ownPods(v)
	r.framework(v)
	if !v.has("framework") && !v.has("configPath") {
		r.require(v, "taskRoles")
	}
	first := map[string]int{}
	for _, role := range v.children("taskRoles") {
		name, node := get[string](role, "name"), role.at("name")
		if line := first[name]; line != 0 {
			r.fault(node, fmt.Sprintf("the role %s is there twice", quoted(name)), fmt.Sprintf("the first is in line %d", line))
		}
		first[name] = node.Line
	}
}

// framework reads the file of configPath: what is stored must not change with it.
func (r *reader) framework(v *values) {
	file := get[string](v, "configPath")
	if file == "" {
		return
	}
	node := v.at("configPath")
	if v.has("framework") {
		r.fault(node, "a file has either configPath or framework", "remove one of them")
		return
	}
	if len(v.children("taskRoles")) > 0 {
		r.warn(v.at("taskRoles"), "means nothing beside configPath, whose roles count as they did in NNI", "remove one of them")
	}
	content, err := os.ReadFile(file)
	var made map[string]any
	if err == nil {
		err = yaml.Unmarshal(content, &made)
	}
	var text json.RawMessage
	if err == nil {
		text, err = json.Marshal(made)
	}
	if err != nil {
		r.fault(node, "cannot be read: "+strings.TrimPrefix(reason(err).Error(), "yaml: "), "it holds a Framework as YAML")
		return
	}
	v.entries["framework"] = entry{node, text}
}

func checkAdl(r *reader, v *values) {
	if get[bool](v, "adaptive") {
		r.warn(v.at("adaptive"), "is not done: AdaptDL would begin the trial anew in the middle, and what it has reported would count twice", "each trial keeps its one replica; remove it")
	}
}
