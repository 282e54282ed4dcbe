package kube

import (
	"fmt"
	"time"

	"github.com/perennial-ml/perennial/platforms"
)

// storageMount is where NNI mounts the storage in its containers.
const storageMount = "/tmp/mount"

// NNIStorage is the storage that NNI's files for Kubernetes name.
type NNIStorage struct {
	Kind   string `json:"storageType"`
	Server string `json:"server"`
	Path   string `json:"path"`
}

// NNIRole is a role of NNI's files for Kubernetes.
type NNIRole struct {
	Command  string `json:"command"`
	GPUs     int    `json:"gpuNumber"`
	CPUs     int    `json:"cpuNumber"`
	Memory   int64  `json:"memorySize"` // MiB
	Image    string `json:"dockerImage"`
	Registry string `json:"privateRegistryAuthPath"`
}

// TraitsOfNNI are those of NNI's training services on Kubernetes.
func TraitsOfNNI(name string) platforms.Traits {
	return platforms.Traits{Name: name, CopiesCode: true, KeepsIntent: true, PollInterval: time.Second, Losable: 2}
}

// Pods are the role's, with the storage mounted by them alone; place is the role's in
// the section, for faults.
func (r NNIRole) Pods(place string, storage NNIStorage) (Pod, platforms.OptionFaults) {
	var faults platforms.OptionFaults
	if storage.Kind != "nfs" {
		faults = append(faults, platforms.OptionFault{Field: "storage.storageType", Message: fmt.Sprintf("%q cannot be used here yet", storage.Kind),
			Hint: "nfs, or platform kubernetes with any volume of Kubernetes"})
	}
	if r.Registry != "" {
		faults = append(faults, platforms.OptionFault{Field: place + ".privateRegistryAuthPath", Message: "cannot be used here yet",
			Hint: "make a secret of it once (kubectl create secret docker-registry) and add it to the namespace's default service account"})
	}
	return Pod{Image: r.Image, CPU: fmt.Sprint(r.CPUs), Memory: fmt.Sprintf("%dMi", r.Memory), GPUs: &r.GPUs,
		Volumes: []any{object{"name": "nni-vol", "nfs": object{"server": storage.Server, "path": storage.Path}}},
		Mounts:  []any{object{"name": "nni-vol", "mountPath": storageMount}}}, faults
}
