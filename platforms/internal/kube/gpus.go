package kube

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/perennial-ml/perennial/gpu"
)

var nodes = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}

// usualGPU is what clusters call a GPU where a section does not say otherwise.
const usualGPU = "nvidia.com/gpu"

// GPUs implements platforms.WithGPUs: every node that has any. A cluster counts GPUs and
// does not say which of them a pod has, so their numbers here are no more than a count.
// What cannot be asked is a fault and no error.
func (p *platform) GPUs(ctx context.Context) ([]gpu.Host, error) {
	s, err := p.site(ctx)
	if err != nil {
		return unknown(p.kind.Traits.Name, err), nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	there, err := s.cluster.dynamic.Resource(nodes).List(ctx, metav1.ListOptions{})
	if err != nil {
		return unknown("the nodes of "+p.kind.Traits.Name, err), nil
	}
	running, hidden, err := s.allPods(ctx)
	if err != nil {
		return unknown("the pods of "+p.kind.Traits.Name, err), nil
	}
	var hosts []gpu.Host
	for i := range there.Items {
		if host := s.gpusOf(&there.Items[i], running, hidden); len(host.Inventory.GPUs) > 0 {
			hosts = append(hosts, host)
		}
	}
	return hosts, nil
}

func unknown(name string, err error) []gpu.Host {
	return []gpu.Host{{Name: name, Fault: Fault("gpus", err).Error(), Elastic: true}}
}

// notOver chooses pods that have or want a node.
const notOver = "status.phase!=Succeeded,status.phase!=Failed"

// allPods are those of the whole cluster that are not over or, where they may not be
// seen, those of the section's namespace: hidden says so.
func (s *site) allPods(ctx context.Context) (all []unstructured.Unstructured, hidden string, err error) {
	list, err := s.cluster.dynamic.Resource(pods).List(ctx, metav1.ListOptions{FieldSelector: notOver})
	if apierrors.IsForbidden(err) {
		hidden = "you may not see the pods of other namespaces than " + s.namespace
		list, err = s.cluster.dynamic.Resource(pods).Namespace(s.namespace).List(ctx, metav1.ListOptions{FieldSelector: notOver})
	}
	if err != nil {
		return nil, "", err
	}
	return list.Items, hidden, nil
}

// gpuResources are what the section calls GPUs.
func (s *site) gpuResources() []string {
	names := map[string]bool{}
	for _, role := range s.section.Roles {
		names[cmp.Or(role.Pod.GPUResource, usualGPU)] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// gpusOf are a node's GPUs, each with who has requested one.
func (s *site) gpusOf(node *unstructured.Unstructured, running []unstructured.Unstructured, hidden string) gpu.Host {
	host := gpu.Host{Name: node.GetName(), Elastic: true, Inventory: gpu.Inventory{Source: "Kubernetes"}}
	allocatable, _, _ := unstructured.NestedMap(node.Object, "status", "allocatable")
	for _, name := range s.gpuResources() {
		var holders []string
		for i := range running {
			if on, _, _ := unstructured.NestedString(running[i].Object, "spec", "nodeName"); on == node.GetName() {
				holders = append(holders, slices.Repeat([]string{holder(&running[i])}, requested(&running[i], name))...)
			}
		}
		host.Inventory.GPUs = append(host.Inventory.GPUs, s.counted(node, name, amount(allocatable[name]), holders, hidden)...)
	}
	return host
}

// counted are as many GPUs as a node can give away, the first of them to those who have
// requested some.
func (s *site) counted(node *unstructured.Unstructured, name string, count int, holders []string, hidden string) []gpu.GPU {
	marks := node.GetLabels()
	all := make([]gpu.GPU, max(count, 0))
	for i := range all {
		all[i] = gpu.GPU{UUID: fmt.Sprintf("%s/%s/%d", node.GetName(), name, i), Index: i, Name: cmp.Or(marks["nvidia.com/gpu.product"], name)}
		if mebibytes, err := strconv.ParseUint(marks["nvidia.com/gpu.memory"], 10, 44); err == nil {
			bytes := mebibytes << 20
			all[i].Memory = &bytes
		}
		if i < len(holders) {
			all[i].Requested = holders[i]
		} else {
			all[i].Unknown = hidden
		}
	}
	return all
}

// holder is whose a pod is, for people.
func holder(pod *unstructured.Unstructured) string {
	if key, ours := keyOf(pod); ours {
		return fmt.Sprintf("trial %d (%s) of experiment %s", key.Sequence, key.TrialID(), key.Experiment)
	}
	return fmt.Sprintf("pod %s of namespace %s", pod.GetName(), pod.GetNamespace())
}

// requested is how many of a resource a pod has: those of its containers together, or of
// its most demanding init container.
func requested(pod *unstructured.Unstructured, name string) int {
	sum, most := 0, 0
	for _, field := range []string{"containers", "initContainers"} {
		listed, _, _ := unstructured.NestedSlice(pod.Object, "spec", field)
		for _, each := range listed {
			container, _ := each.(object)
			wanted, _, _ := unstructured.NestedMap(container, "resources", "requests")
			if field == "containers" {
				sum += amount(wanted[name])
			} else {
				most = max(most, amount(wanted[name]))
			}
		}
	}
	return max(sum, most)
}

// amount reads a quantity as a whole number.
func amount(written any) int {
	quantity, err := resource.ParseQuantity(fmt.Sprint(written))
	if err != nil {
		return 0
	}
	return int(quantity.Value())
}
