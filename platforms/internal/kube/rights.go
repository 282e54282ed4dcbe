package kube

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/trial"
)

// right is what somebody must be allowed to do with a resource in the section's
// namespace.
type right struct {
	group, resource, subresource string
	verbs                        []string
}

func (r right) name() string {
	if r.subresource == "" {
		return r.resource
	}
	return r.resource + "/" + r.subresource
}

// rights are those that the section needs.
func (s *site) rights() []right {
	of := func(resource schema.GroupVersionResource, subresource string, verbs ...string) right {
		return right{resource.Group, resource.Resource, subresource, verbs}
	}
	needed := []right{
		of(s.job.resource, "", "create", "get", "list", "watch", "patch", "delete", "deletecollection"),
		of(pods, "", "list", "watch", "patch"),
		of(pods, "log", "get"),
		of(configMaps, "", "create", "deletecollection"),
		of(eventsResource, "", "list"),
	}
	if s.section.Queue != "" {
		needed = append(needed, of(workloads, "", "list"))
	}
	if s.section.depot(mostCode+1) != "" {
		needed = append(needed, of(pods, "", "get", "create", "delete"), of(pods, "exec", "get", "create"))
	}
	if s.job.beside != nil {
		needed = append(needed, of(s.job.beside.resource, "", "create", "get", "delete", "deletecollection"))
	}
	verbs := map[schema.GroupVersionResource][]string{secretsResource: {"create", "patch", "deletecollection"}, claims: {"create", "deletecollection"}, services: {"create", "deletecollection"}}
	for _, resource := range s.section.equipment() {
		needed = append(needed, of(resource, "", verbs[resource]...))
	}
	return needed
}

// tryRights names every right that is missing.
func (s *site) tryRights(ctx context.Context, state *platforms.HostState) error {
	var missing []*trial.Reason
	asking, askingCtx := errgroup.WithContext(ctx)
	asking.SetLimit(4)
	for _, needed := range s.rights() {
		for _, verb := range needed.verbs {
			found := &trial.Reason{}
			missing = append(missing, found)
			asking.Go(func() (err error) { *found, err = s.lacks(askingCtx, needed, verb); return err })
		}
	}
	if err := asking.Wait(); err != nil {
		return err
	}
	for _, found := range missing {
		if !found.Zero() {
			state.Problems = append(state.Problems, *found)
		}
	}
	return nil
}

var reviews = schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectaccessreviews"}

// lacks asks whether we may do something, and says where we may not.
func (s *site) lacks(ctx context.Context, needed right, verb string) (trial.Reason, error) {
	ctx, cancel := context.WithTimeout(ctx, tryPatience)
	defer cancel()
	question, err := plain(object{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"spec": object{"resourceAttributes": object{"namespace": s.namespace, "group": needed.group, "resource": needed.resource, "subresource": needed.subresource, "verb": verb}}})
	if err != nil {
		return trial.Reason{}, err
	}
	answer, err := s.cluster.dynamic.Resource(reviews).Create(ctx, question, metav1.CreateOptions{})
	if err != nil {
		return trial.Reason{}, err
	}
	if status, _ := answer.Object["status"].(object); status["allowed"] == true {
		return trial.Reason{}, nil
	}
	return trial.Reason{Code: "right-missing", Text: fmt.Sprintf("you may not %s %s in namespace %s: ask who runs the cluster for that right (starter doctor FILE --rbac prints all that are needed)", verb, needed.name(), s.namespace)}, nil
}

// accountName is of what Rights makes.
const accountName = "perennial"

// Rights implements platforms.WithRights: it asks nobody. The role is for whoever
// runs starter; the account is for a starter that has nobody's.
func (p *platform) Rights(ctx context.Context) (string, error) {
	s, err := p.site(ctx)
	if err != nil {
		return "", Fault("rights", err)
	}
	about := object{"name": accountName, "namespace": s.namespace}
	rights := "rbac.authorization.k8s.io"
	var rules []any
	for _, needed := range s.rights() {
		rules = append(rules, object{"apiGroups": []any{needed.group}, "resources": []any{needed.name()}, "verbs": needed.verbs})
	}
	return manifests(
		object{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about},
		object{"apiVersion": rights + "/v1", "kind": "Role", "metadata": about, "rules": rules},
		object{"apiVersion": rights + "/v1", "kind": "RoleBinding", "metadata": about,
			"roleRef":  object{"apiGroup": rights, "kind": "Role", "name": accountName},
			"subjects": []any{object{"kind": "ServiceAccount", "name": accountName, "namespace": s.namespace}}},
	)
}

// manifests are objects as kubectl applies them.
func manifests(objects ...object) (string, error) {
	var written []string
	for _, each := range objects {
		text, err := yaml.Marshal(each)
		if err != nil {
			return "", err
		}
		written = append(written, string(text))
	}
	return strings.Join(written, "---\n"), nil
}
