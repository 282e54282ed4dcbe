// Package kubernetes runs trials on a Kubernetes cluster, as NNI never did: with
// nothing but what every cluster has.
package kubernetes

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/kube"
)

// Name is the platform's name in configurations and handles.
const Name = "kubernetes"

// Options say what the platform stands on.
type Options struct {
	StateDirectory string // absolute, on a disk of this machine
	Home           string // platforms.Home of the state directory
	// Runner returns the runner's binary for the nodes' kind of machine.
	Runner func(system, processor string) ([]byte, error)
}

// New returns the kind.
func New(options Options) platforms.Kind {
	return kube.New(kube.Options{
		Traits:         platforms.Traits{Name: Name, CopiesCode: true, TriedFirst: true, KeepsIntent: true, PollInterval: time.Second, Losable: 2},
		StateDirectory: options.StateDirectory, Home: options.Home, Runner: options.Runner, Read: read,
	})
}

// section is the platform's part of an experiment file.
type section struct {
	Kind             string            `json:"kind"`
	Image            string            `json:"image"`
	Replicas         int               `json:"replicas"`
	Namespace        string            `json:"namespace"`
	Kubeconfig       string            `json:"kubeconfig"`
	Context          string            `json:"context"`
	CPU              string            `json:"cpu"`
	Memory           string            `json:"memory"`
	GPUResource      string            `json:"gpuResource"`
	ServiceAccount   string            `json:"serviceAccount"`
	ImagePullSecrets []string          `json:"imagePullSecrets"`
	NodeSelector     map[string]string `json:"nodeSelector"`
	PriorityClass    string            `json:"priorityClass"`
	Tolerations      []any             `json:"tolerations"`
	Volumes          []any             `json:"volumes"`
	VolumeMounts     []any             `json:"volumeMounts"`
	Queue            string            `json:"queue"`
	ImagePullLimit   int64             `json:"imagePullLimit"` // seconds
	KeepFor          int64             `json:"keepFor"`        // seconds
	PodPatch         map[string]any    `json:"podPatch"`
	Code             kube.CodeSource   `json:"code"`
	RunnerImage      string            `json:"runnerImage"`
	Custom           *custom           `json:"custom"`
}

// custom is a kind of object that the user brings.
type custom struct {
	Manifest  map[string]any `json:"manifest"`
	Resource  string         `json:"resource"`
	Pods      []place        `json:"pods"`
	Container string         `json:"container"`
	Succeeded string         `json:"succeeded"`
	Failed    string         `json:"failed"`
	Reason    string         `json:"reason"`
	Suspend   map[string]any `json:"suspend"`
	Index     string         `json:"index"`
}

// place is where pods that are alike have their template.
type place struct {
	Path     string `json:"path"`
	Replicas int    `json:"replicas"`
}

func (c custom) kind() kube.Custom {
	made := kube.Custom{Manifest: c.Manifest, Resource: c.Resource, Container: c.Container, Succeeded: c.Succeeded, Failed: c.Failed,
		Reason: c.Reason, Suspend: c.Suspend, Index: c.Index}
	for _, each := range c.Pods {
		made.Pods = append(made.Pods, kube.CustomPods(each))
	}
	return made
}

func read(options json.RawMessage) (kube.Section, error) {
	var written section
	decoder := json.NewDecoder(bytes.NewReader(options))
	if err := decoder.Decode(&written); err != nil {
		return kube.Section{}, platforms.OptionFaults{{Message: "cannot be read: " + err.Error()}}
	}
	var faults platforms.OptionFaults
	if written.Image == "" && written.Kind != kube.CustomKind {
		faults = append(faults, platforms.OptionFault{Field: "image", Message: "is missing", Hint: "the container image that trials run in"})
	}
	written.Kind = cmp.Or(written.Kind, "Job")
	if known := append(kube.Kinds(), kube.CustomKind); !slices.Contains(known, written.Kind) {
		faults = append(faults, platforms.OptionFault{Field: "kind", Message: fmt.Sprintf("%q is no kind that runs trials", written.Kind), Hint: strings.Join(known, ", ")})
	}
	if (written.Kind == kube.CustomKind) != (written.Custom != nil) {
		faults = append(faults, platforms.OptionFault{Field: "kind", Message: "is custom where custom says what that is, and not otherwise", Hint: "write both or neither"})
	}
	if written.KeepFor > 0 && !slices.Contains(kube.KeptKinds(), written.Kind) {
		faults = append(faults, platforms.OptionFault{Field: "keepFor", Message: "is nothing that the cluster does for kind " + written.Kind, Hint: "it does for " + strings.Join(kube.KeptKinds(), ", ")})
	}
	if written.Queue != "" && !slices.Contains(append(kube.QueuedKinds(), kube.CustomKind), written.Kind) {
		faults = append(faults, platforms.OptionFault{Field: "queue", Message: "is nothing that Kueue does for kind " + written.Kind, Hint: "it does for " + strings.Join(kube.QueuedKinds(), ", ")})
	}
	faults = append(faults, written.Code.Check(written.Volumes)...)
	if fault := kube.CheckPatch(written.PodPatch); fault != nil {
		faults = append(faults, *fault)
	}
	if faults != nil {
		return kube.Section{}, faults
	}
	return written.section()
}

func (s section) section() (kube.Section, error) {
	pod := kube.Pod{Image: s.Image, CPU: s.CPU, Memory: s.Memory, GPUResource: s.GPUResource, ServiceAccount: s.ServiceAccount,
		ImagePullSecrets: s.ImagePullSecrets, NodeSelector: s.NodeSelector, PriorityClass: s.PriorityClass, Tolerations: s.Tolerations,
		Volumes: s.Volumes, Mounts: s.VolumeMounts, Patch: s.PodPatch}
	made := kube.Section{Target: kube.Target{Kubeconfig: s.Kubeconfig, Context: s.Context}, Namespace: s.Namespace, Kind: s.Kind,
		Queue: s.Queue, PullLimit: time.Duration(s.ImagePullLimit) * time.Second, NNIPlatform: "kubeflow",
		KeepFor: time.Duration(s.KeepFor) * time.Second, Code: s.Code, RunnerImage: s.RunnerImage}
	if s.Custom == nil {
		made.Roles = kube.Roles(s.Kind, max(s.Replicas, 1), pod)
		return made, nil
	}
	faults := made.OfCustom(s.Custom.kind(), pod)
	if faults == nil && s.Replicas > 1 {
		faults = append(faults, platforms.OptionFault{Field: "replicas", Message: "is not of kind custom", Hint: "say by custom.pods how many pods the manifest makes"})
	}
	for _, role := range made.Roles {
		if role.Pod.Image == "" && faults == nil {
			faults = append(faults, platforms.OptionFault{Field: "image", Message: "is missing", Hint: "the container image that trials run in, unless the manifest names one"})
		}
	}
	if faults != nil {
		return kube.Section{}, faults
	}
	return made, nil
}
