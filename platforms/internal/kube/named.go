package kube

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/perennial-ml/perennial/platforms"
)

// named is something of the cluster that a section names.
type named struct {
	field    string // of the section
	what     string // in words
	resource schema.GroupVersionResource
	name     string
	global   bool // it is in no namespace
	hint     string
}

func core(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: resource}
}

var priorityClasses = schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1", Resource: "priorityclasses"}

// named are all that the section names, the namespace first.
func (s *site) named() []named {
	all := []named{{"namespace", "namespace", core("namespaces"), s.namespace, true, "kubectl create namespace " + s.namespace}}
	if s.section.Queue != "" {
		all = append(all, named{"queue", "queue of Kueue", localQueues, s.section.Queue, false, "kubectl get localqueues --namespace " + s.namespace})
	}
	for _, role := range s.section.Roles {
		all = append(all, role.Pod.named(s.namespace)...)
	}
	return all
}

func (p Pod) named(namespace string) (all []named) {
	for _, name := range p.ImagePullSecrets {
		all = append(all, named{"imagePullSecrets", "secret", secretsResource, name, false, fmt.Sprintf("kubectl create secret docker-registry %s --namespace %s", name, namespace)})
	}
	if p.ServiceAccount != "" {
		all = append(all, named{"serviceAccount", "service account", core("serviceaccounts"), p.ServiceAccount, false, "kubectl get serviceaccounts --namespace " + namespace})
	}
	if p.PriorityClass != "" {
		all = append(all, named{"priorityClass", "priority class", priorityClasses, p.PriorityClass, true, "kubectl get priorityclasses"})
	}
	for i, volume := range p.Volumes {
		all = append(all, volumeNamed(fmt.Sprintf("volumes[%d]", i), volume)...)
	}
	return all
}

// volumeNamed is what a volume of the section stands on.
func volumeNamed(field string, volume any) (all []named) {
	written, _ := volume.(object)
	for source, of := range map[string]struct {
		key, what string
		resource  schema.GroupVersionResource
	}{
		"persistentVolumeClaim": {"claimName", "persistent volume claim", claims},
		"configMap":             {"name", "config map", configMaps},
		"secret":                {"secretName", "secret", secretsResource},
	} {
		inside, _ := written[source].(object)
		if name := text(inside, of.key); name != "" && inside["optional"] != true {
			all = append(all, named{field, of.what, of.resource, name, false, ""})
		}
	}
	return all
}

// tryNamed looks whether all that the section names is there. What we may not see is
// taken to be.
func (s *site) tryNamed(ctx context.Context, state *platforms.HostState) error {
	for _, each := range s.named() {
		err := s.find(ctx, each)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			return err
		}
		if !apierrors.IsNotFound(err) {
			continue
		}
		state.Faults = append(state.Faults, each.missing(s.namespace))
		if each.field == "namespace" {
			return nil
		}
	}
	return nil
}

func (s *site) find(ctx context.Context, wanted named) error {
	ctx, cancel := context.WithTimeout(ctx, tryPatience)
	defer cancel()
	return served(wanted.resource, func(resource schema.GroupVersionResource) (err error) {
		namespace := s.namespace
		if wanted.global {
			namespace = ""
		}
		_, err = s.cluster.dynamic.Resource(resource).Namespace(namespace).Get(ctx, wanted.name, metav1.GetOptions{})
		return err
	})
}

func (n named) missing(namespace string) platforms.OptionFault {
	message := fmt.Sprintf("the cluster has no %s %q", n.what, n.name)
	if !n.global {
		message += " in namespace " + namespace
	}
	return platforms.OptionFault{Field: n.field, Message: message, Hint: n.hint}
}
