package kube

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/trial"
)

// noNode is more replicas than any cluster has room for: AdaptDL waits for it.
const noNode = int64(1) << 20

// adaptDLJob is AdaptDL's job. Its controller deletes pods the moment all have
// succeeded, and refuses every change of a spec. We never let it move a pod: a run
// that began anew in the middle would report twice.
var adaptDLJob = jobKind{
	resource:  schema.GroupVersionResource{Group: "adaptdl.petuum.com", Version: "v1", Resource: "adaptdljobs"},
	kind:      "AdaptDLJob",
	container: "main",
	held:      true,
	immutable: true,
	spec: func(_ Section, templates []template) object {
		replicas := int64(templates[0].Replicas)
		return object{"preemptible": false, "minReplicas": replicas, "maxReplicas": replicas, "template": templates[0].pod}
	},
	suspended: object{"minReplicas": noNode, "maxReplicas": noNode,
		"template": object{"spec": object{"nodeSelector": object{"perennial.dev/never": "true"}}}},
	condition: adaptDLCondition,
	index:     "adaptdl/rank",
}

func adaptDLCondition(u *unstructured.Unstructured) condition {
	status, _ := u.Object["status"].(object)
	replicas, _, _ := unstructured.NestedInt64(u.Object, "spec", "minReplicas")
	switch phase := text(status, "phase"); {
	case replicas == noNode:
		return condition{suspended: true}
	case phase == "Succeeded":
		return condition{over: true, succeeded: true, ended: timeOf(status, "completionTimestamp")}
	case phase == "Failed":
		return condition{over: true, ended: timeOf(status, "completionTimestamp"),
			reason: trial.Reason{Code: "job-failed", Text: words("its AdaptDLJob failed", text(status, "reason"), text(status, "message"))}}
	case phase == "" || phase == "Pending":
		return condition{reason: trial.Reason{Code: "queued", Text: "AdaptDL has given it no node yet"}}
	}
	return condition{}
}

// AdaptDL is what NNI's files for AdaptDL say of a trial's pod.
type AdaptDL struct {
	Image       string
	CPUs        int
	Memory      string // as Kubernetes writes it
	PullSecrets []string
	NFS         *NFS
	// StorageClass and StorageSize are of the volume for a trial's checkpoints, which
	// all its attempts see; empty: they go with the pod.
	StorageClass, StorageSize string
}

// NFS is a directory of a server and where trials find it.
type NFS struct {
	Server    string `json:"server"`
	Path      string `json:"path"`
	MountPath string `json:"containerMountPath"`
}

// adaptDLVolume is what NNI calls the volume for checkpoints.
const adaptDLVolume = "adaptdl-pvc"

// adaptDLDirectories are what the volume has, by the variables that name them.
var adaptDLDirectories = []struct{ variable, directory string }{
	{"ADAPTDL_CHECKPOINT_PATH", "adaptdl/checkpoint"},
	{"ADAPTDL_TENSORBOARD_LOGDIR", "adaptdl/tensorboard"},
	{"ADAPTDL_SHARE_PATH", "adaptdl/share"},
}

// Pod is the trial's.
func (a AdaptDL) Pod() (Pod, platforms.OptionFaults) {
	pod := Pod{Image: a.Image, ImagePullSecrets: a.PullSecrets}
	if a.NFS != nil {
		pod.Volumes = append(pod.Volumes, object{"name": "nfs", "nfs": object{"server": a.NFS.Server, "path": a.NFS.Path}})
		pod.Mounts = append(pod.Mounts, mount("nfs", a.NFS.MountPath))
	}
	for _, each := range adaptDLDirectories {
		pod.Mounts = append(pod.Mounts, object{"name": adaptDLVolume, "mountPath": "/" + each.directory, "subPath": each.directory})
	}
	if a.StorageClass != "" {
		pod.claim = &claim{a.StorageClass, a.StorageSize}
	}
	pod.finish = append(pod.finish, a.finish)
	return pod, a.faults()
}

func (a AdaptDL) faults() (faults platforms.OptionFaults) {
	for field, size := range map[string]string{"memorySize": a.Memory, "checkpoint.storageSize": a.StorageSize} {
		if _, err := resource.ParseQuantity(size); size != "" && err != nil {
			faults = append(faults, platforms.OptionFault{Field: field, Message: fmt.Sprintf("%q is no size", size), Hint: "as Kubernetes writes it, such as 8Gi"})
		}
	}
	return faults
}

// finish asks for CPU and memory without a limit, as NNI did.
func (a AdaptDL) finish(key trial.Key, made object) {
	spec := made["spec"].(object)
	volume := object{"name": adaptDLVolume, "emptyDir": object{}}
	if a.StorageClass != "" {
		volume = object{"name": adaptDLVolume, "persistentVolumeClaim": object{"claimName": claimName(key)}}
	}
	spec["volumes"] = append(spec["volumes"].([]any), volume)
	container := spec["containers"].([]any)[0].(object)
	asked := container["resources"].(object)["requests"].(object)
	asked["cpu"], asked["memory"] = fmt.Sprint(a.CPUs), a.Memory
	for _, each := range adaptDLDirectories {
		container["env"] = append(container["env"].([]any), object{"name": each.variable, "value": "/" + each.directory})
	}
}
