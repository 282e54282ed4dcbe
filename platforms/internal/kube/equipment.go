package kube

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/perennial-ml/perennial/trial"
)

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
	return nil
}

func (s *site) bringClaim(ctx context.Context, key trial.Key, wanted claim) error {
	marks := labels(key)
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
	seen := map[schema.GroupVersionResource]bool{}
	for _, role := range s.Roles {
		seen[secretsResource] = seen[secretsResource] || len(role.Pod.secrets) > 0
		seen[claims] = seen[claims] || role.Pod.claim != nil
	}
	for _, kind := range []schema.GroupVersionResource{secretsResource, claims} {
		if seen[kind] {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}
