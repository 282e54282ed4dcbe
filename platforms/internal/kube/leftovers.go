package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/perennial-ml/perennial/platforms"
)

// everything are the kinds of objects that any section may have made, each by the name
// that people know.
func (s *site) everything() map[schema.GroupVersionResource]string {
	all := map[schema.GroupVersionResource]string{pods: "pod", configMaps: "ConfigMap", secretsResource: "Secret",
		claims: "PersistentVolumeClaim", services: "Service", s.job.resource: s.job.kind}
	for name, kind := range kinds {
		all[kind.resource] = name
		if kind.beside != nil {
			all[kind.beside.resource] = kind.beside.kind
		}
	}
	return all
}

// Leftovers implements platforms.WithLeftovers.
func (p *platform) Leftovers(ctx context.Context) (platforms.Leftovers, error) {
	s, err := p.site(ctx)
	if err != nil {
		return platforms.Leftovers{}, Fault("leftovers", err)
	}
	left := leftovers{Leftovers: platforms.Leftovers{Place: fmt.Sprintf("namespace %s of %s", s.namespace, s.cluster.address)},
		of: map[string]*platforms.Leftover{}}
	for resource, kind := range s.everything() {
		if err := s.countAll(ctx, resource, kind, &left); err != nil {
			return platforms.Leftovers{}, Fault("leftovers", err)
		}
	}
	return left.sorted(), nil
}

// countAll counts the objects of a kind. One that the cluster does not have has none.
func (s *site) countAll(ctx context.Context, resource schema.GroupVersionResource, kind string, left *leftovers) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := s.cluster.metadata.Resource(resource).Namespace(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: experimentLabel})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err):
		left.Unlisted = append(left.Unlisted, kind)
		return nil
	case err != nil:
		return err
	}
	for _, found := range list.Items {
		left.add(found.ObjectMeta, kind)
	}
	return nil
}

// leftovers gathers what there is, by experiment.
type leftovers struct {
	platforms.Leftovers
	of map[string]*platforms.Leftover
}

func (l *leftovers) add(about metav1.ObjectMeta, kind string) {
	experiment := about.Labels[experimentLabel]
	found := l.of[experiment]
	if found == nil {
		found = &platforms.Leftover{Experiment: experiment, Things: map[string]int{}, Since: about.CreationTimestamp.Time}
		l.of[experiment] = found
	}
	found.Things[kind]++
	found.Home = cmp.Or(found.Home, about.Labels[homeLabel])
	if made := about.CreationTimestamp.Time; made.Before(found.Since) {
		found.Since = made
	}
}

func (l *leftovers) sorted() platforms.Leftovers {
	for _, experiment := range slices.Sorted(maps.Keys(l.of)) {
		l.Found = append(l.Found, *l.of[experiment])
	}
	slices.Sort(l.Unlisted)
	return l.Leftovers
}

// RemoveLeftover implements platforms.WithLeftovers. Pods are let go of last, when
// nobody makes them anew.
func (p *platform) RemoveLeftover(ctx context.Context, experiment string) error {
	s, err := p.site(ctx)
	if err != nil {
		return Fault("remove", err)
	}
	all := s.everything()
	delete(all, pods)
	var failed error
	for resource := range all {
		failed = errors.Join(failed, s.deleteWhereAllowed(ctx, resource, experiment))
	}
	failed = errors.Join(failed, s.deleteWhereAllowed(ctx, pods, experiment))
	if failed != nil {
		return Fault("remove", failed)
	}
	return Fault("remove", s.letGoOf(ctx, ofExperiment(experiment)))
}

// deleteWhereAllowed is deleteAll. The rights of a section are for what it makes itself;
// what they do not reach is left to others, but that.
func (s *site) deleteWhereAllowed(ctx context.Context, resource schema.GroupVersionResource, experiment string) error {
	err := s.deleteAll(ctx, resource, experiment)
	if apierrors.IsForbidden(err) && resource != s.job.resource {
		return nil
	}
	return err
}
