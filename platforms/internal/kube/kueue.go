package kube

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	queueLabel = "kueue.x-k8s.io/queue-name"
	// noQueue is one that nobody has, so that Kueue never lets out what names it. Without a
	// label it would take a namespace's default queue.
	noQueue = "perennial-ended"
)

// workloads is the kind in which Kueue keeps what it thinks of an object, and localQueues
// are what users name.
var (
	workloads   = ofKueue("workloads")
	localQueues = ofKueue("localqueues")
)

func ofKueue(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: resource}
}

// unqueued are kinds that Kueue knows nothing of and never holds back. Its MPIJob is that
// of the MPI operator, of another version than the training operator's.
var unqueued = []string{"AdaptDLJob", "Framework", "MPIJob"}

// QueuedKinds are the names of those that a queue of Kueue holds back.
func QueuedKinds() []string {
	return slices.DeleteFunc(Kinds(), func(name string) bool { return slices.Contains(unqueued, name) })
}

// served calls with a resource in its version, and for one of Kueue's with the version
// before, where the cluster does not serve it.
func served(resource schema.GroupVersionResource, call func(schema.GroupVersionResource) error) error {
	err := call(resource)
	if resource.Group == workloads.Group && apierrors.IsNotFound(err) {
		resource.Version = "v1beta1"
		err = call(resource)
	}
	return err
}

// isQueued tells whether Kueue may begin an object when it likes.
func isQueued(u *unstructured.Unstructured) bool {
	queue := u.GetLabels()[queueLabel]
	return queue != "" && queue != noQueue
}

// isHeldBack tells whether an object's spec lets no pod be: whoever queues it may say so
// before the object's own status does.
func (k jobKind) isHeldBack(u *unstructured.Unstructured) bool {
	spec, _ := u.Object["spec"].(object)
	return k.suspended != nil && holds(spec, k.suspended)
}

// saidByKueue is why an object is not admitted, in Kueue's own words.
func (s *site) saidByKueue(ctx context.Context, held *unstructured.Unstructured) string {
	var list *unstructured.UnstructuredList
	err := served(workloads, func(resource schema.GroupVersionResource) (err error) {
		list, err = s.cluster.dynamic.Resource(resource).Namespace(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: "kueue.x-k8s.io/job-uid=" + string(held.GetUID())})
		return err
	})
	if err != nil || len(list.Items) == 0 {
		return ""
	}
	for _, each := range listOf(&list.Items[0], "status", "conditions") {
		if c, ok := each.(object); ok && (c["type"] == "QuotaReserved" || c["type"] == "Admitted") && c["status"] != "True" {
			return text(c, "message")
		}
	}
	return ""
}
