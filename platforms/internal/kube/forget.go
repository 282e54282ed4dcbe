package kube

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/stream"
	"github.com/perennial-ml/perennial/trial"
)

// Forget implements platforms.WithForget: the object goes, and its pods with it.
// What the run printed is kept here.
func (p *platform) Forget(ctx context.Context, handle platforms.Handle) error {
	s, err := p.ready(ctx)
	if err != nil {
		return Fault("forget", err)
	}
	if err := s.keepOutputs(ctx, handle.Key); err != nil {
		return Fault("forget", err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	background := metav1.DeletePropagationBackground
	err = s.client().Delete(ctx, s.job.nameOf(handle.Key), metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil && !apierrors.IsNotFound(err) {
		return Fault("forget", err)
	}
	if err := s.dismiss(ctx, s.job.nameOf(handle.Key)); err != nil {
		return Fault("forget", err)
	}
	s.forgetRun(handle.Key)
	return Fault("forget", s.letGo(ctx, s.pods.of(handle.Key.String())))
}

// forgetRun remembers a run no longer than there is a pod of it, whose end nobody
// takes for news.
func (s *site) forgetRun(key trial.Key) {
	s.answers.Delete(key)
	for _, which := range s.section.replicas(key) {
		s.forgetJournal(which)
		there := s.newest(which, "") != nil
		s.mutex.Lock()
		delete(s.memories, which)
		if there {
			s.memories[which] = &memory{forgotten: true}
		}
		s.mutex.Unlock()
	}
}

// letGoOf lets pods vanish that were held.
func (s *site) letGoOf(ctx context.Context, selector string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := s.cluster.dynamic.Resource(pods).Namespace(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return err
	}
	return s.letGo(ctx, each(list.Items))
}

func each(items []unstructured.Unstructured) (all []*unstructured.Unstructured) {
	for i := range items {
		all = append(all, &items[i])
	}
	return all
}

// letGo takes our finalizer away, and leaves alone those of others, who take theirs away
// meanwhile.
func (s *site) letGo(ctx context.Context, own []*unstructured.Unstructured) (failed error) {
	change, _ := json.Marshal(object{"metadata": object{"$deleteFromPrimitiveList/finalizers": []any{holdFinalizer}}}) // plain data cannot fail
	for i := range own {
		if !slices.Contains(own[i].GetFinalizers(), holdFinalizer) {
			continue
		}
		_, err := s.cluster.dynamic.Resource(pods).Namespace(s.namespace).Patch(ctx, own[i].GetName(), types.StrategicMergePatchType, change, metav1.PatchOptions{FieldManager: fieldManager})
		if err != nil && !apierrors.IsNotFound(err) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// CleanUp implements platforms.WithCleanup.
func (p *platform) CleanUp(ctx context.Context) error {
	s, err := p.site(ctx)
	if err != nil {
		return Fault("clean up", err)
	}
	if _, err := p.ready(ctx); err == nil { // a kind that the cluster has no more has left no pods
		s.keepAllOutputs(ctx)
	}
	for _, resource := range s.resources() {
		if err := s.deleteAll(ctx, resource, p.section.Experiment); err != nil {
			return Fault("clean up", err)
		}
	}
	s.brought.Clear()
	if !s.job.held {
		return nil
	}
	return Fault("clean up", s.letGoOf(ctx, ofExperiment(p.section.Experiment)))
}

// deleteAll deletes an experiment's objects of a kind, if there are any.
func (s *site) deleteAll(ctx context.Context, resource schema.GroupVersionResource, experiment string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	background := metav1.DeletePropagationBackground
	err := s.cluster.dynamic.Resource(resource).Namespace(s.namespace).DeleteCollection(ctx,
		metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{LabelSelector: ofExperiment(experiment)})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Remove implements platforms.WithRemoval: what was kept here of the experiment goes.
func (p *platform) Remove(context.Context) error { return os.RemoveAll(p.directory()) }

// parameter is Job.Parameter, out of the object.
func (p *platform) parameter(ctx context.Context, key trial.Key) (io.ReadCloser, error) {
	s, err := p.site(ctx)
	if err != nil {
		return nil, err
	}
	found, err := s.described(ctx, s.job.nameOf(key))
	if apierrors.IsNotFound(err) {
		return io.NopCloser(strings.NewReader("")), nil
	}
	if err != nil {
		return nil, err
	}
	return io.NopCloser(strings.NewReader(parameterOf(found.Object))), nil
}

// parameterOf finds a runner's job anywhere in an object.
func parameterOf(at any) string {
	switch at := at.(type) {
	case object:
		if at["name"] == stream.JobVariable {
			var told stream.Job
			_ = json.Unmarshal([]byte(text(at, "value")), &told)
			return string(told.Parameter)
		}
		for _, inside := range at {
			if found := parameterOf(inside); found != "" {
				return found
			}
		}
	case []any:
		for _, inside := range at {
			if found := parameterOf(inside); found != "" {
				return found
			}
		}
	}
	return ""
}
