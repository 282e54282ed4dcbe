package kube

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/perennial-ml/perennial/trial"
)

var trainer = schema.GroupVersion{Group: "trainer.kubeflow.org", Version: "v1alpha1"}

// trainJob is the TrainJob of Kubeflow's Trainer. What its pods are stands in a
// TrainingRuntime, of which each run has its own: a TrainJob can change little of one,
// and the usual ones try again what has failed.
var trainJob = jobKind{
	resource:  trainer.WithResource("trainjobs"),
	kind:      "TrainJob",
	container: "node",
	first:     "node",
	beside:    &companion{resource: trainer.WithResource("trainingruntimes"), kind: "TrainingRuntime", spec: trainingRuntime},
	spec: func(_ Section, templates []template) object {
		return object{"runtimeRef": object{"apiGroup": trainer.Group, "kind": "TrainingRuntime", "name": templates[0].object}}
	},
	suspended: object{"suspend": true},
	condition: trainJobCondition,
	index:     batchJob.index,
}

// trainingRuntime has Trainer give torch's ranks and peers (PET_NODE_RANK and so on),
// which do others no harm.
func trainingRuntime(_ Section, templates []template) object {
	node := object{"name": "node", "template": object{
		"metadata": object{"labels": object{"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
		"spec":     object{"backoffLimit": int64(0), "template": templates[0].pod},
	}}
	return object{"mlPolicy": object{"numNodes": int64(templates[0].Replicas), "torch": object{}},
		"template": object{"spec": object{"failurePolicy": object{"maxRestarts": int64(0)}, "replicatedJobs": []any{node}}}}
}

func trainJobCondition(u *unstructured.Unstructured) condition {
	held := conditionsOf(u)
	if failed, ok := held["Failed"]; ok {
		return condition{over: true, ended: timeOf(failed, "lastTransitionTime"),
			reason: trial.Reason{Code: "job-failed", Text: words("its TrainJob failed", text(failed, "reason"), text(failed, "message"))}}
	}
	if complete, ok := held["Complete"]; ok {
		return condition{over: true, succeeded: true, ended: timeOf(complete, "lastTransitionTime")}
	}
	_, suspended := held["Suspended"]
	return condition{suspended: suspended}
}
