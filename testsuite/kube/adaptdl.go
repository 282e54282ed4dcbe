package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// AdaptDL stands in for AdaptDL's scheduler, which exists in Python alone: its
// controller's transitions, as they were recorded of the real one, on the real API
// server with real pods, and an allocator that gives every job the node at once. It
// acts as long as this process does.
func (c *Cluster) AdaptDL(t testing.TB) {
	t.Helper()
	c.adaptDL.Do(func() {
		definition := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/adaptdljobs.adaptdl.petuum.com"
		require.NoError(t, c.API.Apply(t.Context(), definition, adaptDLDefinition))
		c.Await(t, "the definition", func() bool {
			object, err := c.API.Get(t.Context(), definition)
			return err == nil && Condition(object, "Established")
		})
		go c.scheduleAdaptDL()
	})
}

// adaptDLDefinition is AdaptDL's own, but for printed columns.
var adaptDLDefinition = Object{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": Object{"name": "adaptdljobs.adaptdl.petuum.com"},
	"spec": Object{"group": "adaptdl.petuum.com", "scope": "Namespaced",
		"names": Object{"plural": "adaptdljobs", "singular": "adaptdljob", "kind": "AdaptDLJob", "shortNames": []any{"adljob"}},
		"versions": []any{Object{"name": "v1", "served": true, "storage": true, "subresources": Object{"status": Object{}},
			"schema": Object{"openAPIV3Schema": Object{"type": "object", "properties": Object{
				"spec": Object{"type": "object", "required": []any{"template"}, "properties": Object{
					"minReplicas": Object{"type": "integer", "minimum": 0}, "maxReplicas": Object{"type": "integer", "minimum": 1},
					"preemptible": Object{"type": "boolean"},
					"template":    Object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
				"status": Object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}}}}

// mostReplicas is how many pods the allocator finds room for.
const mostReplicas = 16

func (c *Cluster) scheduleAdaptDL() {
	for ; ; time.Sleep(100 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		if err := c.syncAllAdaptDL(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "the stand-in for AdaptDL:", err) // it comes again
		}
		cancel()
	}
}

// syncAllAdaptDL looks at every job once, at the cost of two calls and what changes.
func (c *Cluster) syncAllAdaptDL(ctx context.Context) error {
	jobs, err := c.API.Get(ctx, "/apis/adaptdl.petuum.com/v1/adaptdljobs")
	if err != nil {
		return err
	}
	pods, err := c.API.Get(ctx, "/api/v1/pods?labelSelector=adaptdl/job")
	if err != nil {
		return err
	}
	own := map[any][]any{} // by the UID of their job
	for _, pod := range pods["items"].([]any) {
		job := Field(pod, "metadata", "ownerReferences", 0, "uid")
		own[job] = append(own[job], pod)
	}
	var failed error
	for _, job := range jobs["items"].([]any) {
		failed = errors.Join(failed, c.syncAdaptDL(ctx, job.(Object), own[Field(job, "metadata", "uid")]))
	}
	return failed
}

func (c *Cluster) syncAdaptDL(ctx context.Context, job Object, pods []any) error {
	namespace, name := Field(job, "metadata", "namespace").(string), Field(job, "metadata", "name").(string)
	s := adaptDLSync{c, ctx, job, "/api/v1/namespaces/" + namespace + "/pods", pods, Object{}}
	if err := s.step(); err != nil || len(s.change) == 0 {
		return err
	}
	path := "/apis/adaptdl.petuum.com/v1/namespaces/" + namespace + "/adaptdljobs/" + name + "/status"
	return c.API.Patch(ctx, path, Object{"status": s.change})
}

// adaptDLSync is one look of the controller at a job.
type adaptDLSync struct {
	*Cluster
	ctx    context.Context
	job    Object
	path   string // of pods
	pods   []any
	change Object // of the job's status
}

func (s *adaptDLSync) status(field string) any {
	status, _ := s.job["status"].(Object)
	return status[field]
}

// step does what AdaptDL's controller does for a phase.
func (s *adaptDLSync) step() error {
	if phase, over := s.completion(); over {
		return s.complete(phase)
	}
	allocation, _ := s.status("allocation").([]any)
	switch s.status("phase") {
	case nil:
		s.change["phase"] = "Pending"
	case "Pending":
		s.allocate(allocation)
	case "Starting":
		return s.start(allocation)
	case "Running":
		if len(s.pods) != len(allocation) { // another allocation
			s.change["phase"] = "Stopping"
		}
	case "Stopping":
		if len(s.pods) == 0 {
			s.change["phase"] = "Pending"
		}
		return s.deletePods(func(string) bool { return true })
	}
	return nil
}

// completion tells how the pods of the job have ended.
func (s *adaptDLSync) completion() (phase string, over bool) {
	succeeded := 0
	for _, pod := range s.pods {
		switch Field(pod, "status", "phase") {
		case "Failed":
			if !s.preempted(pod) {
				return "Failed", true
			}
		case "Succeeded":
			succeeded++
		}
	}
	return "Succeeded", succeeded > 0 && fmt.Sprint(succeeded) == Field(s.pods[0], "metadata", "annotations", "adaptdl/replicas")
}

// preempted tells whether a pod failed because AdaptDL moves its job.
func (s *adaptDLSync) preempted(pod any) bool {
	if Field(s.job, "spec", "preemptible") != true {
		return false
	}
	terminated := Field(pod, "status", "containerStatuses", 0, "state", "terminated", "exitCode") == 143.0
	return terminated || Field(pod, "metadata", "deletionTimestamp") != nil
}

// complete keeps failed pods, and deletes all others at once.
func (s *adaptDLSync) complete(phase string) error {
	if s.status("phase") != phase {
		s.change = Object{"phase": phase, "allocation": nil, "completionTimestamp": time.Now().UTC().Format(time.RFC3339)}
		if phase == "Failed" {
			s.change["reason"], s.change["message"] = "PodFailure", "a pod Failed"
		}
	}
	return s.deletePods(func(phase string) bool { return phase != "Failed" })
}

func (s *adaptDLSync) deletePods(wanted func(phase string) bool) error {
	for _, pod := range s.pods {
		metadata := Field(pod, "metadata").(Object)
		phase, _ := Field(pod, "status", "phase").(string)
		if metadata["deletionTimestamp"] != nil || !wanted(phase) {
			continue
		}
		if _, err := s.API.Do(s.ctx, http.MethodDelete, s.path+"/"+metadata["name"].(string), nil); err != nil {
			return err
		}
	}
	return nil
}

// allocate gives a job its node, as AdaptDL's allocator does, if there is room.
func (s *adaptDLSync) allocate(allocation []any) {
	wanted, _ := Field(s.job, "spec", "minReplicas").(float64)
	switch {
	case len(allocation) > 0 && len(s.pods) == 0:
		s.change["phase"], s.change["replicas"] = "Starting", len(allocation)
	case len(allocation) == 0 && wanted <= mostReplicas:
		nodes := []any{}
		for range max(1, int(wanted)) {
			nodes = append(nodes, NodeName)
		}
		s.change["allocation"] = nodes
	}
}

func (s *adaptDLSync) start(allocation []any) error {
	if len(s.pods) > 0 {
		if s.ready() == len(allocation) {
			s.change["phase"] = "Running"
		}
		return nil
	}
	group := 0
	if before, ok := s.status("group").(float64); ok {
		group = int(before) + 1
	}
	s.change["group"] = group
	for rank := range allocation {
		if _, err := s.API.Do(s.ctx, http.MethodPost, s.path, s.pod(group, rank, len(allocation))); err != nil {
			return err
		}
	}
	return nil
}

func (s *adaptDLSync) ready() (count int) {
	for _, pod := range s.pods {
		if Condition(pod.(Object), "Ready") {
			count++
		}
	}
	return count
}

// pod is one of the job's template, with what AdaptDL adds.
func (s *adaptDLSync) pod(group, rank, replicas int) Object {
	var pod Object
	text, _ := json.Marshal(Field(s.job, "spec", "template"))
	_ = json.Unmarshal(text, &pod) // a copy
	metadata := Field(s.job, "metadata").(Object)
	about, name := pod["metadata"].(Object), metadata["name"].(string)
	pod["apiVersion"], pod["kind"] = "v1", "Pod"
	about["name"] = fmt.Sprintf("%s-%s-%d-%d", name, metadata["uid"], group, rank)
	about["ownerReferences"] = []any{Object{"apiVersion": "adaptdl.petuum.com/v1", "kind": "AdaptDLJob", "name": name, "uid": metadata["uid"], "controller": true, "blockOwnerDeletion": true}}
	for key, value := range map[string]string{"adaptdl": "true", "adaptdl/job": name, "petuum.com/nodegroup": "all"} {
		about["labels"].(Object)[key] = value
	}
	about["annotations"] = Object{"adaptdl/replicas": fmt.Sprint(replicas), "adaptdl/group": fmt.Sprint(group), "adaptdl/rank": fmt.Sprint(rank), "adaptdl/node": NodeName}
	spec := pod["spec"].(Object)
	spec["hostname"], spec["restartPolicy"] = fmt.Sprintf("%s-%d-%d", name, group, rank), "Never"
	selector, _ := spec["nodeSelector"].(Object)
	if selector == nil {
		selector = Object{}
	}
	selector["kubernetes.io/hostname"], spec["nodeSelector"] = NodeName, selector
	for _, container := range spec["containers"].([]any) {
		known, _ := container.(Object)["env"].([]any)
		container.(Object)["env"] = append(known, adaptDLEnvironment(name, group, rank, replicas)...)
	}
	return pod
}

func adaptDLEnvironment(name string, group, rank, replicas int) (variables []any) {
	for key, value := range map[string]any{"JOB_ID": name, "MASTER_PORT": 47000 + group, "REPLICA_RANK": rank, "NUM_REPLICAS": replicas, "NUM_NODES": 1, "NUM_RESTARTS": group} {
		variables = append(variables, Object{"name": "ADAPTDL_" + key, "value": fmt.Sprint(value)})
	}
	return variables
}
