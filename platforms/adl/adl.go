// Package adl runs trials as NNI's training service of that name did: as AdaptDL's
// jobs, whose code is in their image.
package adl

import (
	"encoding/json"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/kube"
)

// Name is the platform's name in configurations and handles.
const Name = "adl"

// Options say what the platform stands on.
type Options struct {
	StateDirectory string // absolute, on a disk of this machine
	Home           string // platforms.Home of the state directory
	// Runner returns the runner's binary for the nodes' kind of machine.
	Runner func(system, processor string) ([]byte, error)
}

// New returns the kind.
func New(options Options) platforms.Kind {
	traits := kube.TraitsOfNNI(Name)
	traits.CopiesCode = false
	return kube.New(kube.Options{Traits: traits, StateDirectory: options.StateDirectory, Home: options.Home, Runner: options.Runner, Read: read})
}

// section is the platform's part of an experiment file. Its adaptive is not read.
type section struct {
	Image       string    `json:"dockerImage"`
	Namespace   string    `json:"namespace"`
	PullSecrets []named   `json:"imagePullSecrets"`
	NFS         *kube.NFS `json:"nfs"`
	Checkpoint  struct {
		Class string `json:"storageClass"`
		Size  string `json:"storageSize"`
	} `json:"checkpoint"`
	CPUs   int    `json:"trialCpuNumber"`
	Memory string `json:"memorySize"`
}

type named struct {
	Name string `json:"name"`
}

func read(options json.RawMessage) (kube.Section, error) {
	var written section
	if err := json.Unmarshal(options, &written); err != nil {
		return kube.Section{}, platforms.OptionFaults{{Message: "cannot be read: " + err.Error()}}
	}
	asked := kube.AdaptDL{Image: written.Image, CPUs: written.CPUs, Memory: written.Memory, NFS: written.NFS,
		StorageClass: written.Checkpoint.Class, StorageSize: written.Checkpoint.Size}
	for _, secret := range written.PullSecrets {
		asked.PullSecrets = append(asked.PullSecrets, secret.Name)
	}
	pod, faults := asked.Pod()
	if faults != nil {
		return kube.Section{}, faults
	}
	return kube.Section{Kind: "AdaptDLJob", Namespace: written.Namespace, NNIPlatform: Name, CodeInImage: true, Spelling: kube.SpellingOfNNI,
		Roles: []kube.Role{{Replicas: 1, Pod: pod}}}, nil
}
