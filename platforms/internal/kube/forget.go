package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/rundir"
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
	if !s.job.held {
		return nil
	}
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

func (s *site) letGo(ctx context.Context, own []*unstructured.Unstructured) (failed error) {
	for i := range own {
		if !slices.Contains(own[i].GetFinalizers(), holdFinalizer) {
			continue
		}
		kept := slices.DeleteFunc(own[i].GetFinalizers(), func(name string) bool { return name == holdFinalizer })
		change, _ := json.Marshal(object{"metadata": object{"finalizers": kept}}) // plain data cannot fail
		_, err := s.cluster.dynamic.Resource(pods).Namespace(s.namespace).Patch(ctx, own[i].GetName(), types.MergePatchType, change, metav1.PatchOptions{FieldManager: fieldManager})
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
	background := metav1.DeletePropagationBackground
	for _, resource := range s.resources() {
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		err := s.cluster.dynamic.Resource(resource).Namespace(s.namespace).DeleteCollection(limited,
			metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{LabelSelector: ofExperiment(p.section.Experiment)})
		cancel()
		if err != nil && !apierrors.IsNotFound(err) {
			return Fault("clean up", err)
		}
	}
	s.brought.Clear()
	return Fault("clean up", s.letGoOf(ctx, ofExperiment(p.section.Experiment)))
}

// Remove implements platforms.WithRemoval: what was kept here of the experiment goes.
func (p *platform) Remove(context.Context) error { return os.RemoveAll(p.directory()) }

func (p *platform) outputFile(which replica) string {
	name := which.String()
	if which.ordinal > 0 {
		name += fmt.Sprintf(".%d", which.ordinal)
	}
	return filepath.Join(p.directory(), "output", name)
}

// keepOutputs copies what the run's replicas printed.
func (s *site) keepOutputs(ctx context.Context, key trial.Key) error {
	for _, which := range s.section.replicas(key) {
		if err := s.keepOutput(ctx, which); err != nil {
			return err
		}
	}
	return nil
}

// keepOutput copies what a replica printed, once.
func (s *site) keepOutput(ctx context.Context, which replica) error {
	path := s.platform.outputFile(which)
	pod := s.pod(which)
	if _, err := os.Stat(path); err == nil || pod == nil || pod.gone || !pod.trial.began() {
		return nil
	}
	log, err := s.cluster.logs(ctx, s.namespace, pod.name, s.job.container, false)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer log.Close()
	return save(path, log)
}

func save(path string, content io.Reader) error {
	if err := rundir.MakeDirectory(filepath.Dir(path)); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}

// Logs implements platforms.WithLogs. Kubernetes keeps one stream for both stdout
// and stderr, so either has both.
func (p *platform) Logs(ctx context.Context, handle platforms.Handle, wanted platforms.Log) (io.ReadCloser, error) {
	content, err := p.output(ctx, handle, wanted)
	if err != nil {
		return nil, Fault("logs", err)
	}
	if _, err := io.CopyN(io.Discard, content, wanted.From); err != nil && err != io.EOF {
		return nil, Fault("logs", errors.Join(err, content.Close()))
	}
	return content, nil
}

func (p *platform) output(ctx context.Context, handle platforms.Handle, wanted platforms.Log) (io.ReadCloser, error) {
	none := io.NopCloser(strings.NewReader(""))
	if wanted.Stream == trial.ParameterFile {
		return p.parameter(ctx, handle.Key)
	}
	if wanted.Stream != rundir.Stdout && wanted.Stream != rundir.Stderr {
		return none, nil
	}
	which, err := p.replica(ctx, handle.Key, wanted.Replica)
	if err != nil {
		return nil, err
	}
	if kept, err := os.Open(p.outputFile(which)); !errors.Is(err, fs.ErrNotExist) {
		return kept, err
	}
	s, err := p.ready(ctx)
	if err != nil {
		return nil, err
	}
	pod := s.pod(which)
	if pod == nil || !pod.trial.began() {
		return none, nil
	}
	return s.cluster.logs(ctx, s.namespace, pod.name, s.job.container, wanted.Follow)
}

// replica finds one by its name; an empty one is that which decides.
func (p *platform) replica(ctx context.Context, key trial.Key, name string) (replica, error) {
	if name == "" {
		return replica{Key: key}, nil
	}
	s, err := p.site(ctx)
	if err != nil {
		return replica{}, err
	}
	return s.section.replicaNamed(name, key)
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
