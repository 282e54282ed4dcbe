package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/trial"
)

// tryPatience bounds a first call: somebody sits there and waits.
const tryPatience = 10 * time.Second

// Try implements platforms.WithHosts: it asks the cluster whether trials could run.
// What depends on something else that is missing is not asked.
func (p *platform) Try(ctx context.Context) ([]platforms.HostState, error) {
	s, err := p.site(ctx)
	if err != nil {
		return nil, Fault("try", err)
	}
	state := platforms.HostState{Name: fmt.Sprintf("namespace %s", s.namespace)}
	for _, look := range []func(context.Context, *platforms.HostState) error{s.tryServer, s.tryKind, s.tryNamed, s.tryRights, s.tryManifest} {
		if err := look(ctx, &state); err != nil {
			return nil, Fault("try", err)
		}
		if len(state.Problems)+len(state.Faults) > 0 {
			break
		}
	}
	for i, fault := range state.Faults {
		if own, ok := s.section.Spelling[fault.Field]; ok {
			state.Faults[i].Field = own
		}
	}
	return []platforms.HostState{state}, nil
}

// tryServer asks whether somebody answers, and knows us.
func (s *site) tryServer(ctx context.Context, state *platforms.HostState) error {
	ctx, cancel := context.WithTimeout(ctx, tryPatience)
	defer cancel()
	var version struct{ GitVersion string }
	answer, err := s.cluster.raw.Get().AbsPath("/version").DoRaw(ctx)
	if err == nil {
		err = json.Unmarshal(answer, &version)
	}
	state.Text = "Kubernetes " + version.GitVersion
	if apierrors.IsUnauthorized(err) {
		return err
	}
	if err != nil {
		state.Problems = []trial.Reason{{Code: "cannot-reach", Text: fmt.Sprintf("the cluster does not answer: %s", err)}}
	}
	return nil
}

func (s *site) tryKind(_ context.Context, state *platforms.HostState) error {
	err := s.serves()
	if platforms.CodeOf(err) != platforms.Invalid {
		return err
	}
	state.Faults = append(state.Faults, platforms.OptionFault{Field: "kind", Message: err.(*platforms.Error).Err.Error()})
	return nil
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

// tryManifest has the server look at what a trial would be, without making it: it
// knows the fields that the installed kind has.
func (s *site) tryManifest(ctx context.Context, state *platforms.HostState) error {
	job := platforms.Job{Key: trial.Key{Experiment: trial.NewExperimentID(), Attempt: 1}, Command: "true"}
	made, err := s.job.manifest(s.section, job, stock{})
	resource := s.job.resource
	if s.job.beside != nil { // which has the pods, and has to be there before the object
		made, err = s.companionOf(job, stock{})
		resource = s.job.beside.resource
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, tryPatience)
	defer cancel()
	_, err = s.cluster.dynamic.Resource(resource).Namespace(s.namespace).Create(ctx, made, metav1.CreateOptions{FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil, strings.Contains(err.Error(), "does not support dry run"), isQuota(err): // no room is no fault
	case apierrors.IsBadRequest(err), apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		state.Faults = append(state.Faults, platforms.OptionFault{Message: "the cluster refuses what a trial would be: " + err.Error()})
	default:
		return err
	}
	return nil
}
