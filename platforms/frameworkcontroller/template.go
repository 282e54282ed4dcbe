package frameworkcontroller

import (
	"cmp"
	"fmt"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/kube"
)

// framework is a Framework of the user's own, which NNI's files name by configPath.
// Its pods are as it says; when the whole is tried again is for the trial to say.
type framework struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Roles []templateRole `json:"taskRoles"`
	} `json:"spec"`
}

type templateRole struct {
	Name   string         `json:"name"`
	Tasks  int            `json:"taskNumber"`
	Policy map[string]any `json:"frameworkAttemptCompletionPolicy"`
	Task   map[string]any `json:"task"`
}

func (f framework) roles(s section) (roles []kube.Role, faults platforms.OptionFaults) {
	if f.Kind != "Framework" || f.Metadata.Name == "" || len(f.Spec.Roles) == 0 {
		return nil, fault("it", "is no Framework", "kind: Framework with metadata.name and spec.taskRoles")
	}
	seen := map[string]bool{}
	for i, each := range f.Spec.Roles {
		place := fmt.Sprintf("spec.taskRoles[%d]", i)
		if each.Name == "" || seen[each.Name] {
			faults = append(faults, fault(place+".name", "is missing, or there twice", "every role has a name of its own")...)
		}
		seen[each.Name] = true
		made, wrong := each.role(place, s)
		roles, faults = append(roles, made), append(faults, wrong...)
	}
	return roles, faults
}

// fault is one of the file, which is another than that of the experiment.
func fault(place, message, hint string) platforms.OptionFaults {
	return platforms.OptionFaults{{Field: "framework", Message: place + " " + message, Hint: hint}}
}

func (r templateRole) role(place string, s section) (kube.Role, platforms.OptionFaults) {
	template, _ := r.Task["pod"].(map[string]any)
	pod, command, wrong := kube.PodOfTemplate(template)
	if wrong != nil {
		return kube.Role{}, fault(place+".task.pod."+wrong.Field, wrong.Message, wrong.Hint)
	}
	pod.ServiceAccount = s.ServiceAccount
	task := map[string]any{}
	for key, value := range r.Task {
		if key != "pod" && key != "retryPolicy" {
			task[key] = value
		}
	}
	return kube.Role{Name: r.Name, Replicas: cmp.Or(r.Tasks, 1), Command: command, Policy: r.Policy, Task: task, Pod: pod}, nil
}
