package kube

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/perennial-ml/perennial/trial"
)

// object is part of something that the API server takes or gives.
type object = map[string]any

// jobKind is a kind of object that runs trials.
type jobKind struct {
	resource schema.GroupVersionResource
	kind     string
	// container is what the kind wants the container of the trial to be called.
	container string
	// first is the name of the role that decides, where roles have names; rest is that
	// of all other replicas, where it is another one.
	first, rest string
	// beside is an object that each run needs beside its own; nil: none.
	beside *companion
	// spec is the object's own part around its pods.
	spec func(Section, []template) object
	// suspended merged into the spec of an object starts no pod and ends those that
	// have not begun.
	suspended object
	// condition is how far the object itself says that it is.
	condition func(*unstructured.Unstructured) condition
	// immutable is set where no spec may be changed: what has not begun is then deleted,
	// and made anew as something that never begins.
	immutable bool
	// index is the label or the annotation that numbers the pods of a role from 0.
	index string
	// lifetime is where the spec says how many seconds after its end the cluster removes
	// an object; nil: it does not.
	lifetime func(seconds int64) object
	// held keeps pods from vanishing before we have let go of them: needed where the
	// kind's controller deletes them as soon as they end.
	held bool
	// ordered is set where the command runs in the first role alone: the rest only
	// waits for orders of it.
	ordered bool
	// strangers is set where nobody but us lets the pods of a run find each other.
	strangers bool
	// around is what stands around metadata and spec, with more labels and annotations;
	// nil: nothing does.
	around object
	// bury has an object never start a pod; nil: suspended does.
	bury func(object)
	// name is the object's name; nil: nameOf.
	name func(trial.Key) string
}

// template is the template of the pods of a role.
type template struct {
	Role
	object string // name of the run's object
	pod    object
}

// condition is how far an object is, by its own words.
type condition struct {
	over      bool
	succeeded bool
	suspended bool
	reason    trial.Reason // why it waits, or failed
	ended     time.Time
}

var kinds = map[string]jobKind{"Job": batchJob, "PyTorchJob": pytorchJob, "TFJob": tfJob, "XGBoostJob": xgboostJob, "PaddleJob": paddleJob, "JAXJob": jaxJob, "MPIJob": mpiJob, "Framework": framework, "JobSet": jobSet, "TrainJob": trainJob, "AdaptDLJob": adaptDLJob}

// jobKind is the section's kind.
func (s Section) jobKind() jobKind {
	if s.custom != nil {
		return *s.custom
	}
	return kinds[s.Kind]
}

// Kinds are the names of the kinds that there are.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

// KeptKinds are the names of those that the cluster removes some time after their end.
func KeptKinds() []string {
	return slices.DeleteFunc(Kinds(), func(name string) bool { return kinds[name].lifetime == nil })
}

// ttl is a lifetime in a spec itself.
func ttl(seconds int64) object { return object{"ttlSecondsAfterFinished": seconds} }

// Roles are those of a kind for as many replicas, all alike. The first decides.
func Roles(kind string, replicas int, pod Pod) []Role {
	k := kinds[kind]
	if k.ordered {
		return []Role{{Name: k.first, Replicas: 1, Pod: pod}, {Name: k.rest, Replicas: replicas, Pod: pod, Waits: true}}
	}
	if k.rest == "" || replicas == 1 {
		return []Role{{Name: k.first, Replicas: replicas, Pod: pod}}
	}
	return []Role{{Name: k.first, Replicas: 1, Pod: pod}, {Name: k.rest, Replicas: replicas - 1, Pod: pod}}
}

// nameOf is the name of a run's object.
func (k jobKind) nameOf(key trial.Key) string {
	if k.name != nil {
		return k.name(key)
	}
	return nameOf(key)
}

func (k jobKind) apiVersion() string { return k.resource.GroupVersion().String() }

// conditionsOf returns the conditions of an object that are True, by type.
func conditionsOf(u *unstructured.Unstructured) map[string]object {
	held := map[string]object{}
	for _, each := range listOf(u, "status", "conditions") {
		if c, ok := each.(object); ok && c["status"] == "True" {
			kind, _ := c["type"].(string)
			held[kind] = c
		}
	}
	return held
}

// listOf is a list of an object, to be read only: each pod is looked at several times a
// second, and a copy would cost more than all else.
func listOf(u *unstructured.Unstructured, fields ...string) []any {
	found, _, _ := unstructured.NestedFieldNoCopy(u.Object, fields...)
	list, _ := found.([]any)
	return list
}

func text(o object, field string) string {
	value, _ := o[field].(string)
	return value
}

func timeOf(o object, field string) time.Time {
	parsed, _ := time.Parse(time.RFC3339, text(o, field))
	return parsed
}
