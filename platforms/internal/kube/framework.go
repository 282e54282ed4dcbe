package kube

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/perennial-ml/perennial/trial"
)

// framework is FrameworkController's Framework. It deletes pods the moment they have
// ended, so ours are held until all that they told is on record.
var framework = jobKind{
	resource:  schema.GroupVersionResource{Group: "frameworkcontroller.microsoft.com", Version: "v1", Resource: "frameworks"},
	kind:      "Framework",
	container: "framework",
	first:     "worker",
	held:      true,
	name:      func(key trial.Key) string { return strings.ReplaceAll(nameOf(key), "-", "") },
	spec: func(_ Section, templates []template) object {
		var roles []any
		for _, role := range templates {
			task := object{"retryPolicy": object{"maxRetryCount": int64(0)}, "pod": role.pod}
			merge(task, role.Task)
			roles = append(roles, object{"name": role.Name, "taskNumber": int64(role.Replicas), "frameworkAttemptCompletionPolicy": role.policy(), "task": task})
		}
		return object{"executionType": "Start", "retryPolicy": object{"maxRetryCount": int64(0)}, "taskRoles": roles}
	},
	suspended: object{"executionType": "Stop"},
	condition: frameworkCondition,
	index:     "FC_TASK_INDEX",
}

// frameworkStopped is the code of a Framework that was stopped by request.
const frameworkStopped = -210

func frameworkCondition(u *unstructured.Unstructured) condition {
	state, _, _ := unstructured.NestedString(u.Object, "status", "state")
	if state != "Completed" {
		return condition{}
	}
	status, _, _ := unstructured.NestedMap(u.Object, "status", "attemptStatus", "completionStatus")
	kind, _ := status["type"].(object)
	if code, _ := status["code"].(int64); code == frameworkStopped {
		return condition{suspended: true}
	}
	return condition{over: true, succeeded: text(kind, "name") == "Succeeded",
		reason: trial.Reason{Code: "job-failed", Text: words("its Framework failed", text(status, "phrase"), firstLine(text(status, "diagnostics")))}}
}
