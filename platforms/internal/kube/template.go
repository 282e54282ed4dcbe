package kube

import (
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/trial"
)

// PodOfTemplate is a pod made around one of the user's own, which has one container.
// Everything of it stays but what the container runs; that is returned too.
func PodOfTemplate(template map[string]any) (pod Pod, command string, fault *platforms.OptionFault) {
	spec, _ := template["spec"].(object)
	containers, _ := spec["containers"].([]any)
	if len(containers) != 1 {
		return pod, "", &platforms.OptionFault{Field: "spec.containers", Message: "must be a list of one container", Hint: "the trial's; what runs beside it begins as an init container"}
	}
	container, _ := containers[0].(object)
	if command = commandOf(container); command == "" {
		return pod, "", &platforms.OptionFault{Field: "spec.containers[0].command", Message: "is missing", Hint: "what the trial runs, as a list of words"}
	}
	if pod.Image = text(container, "image"); pod.Image == "" {
		return pod, "", &platforms.OptionFault{Field: "spec.containers[0].image", Message: "is missing", Hint: "the container image"}
	}
	pod.finish = append(pod.finish, func(_ trial.Key, made object) { around(runtime.DeepCopyJSON(template), made) })
	return pod, command, nil
}

// commandOf is what a container runs, for a shell: NNI joined the words by spaces, so
// that $NAMES and && in them work. A script after -c stays one word.
func commandOf(container object) string {
	var parts []string
	for _, key := range []string{"command", "args"} {
		listed, _ := container[key].([]any)
		for _, each := range listed {
			word, _ := each.(string)
			parts = append(parts, word)
		}
	}
	if len(parts) == 3 && parts[1] == "-c" {
		parts[2] = "'" + strings.ReplaceAll(parts[2], "'", `'\''`) + "'"
	}
	return strings.Join(parts, " ")
}

// around puts our pod into another: ours says what runs, the other everything else.
func around(theirs, ours object) {
	spec, made := theirs["spec"].(object), ours["spec"].(object)
	listed := made["containers"].([]any)
	container, own := spec["containers"].([]any)[0].(object), listed[0].(object)
	delete(container, "args")
	for _, key := range []string{"name", "command"} {
		container[key] = own[key]
	}
	for _, key := range []string{"env", "volumeMounts"} {
		known, _ := container[key].([]any)
		container[key] = append(known, own[key].([]any)...)
	}
	listed[0] = container
	spec["containers"] = listed
	known, _ := spec["volumes"].([]any)
	spec["volumes"] = append(known, made["volumes"].([]any)...)
	if brought, _ := made["initContainers"].([]any); brought != nil {
		first, _ := spec["initContainers"].([]any)
		spec["initContainers"] = append(first, brought...)
	}
	for _, key := range []string{"restartPolicy", "terminationGracePeriodSeconds"} {
		spec[key] = made[key]
	}
	for _, key := range []string{"serviceAccountName", "imagePullSecrets"} {
		if _, set := spec[key]; !set && made[key] != nil {
			spec[key] = made[key]
		}
	}
	ours["spec"] = spec
	metadata := ours["metadata"].(object)
	if about, ok := theirs["metadata"].(object); ok {
		mergeLabels(metadata, about)
	}
}

// mergeLabels adds labels and annotations of another pod that ours has not.
func mergeLabels(into, from object) {
	for _, key := range []string{"labels", "annotations"} {
		added, _ := from[key].(object)
		known, _ := into[key].(object)
		all := maps.Clone(added)
		if all == nil {
			continue
		}
		maps.Copy(all, known)
		into[key] = all
	}
}
