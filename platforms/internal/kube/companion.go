package kube

import (
	"context"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/perennial-ml/perennial/platforms"
)

const (
	// seenWithin is how long a companion may take to be seen by who admits a run.
	seenWithin   = 5 * time.Second
	patientTries = 50
)

// companion is an object beside that of a run, with the same name, which has to be
// there first.
type companion struct {
	resource schema.GroupVersionResource
	kind     string
	spec     func(Section, []template) object
}

// accompany makes the run's companion, where its kind has one.
func (s *site) accompany(ctx context.Context, job platforms.Job, stock stock) error {
	if s.job.beside == nil {
		return nil
	}
	made, err := s.companionOf(job, stock)
	if err != nil {
		return err
	}
	err = s.create(ctx, s.job.beside.resource, made)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	found, err := s.described(ctx, s.job.nameOf(job.Key))
	if err != nil {
		return err
	}
	return job.CheckParameters([]byte(parameterOf(found.Object)))
}

func (s *site) companionOf(job platforms.Job, stock stock) (*unstructured.Unstructured, error) {
	beside := s.job.beside
	templates, err := s.job.templates(s.section, job, stock)
	if err != nil {
		return nil, err
	}
	return plain(object{"apiVersion": beside.resource.GroupVersion().String(), "kind": beside.kind,
		"metadata": object{"name": s.job.nameOf(job.Key), "labels": s.section.labels(job.Key)}, "spec": beside.spec(s.section, templates)})
}

// make makes a run's object. Who admits one may see its companion only a moment after
// that was made.
func (s *site) make(ctx context.Context, wanted *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	options := metav1.CreateOptions{FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict}
	for try := 0; ; try++ {
		made, err := s.client().Create(ctx, wanted, options)
		if err == nil || s.job.beside == nil || try == patientTries || !strings.Contains(err.Error(), s.job.beside.resource.Group+` "`+wanted.GetName()+`" not found`) {
			return made, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(seenWithin / patientTries):
		}
	}
}

// dismiss removes a run's companion.
func (s *site) dismiss(ctx context.Context, name string) error {
	if s.job.beside == nil {
		return nil
	}
	err := s.cluster.dynamic.Resource(s.job.beside.resource).Namespace(s.namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// described returns what says how a run's pods are: its companion, or the object itself.
func (s *site) described(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	resource := s.job.resource
	if s.job.beside != nil {
		resource = s.job.beside.resource
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return s.cluster.dynamic.Resource(resource).Namespace(s.namespace).Get(ctx, name, metav1.GetOptions{})
}

// resources are those of which the section makes objects.
func (s *site) resources() []schema.GroupVersionResource {
	all := []schema.GroupVersionResource{s.job.resource, configMaps}
	if s.job.beside != nil {
		all = append(all, s.job.beside.resource)
	}
	return append(all, s.section.equipment()...)
}
