package kube

import (
	"time"

	"github.com/perennial-ml/perennial/trial"
)

// Section is what a platform's section of a configuration says.
type Section struct {
	Target
	Namespace   string // empty: the context's
	Kind        string // one of Kinds
	Roles       []Role // at least one; the first decides
	Queue       string // of Kueue
	PullLimit   time.Duration
	KeepFor     time.Duration // how long what ended stays; above 0 for one of KeptKinds only
	NNIPlatform string        // NNI_PLATFORM as trials see it
	CodeInImage bool          // the code directory is one of the image
	Code        CodeSource
	RunnerImage string // that has perennial-runner; empty: the runner is brought as code is
	custom      *jobKind
	home        string // of whoever makes its objects
	// Spelling is what the platform's section calls keys of platform kubernetes, where it
	// calls them otherwise; empty: it has none.
	Spelling map[string]string
}

// Role is pods of a trial that are alike.
type Role struct {
	Name     string
	Replicas int
	Waits    bool   // its pods do not run the command: they wait for orders of the first role's
	Command  string // empty: the job's
	Policy   object // of FrameworkController, when the whole is over; nil: when one fails or all succeed
	Task     object // of FrameworkController, what more a task says
	Pod      Pod
}

// Pod is how a role's pods are made.
type Pod struct {
	Image            string
	CPU, Memory      string // as Kubernetes writes them; empty: what the cluster gives
	GPUs             *int   // nil: the job's
	GPUResource      string // empty: nvidia.com/gpu
	ServiceAccount   string
	ImagePullSecrets []string
	NodeSelector     map[string]string
	PriorityClass    string
	Tolerations      []any
	Volumes          []any  // beside ours
	Mounts           []any  // of them, in the trial's container
	Patch            object // merged into the whole pod at last

	// What our own packages add: made once before a run, and at last to the pod.
	secrets []secret
	claim   *claim
	finish  []func(trial.Key, object)
}
