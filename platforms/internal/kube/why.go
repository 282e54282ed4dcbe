package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/perennial-ml/perennial/trial"
)

var eventsResource = schema.GroupVersionResource{Version: "v1", Resource: "events"}

const (
	// askedAgain is how old an answer may be to why a run has no pod: each costs a call.
	askedAgain = 10 * time.Second
	// podsTime is what a cluster takes to make a pod, with nobody to blame.
	podsTime   = 3 * time.Second
	mostEvents = 500
)

// answer is what the cluster said of a run that has no pod.
type answer struct {
	given  time.Time
	reason trial.Reason
}

var noPod = trial.Reason{Code: "no-pod", Text: "the cluster has not made its pod yet"}

// whyNoPod says why the cluster has made no pod of a run's object. What cannot be
// asked adds nothing.
func (s *site) whyNoPod(ctx context.Context, key trial.Key, run sight) trial.Reason {
	if !run.condition.reason.Zero() {
		return run.condition.reason
	}
	first := answer{time.Now().Add(podsTime - askedAgain), noPod}
	if known, _ := s.answers.LoadOrStore(key, first); time.Since(known.(answer).given) < askedAgain {
		return known.(answer).reason
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	found := answer{time.Now(), s.askWhy(ctx, run)}
	s.answers.Store(key, found)
	return found.reason
}

func (s *site) askWhy(ctx context.Context, run sight) trial.Reason {
	switch {
	case run.condition.suspended && s.section.Queue != "":
		return trial.Reason{Code: "suspended", Text: words(fmt.Sprintf("suspended in queue %s by Kueue", s.section.Queue), s.saidByKueue(ctx, run.object))}
	case run.condition.suspended:
		return trial.Reason{Code: "suspended", Text: "it is suspended in the cluster: a queue has no room for it yet, or somebody holds it back"}
	}
	said := s.lastWarning(ctx, run.object.GetName())
	if _, quota, exceeded := strings.Cut(said, "exceeded quota: "); exceeded {
		return trial.Reason{Code: "quota", Text: words("a quota of the namespace has no room for its pod", quota)}
	}
	if said != "" {
		return trial.Reason{Code: "no-pod", Text: words("the cluster cannot make its pod", firstLine(said))}
	}
	return noPod
}

// lastWarning is the newest warning about an object or one that was made of it.
func (s *site) lastWarning(ctx context.Context, name string) string {
	list, err := s.cluster.dynamic.Resource(eventsResource).Namespace(s.namespace).List(ctx, metav1.ListOptions{FieldSelector: "type=Warning", Limit: mostEvents})
	if err != nil {
		return ""
	}
	about := slices.DeleteFunc(list.Items, func(u unstructured.Unstructured) bool {
		whose, _, _ := unstructured.NestedString(u.Object, "involvedObject", "name")
		return whose != name && !strings.HasPrefix(whose, name+"-")
	})
	if len(about) == 0 {
		return ""
	}
	newest := slices.MaxFunc(about, func(a, b unstructured.Unstructured) int {
		return cmp.Compare(text(a.Object, "lastTimestamp"), text(b.Object, "lastTimestamp"))
	})
	return text(newest.Object, "message")
}
