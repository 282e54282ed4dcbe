package experiment

import (
	"fmt"
	"os"
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
	switch get[string](v, "operator") {
	case "tf-operator":
		r.require(v, "worker")
		r.refuse(v, "master", "tf-operator has no master")
	case "pytorch-operator":
		r.require(v, "master")
		r.refuse(v, "ps", "pytorch-operator has no ps")
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
		r.require(storage, "azureAccount", "azureShare", "keyVaultName", "keyVaultKey")
	case "pvc":
		r.require(storage, "path")
	}
}

func checkFrameworkcontroller(r *reader, v *values) {
	r.storage(v)
	if !v.has("configPath") {
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
