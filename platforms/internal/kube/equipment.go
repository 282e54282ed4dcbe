package kube

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/perennial-ml/perennial/trial"
)

var services = schema.GroupVersionResource{Version: "v1", Resource: "services"}

var claims = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}

// claim is a volume that each trial has for all its attempts. It goes with the
// experiment.
type claim struct{ class, size string }

func claimName(key trial.Key) string { return "perennial-" + key.Experiment + "-" + key.TrialID() }

// equip sees to it that what the pods of a run refer to is there.
func (s *site) equip(ctx context.Context, key trial.Key) error {
	for _, role := range s.section.Roles {
		for _, each := range role.Pod.secrets {
			if err := s.bringSecret(ctx, each); err != nil {
				return err
			}
		}
		if role.Pod.claim != nil {
			if err := s.bringClaim(ctx, key, *role.Pod.claim); err != nil {
				return err
			}
		}
	}
	return s.bringPeers(ctx)
}

// bringPeers sees to it that the replicas of the experiment's runs have names in DNS.
func (s *site) bringPeers(ctx context.Context) error {
	experiment := s.platform.section.Experiment
	name := peersName(experiment)
	if _, brought := s.brought.Load(name); brought || !s.section.meets() {
		return nil
	}
	made, err := plain(object{"apiVersion": "v1", "kind": "Service",
		"metadata": object{"name": name, "labels": s.section.marks(experiment)},
		"spec":     object{"clusterIP": "None", "publishNotReadyAddresses": true, "selector": object{experimentLabel: experiment}}})
	if err != nil {
		return err
	}
	if err = s.create(ctx, services, made); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	s.brought.Store(name, true)
	return nil
}

// meets tells whether a service of ours has the replicas find each other.
func (s Section) meets() bool { return s.jobKind().strangers && !s.alone() }

// peersName is the domain of an experiment's pods.
func peersName(experiment string) string { return "perennial-" + experiment }

// join gives the replicas of a run names in DNS, and tells them the first one's.
func (s Section) join(key trial.Key, spec object) {
	domain := peersName(key.Experiment)
	spec["subdomain"] = domain
	container := spec["containers"].([]any)[0].(object)
	container["env"] = append(container["env"].([]any),
		object{"name": "PERENNIAL_REPLICAS", "value": fmt.Sprint(len(s.replicas(key)))},
		object{"name": "PERENNIAL_FIRST_REPLICA", "value": fmt.Sprintf("%s-0.%s", nameOf(key), domain)})
}

func (s *site) bringClaim(ctx context.Context, key trial.Key, wanted claim) error {
	marks := s.section.labels(key)
	for _, ofRun := range []string{attemptLabel, runLabel} {
		delete(marks, ofRun)
	}
	made, err := plain(object{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": object{"name": claimName(key), "labels": marks},
		"spec": object{"accessModes": []any{"ReadWriteMany"}, "storageClassName": wanted.class, "volumeMode": "Filesystem",
			"resources": object{"requests": object{"storage": wanted.size}}}})
	if err != nil {
		return err
	}
	if err = s.create(ctx, claims, made); apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// equipment is what kinds of objects the section has beside its runs'.
func (s Section) equipment() (kinds []schema.GroupVersionResource) {
	seen := map[schema.GroupVersionResource]bool{services: s.meets()}
	for _, role := range s.Roles {
		seen[secretsResource] = seen[secretsResource] || len(role.Pod.secrets) > 0
		seen[claims] = seen[claims] || role.Pod.claim != nil
	}
	for _, kind := range []schema.GroupVersionResource{secretsResource, claims, services} {
		if seen[kind] {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}
