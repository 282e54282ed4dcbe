// Package kubeflow runs trials as NNI's training service of that name did: as TFJobs
// and PyTorchJobs of Kubeflow's training-operator, one pod or several for each trial.
package kubeflow

import (
	"encoding/json"
	"strings"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/kube"
)

// Name is the platform's name in configurations and handles.
const Name = "kubeflow"

// Options say what the platform stands on.
type Options struct {
	StateDirectory string // absolute, on a disk of this machine
	Home           string // platforms.Home of the state directory
	// Runner returns the runner's binary for the nodes' kind of machine.
	Runner func(system, processor string) ([]byte, error)
}

// New returns the kind.
func New(options Options) platforms.Kind {
	return kube.New(kube.Options{Traits: kube.TraitsOfNNI(Name), StateDirectory: options.StateDirectory, Home: options.Home, Runner: options.Runner, Read: read})
}

// section is the platform's part of an experiment file. Its apiVersion is not read:
// of all that NNI knew only v1 is left on clusters.
type section struct {
	Operator  string          `json:"operator"`
	Namespace string          `json:"namespace"`
	Storage   kube.NNIStorage `json:"storage"`
	Worker    *role           `json:"worker"`
	PS        *role           `json:"ps"`
	Master    *role           `json:"master"`
}

type role struct {
	kube.NNIRole
	Replicas int `json:"replicas"`
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
	made := kube.Section{Kind: operator.kind, Namespace: written.Namespace, NNIPlatform: Name, Spelling: kube.SpellingOfNNI}
	var faults platforms.OptionFaults
	for _, each := range operator.roles(written) {
		if each.role == nil {
			continue
		}
		pod, wrong := each.role.Pods(strings.ToLower(each.name), written.Storage)
		faults = append(faults, wrong...)
		made.Roles = append(made.Roles, kube.Role{Name: each.name, Replicas: each.role.Replicas, Command: each.role.Command, Pod: pod})
	}
	if len(made.Roles) == 0 || faults != nil {
		return kube.Section{}, faults
	}
	return made, nil
}
