package kube

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/perennial-ml/perennial/trial"
)

// Labels of everything that we make, and annotations.
const (
	homeLabel        = "perennial.dev/home"
	experimentLabel  = "perennial.dev/experiment"
	sequenceLabel    = "perennial.dev/sequence"
	trialLabel       = "perennial.dev/trial"
	attemptLabel     = "perennial.dev/attempt"
	runLabel         = "perennial.dev/run"
	roleLabel        = "perennial.dev/role"
	intentAnnotation = "perennial.dev/intent"
	// limitAnnotation is Job.LogLimit, for whoever keeps the output at the end.
	limitAnnotation = "perennial.dev/log-limit"
	// keptAnnotation is set on what is over and goes by itself, some time after.
	keptAnnotation = "perennial.dev/kept"
)

// holdFinalizer keeps a pod that its controller deletes until Forget lets go.
const holdFinalizer = "perennial.dev/on-record"

const fieldManager = "perennial"

// labels are those of a run's object and pods.
func (s Section) labels(key trial.Key) object {
	marks := s.marks(key.Experiment)
	marks[trialLabel], marks[runLabel] = key.TrialID(), key.String()
	marks[sequenceLabel], marks[attemptLabel] = strconv.Itoa(key.Sequence), strconv.Itoa(key.Attempt)
	return marks
}

// marks are the labels of everything that is made for an experiment.
func (s Section) marks(experiment string) object {
	marks := object{experimentLabel: experiment, "app.kubernetes.io/managed-by": "perennial"}
	if s.home != "" {
		marks[homeLabel] = s.home
	}
	return marks
}

// keyOf is the key of what carries labels, false where they are not ours.
func keyOf(u *unstructured.Unstructured) (trial.Key, bool) {
	have := u.GetLabels()
	sequence, err := strconv.Atoi(have[sequenceLabel])
	if err != nil {
		return trial.Key{}, false
	}
	attempt, err := strconv.Atoi(have[attemptLabel])
	key := trial.Key{Experiment: have[experimentLabel], Sequence: sequence, Attempt: attempt}
	return key, err == nil && key.String() == have[runLabel]
}

// nameOf is what a run's object is called, where its kind has no rules of its own.
func nameOf(key trial.Key) string { return "perennial-" + key.String() }

// words joins what there is to say.
func words(parts ...string) string {
	said := parts[:0:0]
	for _, part := range parts {
		if part = strings.TrimSuffix(strings.TrimSpace(part), "."); part != "" {
			said = append(said, part)
		}
	}
	return strings.Join(said, ": ")
}

func ofExperiment(experiment string) string { return fmt.Sprintf("%s=%s", experimentLabel, experiment) }

func ofRuns(keys []trial.Key) string {
	var runs []string
	for _, key := range keys {
		runs = append(runs, key.String())
	}
	return fmt.Sprintf("%s in (%s)", runLabel, strings.Join(runs, ","))
}
