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
	if err := s.dispose(ctx, s.job.nameOf(handle.Key)); err != nil {
		return Fault("forget", err)
	}
	if err := s.dismiss(ctx, s.job.nameOf(handle.Key)); err != nil {
		return Fault("forget", err)
	}
	s.forgetRun(handle.Key)
	return Fault("forget", s.letGo(ctx, s.pods.of(handle.Key.String())))
}

// dispose removes a run's object, or has the cluster do so some time after its end.
func (s *site) dispose(ctx context.Context, name string) error {
	if s.section.KeepFor > 0 {
		if kept, err := s.keep(ctx, name); kept || err != nil {
			return err
		}
	}
	return s.delete(ctx, name)
}

func (s *site) delete(ctx context.Context, name string) error {
	background := metav1.DeletePropagationBackground
	return ignoreNotFound(s.client().Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background}))
}

// keep tells whether the cluster removes an object by itself. What never began does not
// end either, and shows nobody anything.
func (s *site) keep(ctx context.Context, name string) (bool, error) {
	found, err := s.client().Get(ctx, name, metav1.GetOptions{})
	if err != nil || s.job.condition(found).suspended {
		return false, ignoreNotFound(err)
	}
	change, _ := json.Marshal(object{ // plain data cannot fail
		"metadata": object{"annotations": object{keptAnnotation: "true"}},
		"spec":     s.job.lifetime(int64(s.section.KeepFor.Seconds())),
	})
	_, err = s.client().Patch(ctx, name, types.MergePatchType, change, metav1.PatchOptions{FieldManager: fieldManager})
	return err == nil, ignoreNotFound(err)
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
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
	if err := errors.Join(s.disposeAll(ctx), s.emptyDepot(ctx)); err != nil {
		return Fault("clean up", err)
	}
	s.brought.Clear()
	if !s.job.held {
		return nil
	}
	return Fault("clean up", s.letGoOf(ctx, ofExperiment(p.section.Experiment)))
}

// disposeAll disposes of the experiment's runs, ends what still runs, and removes what they
// had in common.
func (s *site) disposeAll(ctx context.Context) error {
	experiment := s.platform.section.Experiment
	for _, resource := range s.resources() {
		if s.section.KeepFor > 0 && resource == s.job.resource {
			continue
		}
		if err := s.deleteAll(ctx, resource, experiment); err != nil {
			return err
		}
	}
	if s.section.KeepFor == 0 {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := s.client().List(limited, metav1.ListOptions{LabelSelector: ofExperiment(experiment)})
	if err != nil {
		return ignoreNotFound(err)
	}
	for i := range list.Items {
		err = errors.Join(err, s.disposeLast(ctx, &list.Items[i]))
	}
	return err
}

// disposeLast disposes of a run when its experiment is over. One that is kept already may
// have ended so lately that its object does not say so yet.
func (s *site) disposeLast(ctx context.Context, found *unstructured.Unstructured) error {
	switch {
	case found.GetAnnotations()[keptAnnotation] != "":
		return nil
	case s.job.condition(found).over:
		return s.dispose(ctx, found.GetName())
	}
	return s.delete(ctx, found.GetName())
}

// deleteAll deletes an experiment's objects of a kind, if there are any.
func (s *site) deleteAll(ctx context.Context, resource schema.GroupVersionResource, experiment string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	background := metav1.DeletePropagationBackground
	return ignoreNotFound(s.cluster.dynamic.Resource(resource).Namespace(s.namespace).DeleteCollection(ctx,
		metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{LabelSelector: ofExperiment(experiment)}))
}

// Remove implements platforms.WithRemoval: what was kept of the experiment goes, here and
// on the cluster.
func (p *platform) Remove(ctx context.Context) error {
	// Where there is no way to the cluster any more, it removes what is kept by itself.
	if s, err := p.site(ctx); err == nil && s.section.KeepFor > 0 {
		if err := s.deleteAll(ctx, s.job.resource, p.section.Experiment); err != nil {
			return Fault("remove", err)
		}
	}
	return os.RemoveAll(p.directory())
}

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
