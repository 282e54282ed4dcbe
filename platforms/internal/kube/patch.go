package kube

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/perennial-ml/perennial/platforms"
)

// CheckPatch finds what is wrong with a patch of a pod.
func CheckPatch(patch map[string]any) *platforms.OptionFault {
	for name := range patch {
		if name != "metadata" && name != "spec" {
			return &platforms.OptionFault{Field: "podPatch", Message: "has a key " + name, Hint: "metadata and spec, as a pod has them"}
		}
	}
	text, err := json.Marshal(patch)
	if err == nil {
		err = json.Unmarshal(text, &corev1.Pod{})
	}
	if err != nil {
		return &platforms.OptionFault{Field: "podPatch", Message: "cannot be merged into a pod: " + err.Error()}
	}
	return nil
}

// patched merges a patch into a pod as kubectl does: lists of what has names by these.
func patched(pod, patch object) (object, error) {
	if len(patch) == 0 {
		return pod, nil
	}
	before, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	change, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	merged, err := strategicpatch.StrategicMergePatch(before, change, corev1.Pod{})
	if err != nil {
		return nil, err
	}
	after := object{}
	return after, json.Unmarshal(merged, &after)
}
