package kube

import (
	"context"
	"encoding/json"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// tries is how often something is done again that somebody else came in between of.
const tries = 5

// Cancel implements platforms.Platform. The intent is an annotation of the object
// before anything happens. A pod that runs gets it too: its runner reads it there and
// ends the trial as anywhere, so that what it reported last counts. What has not
// begun is suspended.
func (p *platform) Cancel(ctx context.Context, handle platforms.Handle, intent trial.Intent) error {
	s, err := p.site(ctx)
	if err != nil {
		return Fault("cancel", err)
	}
	return Fault("cancel", s.end(ctx, handle.Key, intent))
}

func (s *site) end(ctx context.Context, key trial.Key, intent trial.Intent) error {
	noted, err := json.Marshal(intent)
	if err != nil {
		return err
	}
	for range tries {
		err = s.tryEnd(ctx, key, string(noted))
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return err
}

func (s *site) tryEnd(ctx context.Context, key trial.Key, intent string) error {
	found, err := s.get(ctx, s.job.nameOf(key))
	if apierrors.IsNotFound(err) {
		return s.bury(ctx, key, intent)
	}
	ended := err == nil && s.job.condition(found).over
	if err != nil || ended && s.section.alone() {
		return err
	}
	own, err := s.podsOf(ctx, key)
	if err != nil {
		return err
	}
	if ended { // its end stands, and some of its replicas may go on all the same
		return s.tellPods(ctx, own, intent)
	}
	begun, over := s.progress(own)
	queued := isQueued(found)
	evicted := queued && s.job.isHeldBack(found)
	if over && !evicted {
		return nil
	}
	if first := found.GetAnnotations()[intentAnnotation]; first != "" {
		intent = first
	}
	rundir.CrashPoint("cancel.before-intent")
	if err := s.note(ctx, found, intent, !begun && !queued && !s.job.immutable); err != nil {
		return err
	}
	rundir.CrashPoint("cancel.intent-before-pods")
	switch {
	case begun && !evicted:
		return s.tellPods(ctx, own, intent)
	case queued, s.job.immutable && !s.job.condition(found).suspended:
		return s.replace(ctx, key, found, own, intent)
	}
	return s.letGo(ctx, each(own))
}

// replace deletes what has not begun and leaves a tombstone. The intent is on record
// by now: whoever is interrupted in between comes again.
func (s *site) replace(ctx context.Context, key trial.Key, found *unstructured.Unstructured, own []unstructured.Unstructured, intent string) error {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	background, uid := metav1.DeletePropagationBackground, found.GetUID()
	err := s.client().Delete(limited, found.GetName(), metav1.DeleteOptions{PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err := s.letGo(ctx, each(own)); err != nil {
		return err
	}
	return s.bury(ctx, key, intent)
}

// bury leaves a tombstone of a run that was never submitted.
func (s *site) bury(ctx context.Context, key trial.Key, intent string) error {
	stone, err := s.job.tombstone(s.section, key, intent)
	if err != nil {
		return err
	}
	if err := s.accompany(ctx, platforms.Job{Key: key}, stock{}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err = s.make(ctx, stone)
	return err
}

func (s *site) podsOf(ctx context.Context, key trial.Key) ([]unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := s.cluster.dynamic.Resource(pods).Namespace(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: runLabel + "=" + key.String()})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// progress tells whether any replica has begun, and whether all are over: a controller may
// have begun one anew in another pod.
func (s *site) progress(own []unstructured.Unstructured) (begun, over bool) {
	ended, goesOn := map[replica]bool{}, false
	for i := range own {
		which, runs := s.replicaOf(&own[i])
		state := stateOf(&own[i], s.job.container)
		begun = begun || runs && state.trial.began()
		goesOn = goesOn || runs && state.trial.running
		if runs && state.trial.over() {
			ended[which] = true
		}
	}
	return begun, !goesOn && len(ended) == len(s.section.replicas(trial.Key{}))
}

// note writes the intent beside the run, unless somebody has changed it since it was
// read, and suspends what has not begun.
func (s *site) note(ctx context.Context, found *unstructured.Unstructured, intent string, suspend bool) error {
	change := object{"metadata": object{"resourceVersion": found.GetResourceVersion(), "annotations": object{intentAnnotation: intent}}}
	if suspend {
		change["spec"] = s.job.suspended
	}
	content, err := json.Marshal(change)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err = s.client().Patch(ctx, found.GetName(), types.MergePatchType, content, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}

// tellPods gives the intent to the runner of each pod.
func (s *site) tellPods(ctx context.Context, own []unstructured.Unstructured, intent string) (failed error) {
	content, err := json.Marshal(object{"metadata": object{"annotations": object{intentAnnotation: intent}}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for i := range own {
		_, err := s.cluster.dynamic.Resource(pods).Namespace(s.namespace).Patch(ctx, own[i].GetName(), types.MergePatchType, content, metav1.PatchOptions{FieldManager: fieldManager})
		if err != nil && !apierrors.IsNotFound(err) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}
