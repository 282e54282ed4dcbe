// Package kubeflow runs trials as NNI's training service of that name did: as TFJobs
// and PyTorchJobs of Kubeflow's training-operator, one pod or several for each trial.
package kubeflow

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/kube"
)

// Name is the platform's name in configurations and handles.
const Name = "kubeflow"

// storageMount is where NNI mounts the storage in its containers.
const storageMount = "/tmp/mount"

// Options say what the platform stands on.
type Options struct {
	StateDirectory string // absolute, on a disk of this machine
	// Runner returns the runner's binary for the nodes' kind of machine.
	Runner func(system, processor string) ([]byte, error)
}

// New returns the kind.
func New(options Options) platforms.Kind {
	return kube.New(kube.Options{
		Traits:         platforms.Traits{Name: Name, CopiesCode: true, KeepsIntent: true, PollInterval: time.Second, Losable: 2},
		StateDirectory: options.StateDirectory, Runner: options.Runner, Read: read,
	})
}

// section is the platform's part of an experiment file. Its apiVersion is not read:
// of all that NNI knew only v1 is left on clusters.
type section struct {
	Operator  string  `json:"operator"`
	Namespace string  `json:"namespace"`
	Storage   storage `json:"storage"`
	Worker    *role   `json:"worker"`
	PS        *role   `json:"ps"`
	Master    *role   `json:"master"`
}

type storage struct {
	Kind   string `json:"storageType"`
	Server string `json:"server"`
	Path   string `json:"path"`
}

type role struct {
	Replicas int    `json:"replicas"`
	Command  string `json:"command"`
	GPUs     int    `json:"gpuNumber"`
	CPUs     int    `json:"cpuNumber"`
	Memory   int64  `json:"memorySize"` // MiB
	Image    string `json:"dockerImage"`
	Registry string `json:"privateRegistryAuthPath"`
}

// operators are the kinds that NNI's operators run, and the roles of their files,
// the one that decides first.
var operators = map[string]struct {
	kind  string
	roles func(section) []named
}{
	"tf-operator":      {"TFJob", func(s section) []named { return []named{{"Worker", s.Worker}, {"PS", s.PS}} }},
	"pytorch-operator": {"PyTorchJob", func(s section) []named { return []named{{"Master", s.Master}, {"Worker", s.Worker}} }},
}

type named struct {
	name string
	role *role
}

func read(options json.RawMessage) (kube.Section, error) {
	var written section
	if err := json.Unmarshal(options, &written); err != nil {
		return kube.Section{}, platforms.OptionFaults{{Message: "cannot be read: " + err.Error()}}
	}
	operator, known := operators[written.Operator]
	if !known {
		return kube.Section{}, platforms.OptionFaults{{Field: "operator", Message: "is missing", Hint: "tf-operator or pytorch-operator"}}
	}
	volumes, mounts, faults := written.Storage.volumes()
	made := kube.Section{Kind: operator.kind, Namespace: written.Namespace, NNIPlatform: Name}
	for _, each := range operator.roles(written) {
		if each.role == nil {
			continue
		}
		faults = append(faults, each.role.faults(each.name)...)
		made.Roles = append(made.Roles, each.role.pods(each.name, volumes, mounts))
	}
	if len(made.Roles) == 0 || faults != nil {
		return kube.Section{}, faults
	}
	return made, nil
}

// volumes are the storage as a pod has it: pods alone mount it.
func (s storage) volumes() (volumes, mounts []any, faults platforms.OptionFaults) {
	if s.Kind != "nfs" {
		return nil, nil, platforms.OptionFaults{{Field: "storage.storageType", Message: fmt.Sprintf("%q cannot be used here yet", s.Kind),
			Hint: "nfs, or platform kubernetes with any volume of Kubernetes"}}
	}
	volumes = []any{map[string]any{"name": "nni-vol", "nfs": map[string]any{"server": s.Server, "path": s.Path}}}
	return volumes, []any{map[string]any{"name": "nni-vol", "mountPath": storageMount}}, nil
}

func (r role) faults(name string) (faults platforms.OptionFaults) {
	if r.Registry != "" {
		faults = append(faults, platforms.OptionFault{Field: name + ".privateRegistryAuthPath", Message: "cannot be used here yet",
			Hint: "make a secret of it once (kubectl create secret docker-registry) and add it to the namespace's default service account"})
	}
	return faults
}

func (r role) pods(name string, volumes, mounts []any) kube.Role {
	return kube.Role{Name: name, Replicas: r.Replicas, Command: r.Command, Pod: kube.Pod{
		Image: r.Image, CPU: fmt.Sprint(r.CPUs), Memory: fmt.Sprintf("%dMi", r.Memory), GPUs: &r.GPUs, Volumes: volumes, Mounts: mounts}}
}
