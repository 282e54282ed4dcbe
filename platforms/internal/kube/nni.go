package kube

import (
	"fmt"
	"time"

	"github.com/perennial-ml/perennial/platforms"
)

// NNIRole is a role of NNI's files for Kubernetes.
type NNIRole struct {
	Command  string `json:"command"`
	GPUs     int    `json:"gpuNumber"`
	CPUs     int    `json:"cpuNumber"`
	Memory   int64  `json:"memorySize"` // MiB
	Image    string `json:"dockerImage"`
	Registry string `json:"privateRegistryAuthPath"`
}

// SpellingOfNNI is Section.Spelling of NNI's training services.
var SpellingOfNNI = map[string]string{"kind": "", "volumes[0]": "storage.claimName", "serviceAccount": "serviceAccountName"}

// TraitsOfNNI are those of NNI's training services on Kubernetes.
func TraitsOfNNI(name string) platforms.Traits {
	return platforms.Traits{Name: name, CopiesCode: true, TriedFirst: true, KeepsIntent: true, PollInterval: time.Second, Losable: 2}
}

// Pods are the role's, with the storage mounted by them alone; place is the role's in
// the section, for faults.
func (r NNIRole) Pods(place string, storage NNIStorage) (Pod, platforms.OptionFaults) {
	pod := Pod{Image: r.Image, CPU: fmt.Sprint(r.CPUs), Memory: fmt.Sprintf("%dMi", r.Memory), GPUs: &r.GPUs}
	storage.mountIn(&pod)
	if r.Registry == "" {
		return pod, nil
	}
	if fault := checkRegistry(r.Registry); fault != nil {
		fault.Field = place + ".privateRegistryAuthPath"
		return pod, platforms.OptionFaults{*fault}
	}
	pod.pullBy(registrySecret(r.Registry))
	return pod, nil
}
