package kube

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/perennial-ml/perennial/trial"
)

// jobSet is the JobSet of Kubernetes' batch group: a Job for each role.
var jobSet = jobKind{
	resource:  schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"},
	kind:      "JobSet",
	container: "trial",
	first:     "trial",
	spec: func(s Section, templates []template) object {
		var jobs []any
		for _, role := range templates {
			jobs = append(jobs, object{"name": strings.ToLower(role.Name), "replicas": int64(1), "template": object{"spec": batchJob.spec(s, []template{role})}})
		}
		return object{"failurePolicy": object{"maxRestarts": int64(0)}, "replicatedJobs": jobs}
	},
	suspended: object{"suspend": true},
	lifetime:  ttl,
	condition: jobSetCondition,
	index:     batchJob.index,
}

func jobSetCondition(u *unstructured.Unstructured) condition {
	held := conditionsOf(u)
	if failed, ok := held["Failed"]; ok {
		return condition{over: true, ended: timeOf(failed, "lastTransitionTime"),
			reason: trial.Reason{Code: "job-failed", Text: words("its JobSet failed", text(failed, "reason"), text(failed, "message"))}}
	}
	if completed, ok := held["Completed"]; ok {
		return condition{over: true, succeeded: true, ended: timeOf(completed, "lastTransitionTime")}
	}
	_, suspended := held["Suspended"]
	return condition{suspended: suspended}
}
