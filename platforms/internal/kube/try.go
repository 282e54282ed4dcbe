package kube

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/trial"
)

// right is what somebody must be allowed to do in the section's namespace.
type right struct{ group, resource, subresource, verb string }

// rights are those that the section needs.
func (s *site) rights() (needed []right) {
	add := func(resource schema.GroupVersionResource, subresource string, verbs ...string) {
		for _, verb := range verbs {
			needed = append(needed, right{resource.Group, resource.Resource, subresource, verb})
		}
	}
	add(s.job.resource, "", "create", "get", "list", "watch", "patch", "delete", "deletecollection")
	if s.job.beside != nil {
		add(s.job.beside.resource, "", "create", "get", "delete", "deletecollection")
	}
	add(pods, "", "list", "watch", "patch")
	add(pods, "log", "get")
	add(configMaps, "", "create", "deletecollection")
	for _, resource := range s.section.equipment() {
		add(resource, "", "create", "deletecollection")
		if resource == secretsResource {
			add(resource, "", "patch")
		}
	}
	return needed
}

// Try implements platforms.WithHosts: it asks the cluster whether trials could run.
func (p *platform) Try(ctx context.Context) ([]platforms.HostState, error) {
	s, err := p.site(ctx)
	if err != nil {
		return nil, Fault("try", err)
	}
	state := platforms.HostState{Name: fmt.Sprintf("namespace %s", s.namespace)}
	version, err := s.cluster.discovery.ServerVersion()
	if err != nil {
		state.Problems = []trial.Reason{{Code: "cannot-reach", Text: err.Error()}}
		return []platforms.HostState{state}, nil
	}
	state.Text = "Kubernetes " + version.GitVersion
	if err := s.serves(); err != nil {
		state.Problems = append(state.Problems, trial.Reason{Code: "kind-missing", Text: err.Error()})
	}
	for _, needed := range s.rights() {
		missing, err := s.lacks(ctx, needed)
		if err != nil {
			return nil, Fault("try", err)
		}
		state.Problems = append(state.Problems, missing...)
	}
	return []platforms.HostState{state}, nil
}

// serves fails where the cluster does not know the section's kind.
func (s *site) serves() error {
	err := s.cluster.knows(s.job)
	if err == nil || !apierrors.IsNotFound(err) {
		return err
	}
	var there []string
	for _, name := range Kinds() {
		if s.cluster.knows(kinds[name]) == nil {
			there = append(there, name)
		}
	}
	return platforms.Errorf(platforms.Invalid, "prepare", "this cluster has no %s (%s): install what runs it, or use platform kubernetes with one of the kinds that are there: %s",
		s.job.kind, s.job.apiVersion(), strings.Join(there, ", "))
}

// knows fails where the cluster does not serve a kind.
func (c *cluster) knows(kind jobKind) error {
	list, err := c.discovery.ServerResourcesForGroupVersion(kind.apiVersion())
	if err != nil {
		return err
	}
	for _, each := range list.APIResources {
		if each.Kind == kind.kind {
			return nil
		}
	}
	return apierrors.NewNotFound(kind.resource.GroupResource(), kind.kind)
}

var reviews = schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectaccessreviews"}

// lacks asks whether we may do something.
func (s *site) lacks(ctx context.Context, needed right) ([]trial.Reason, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	question, err := plain(object{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"spec": object{"resourceAttributes": object{"namespace": s.namespace, "group": needed.group, "resource": needed.resource, "subresource": needed.subresource, "verb": needed.verb}}})
	if err != nil {
		return nil, err
	}
	answer, err := s.cluster.dynamic.Resource(reviews).Create(ctx, question, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	status, _ := answer.Object["status"].(object)
	if status["allowed"] == true {
		return nil, nil
	}
	what := needed.resource
	if needed.subresource != "" {
		what += "/" + needed.subresource
	}
	reason := trial.Reason{Code: "right-missing", Text: fmt.Sprintf("you may not %s %s in namespace %s: ask who runs the cluster for that right", needed.verb, what, s.namespace)}
	return []trial.Reason{reason}, nil
}
