package kube

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/perennial-ml/perennial/trial"
)

// The kinds of Kubeflow's training-operator, which differ in little but names.
var (
	pytorchJob = ofTrainingOperator("PyTorchJob", "pytorch", "pytorch", "Master", "Worker")
	tfJob      = ofTrainingOperator("TFJob", "tf", "tensorflow", "Worker", "")
	xgboostJob = ofTrainingOperator("XGBoostJob", "xgb", "xgboost", "Master", "Worker")
	paddleJob  = ofTrainingOperator("PaddleJob", "paddle", "paddle", "Worker", "")
	jaxJob     = ofTrainingOperator("JAXJob", "jax", "jax", "Worker", "")
)

// ofTrainingOperator returns a kind. The container of its pods and its roles have fixed
// names, and so has what the field of the roles begins with.
func ofTrainingOperator(kind, short, container, first, rest string) jobKind {
	return jobKind{
		resource:  schema.GroupVersionResource{Group: "kubeflow.org", Version: "v1", Resource: strings.ToLower(kind) + "s"},
		kind:      kind,
		container: container,
		first:     first,
		rest:      rest,
		spec: func(_ Section, templates []template) object {
			replicas := object{}
			for _, role := range templates {
				replicas[role.Name] = object{"replicas": int64(role.Replicas), "restartPolicy": "Never", "template": role.pod}
			}
			// Nothing is tried again and no pod goes before its output is kept: both are ours.
			spec := object{"runPolicy": object{"backoffLimit": int64(0), "cleanPodPolicy": "None"}, short + "ReplicaSpecs": replicas}
			if kind == "TFJob" && len(templates) == 1 {
				spec["successPolicy"] = "AllWorkers" // else those that end after the first would be cut off
			}
			return spec
		},
		suspended: object{"runPolicy": object{"suspend": true}},
		condition: trainingCondition,
		lifetime: func(seconds int64) object {
			return object{"runPolicy": object{"ttlSecondsAfterFinished": seconds, "cleanPodPolicy": "Running"}}
		},
		index: "training.kubeflow.org/replica-index",
	}
}

// trainingCondition goes by what weighs most: Running and Created stay beside it.
func trainingCondition(u *unstructured.Unstructured) condition {
	held := conditionsOf(u)
	if failed, ok := held["Failed"]; ok {
		return condition{over: true, ended: timeOf(failed, "lastTransitionTime"),
			reason: trial.Reason{Code: "job-failed", Text: words("its "+u.GetKind()+" failed", text(failed, "reason"), text(failed, "message"))}}
	}
	if succeeded, ok := held["Succeeded"]; ok {
		return condition{over: true, succeeded: true, ended: timeOf(succeeded, "lastTransitionTime")}
	}
	_, suspended := held["Suspended"]
	return condition{suspended: suspended}
}
