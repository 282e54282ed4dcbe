// Package frameworkcontroller runs trials as NNI's training service of that name did:
// as Frameworks of FrameworkController, each of several roles with several tasks.
package frameworkcontroller

import (
	"encoding/json"
	"fmt"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/kube"
)

// Name is the platform's name in configurations and handles.
const Name = "frameworkcontroller"

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

// section is the platform's part of an experiment file.
type section struct {
	Namespace      string          `json:"namespace"`
	ServiceAccount string          `json:"serviceAccountName"`
	Storage        kube.NNIStorage `json:"storage"`
	Roles          []role          `json:"taskRoles"`
	Template       *framework      `json:"framework"` // instead of roles
}

type role struct {
	kube.NNIRole
	Name   string  `json:"name"`
	Tasks  int     `json:"taskNumber"`
	Policy *policy `json:"frameworkAttemptCompletionPolicy"`
}

type policy struct {
	MinFailed    int64 `json:"minFailedTaskCount"`
	MinSucceeded int64 `json:"minSucceedTaskCount"`
}

func read(options json.RawMessage) (kube.Section, error) {
	var written section
	if err := json.Unmarshal(options, &written); err != nil {
		return kube.Section{}, platforms.OptionFaults{{Message: "cannot be read: " + err.Error()}}
	}
	made := kube.Section{Kind: "Framework", Namespace: written.Namespace, NNIPlatform: Name, Spelling: kube.SpellingOfNNI}
	var faults platforms.OptionFaults
	if written.Template != nil {
		made.Roles, faults = written.Template.roles(written)
		written.Roles = nil
	}
	for i, each := range written.Roles {
		role, wrong := each.pods(fmt.Sprintf("taskRoles[%d]", i), written)
		faults, made.Roles = append(faults, wrong...), append(made.Roles, role)
	}
	if faults != nil || len(made.Roles) == 0 {
		return kube.Section{}, faults
	}
	return made, nil
}

func (r role) pods(place string, s section) (kube.Role, platforms.OptionFaults) {
	pod, faults := r.Pods(place, s.Storage)
	pod.ServiceAccount = s.ServiceAccount
	made := kube.Role{Name: r.Name, Replicas: r.Tasks, Command: r.Command, Pod: pod}
	if r.Policy != nil {
		made.Policy = map[string]any{"minFailedTaskCount": r.Policy.MinFailed, "minSucceededTaskCount": r.Policy.MinSucceeded}
	}
	return made, faults
}
