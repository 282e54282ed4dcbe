package kube

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/perennial-ml/perennial/trial"
)

// batchJob is Kubernetes' own Job, which every cluster has.
var batchJob = jobKind{
	resource:  schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"},
	kind:      "Job",
	container: "trial",
	spec: func(_ Section, templates []template) object {
		replicas := int64(templates[0].Replicas)
		return object{"backoffLimit": int64(0), "completions": replicas, "parallelism": replicas, "completionMode": "Indexed", "template": templates[0].pod}
	},
	suspended: object{"suspend": true},
	condition: jobCondition,
	lifetime:  ttl,
	strangers: true,
	index:     "batch.kubernetes.io/job-completion-index",
}

func jobCondition(u *unstructured.Unstructured) condition {
	held := conditionsOf(u)
	active, _, _ := unstructured.NestedInt64(u.Object, "status", "active")
	if complete, ok := held["Complete"]; ok {
		return condition{over: true, succeeded: true, ended: timeOf(complete, "lastTransitionTime")}
	}
	if failed, ok := held["Failed"]; ok {
		return condition{over: true, reason: trial.Reason{Code: "job-failed", Text: words("its Job failed", text(failed, "reason"), text(failed, "message"))},
			ended: timeOf(failed, "lastTransitionTime")}
	}
	_, suspended := held["Suspended"]
	return condition{suspended: suspended && active == 0}
}
