package kube

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/perennial-ml/perennial/runner/stream"
	"github.com/perennial-ml/perennial/trial"
)

// podState is what a pod says about the run in it.
type podState struct {
	name, node     string
	uid            types.UID
	gone           bool // this is what it said last
	phase          string
	trial, journal containerState
	bringers       []containerState // that come before both
	message        *stream.Message  // of the runner; nil: none yet
	waiting        trial.Reason     // why nothing runs
	fault          string           // whose fault it is that it ended, if the cluster's
	deleting       bool
	foretold       bool      // the journal told the end, the kubelet did not yet
	unpulled       bool      // an image cannot be pulled
	placed         time.Time // on its node
	silent         time.Time // since when its node has not been heard of; zero: it is
	grace          time.Duration
	annotations    map[string]string
}

// containerState is how far a container is.
type containerState struct {
	known             bool
	running           bool
	terminated        bool
	started, ended    time.Time
	code              int
	reason, message   string
	waiting, whyWaits string
}

func (c containerState) began() bool { return c.running || c.terminated }
func (c containerState) over() bool  { return c.terminated }

// over tells whether nothing of the pod runs or will run.
func (p *podState) over() bool { return p.phase == "Succeeded" || p.phase == "Failed" }

func stateOf(u *unstructured.Unstructured, container string) *podState {
	p := &podState{name: u.GetName(), uid: u.GetUID(), annotations: u.GetAnnotations(), deleting: u.GetDeletionTimestamp() != nil}
	p.phase, _, _ = unstructured.NestedString(u.Object, "status", "phase")
	p.node, _, _ = unstructured.NestedString(u.Object, "spec", "nodeName")
	p.trial, p.journal = containerOf(u, container), containerOf(u, journalName)
	if message, err := stream.ParseMessage([]byte(p.trial.message)); err == nil {
		p.message = &message
	}
	p.bringers = containersOf(u, "initContainerStatuses", func(string) bool { return true })
	p.fault = cmp.Or(faultOfCluster(u), faultOfBringers(p.bringers))
	p.waiting, p.unpulled = p.whyWaiting(u)
	status, _ := u.Object["status"].(object)
	p.placed = timeOf(status, "startTime")
	p.silent = silentSince(u)
	seconds, _, _ := unstructured.NestedInt64(u.Object, "spec", "terminationGracePeriodSeconds")
	p.grace = time.Duration(seconds) * time.Second
	return p
}

// silentSince is since when the cluster has not heard of a pod's node. It calls the pod
// unready then without a reason, and leaves its containers as they were.
func silentSince(u *unstructured.Unstructured) time.Time {
	for _, each := range listOf(u, "status", "conditions") {
		if c, ok := each.(object); ok && c["type"] == "Ready" && c["status"] == "False" && text(c, "reason") == "" {
			return timeOf(c, "lastTransitionTime")
		}
	}
	return time.Time{}
}

func containerOf(u *unstructured.Unstructured, name string) containerState {
	found := containersOf(u, "containerStatuses", func(each string) bool { return each == name })
	return append(found, containerState{})[0]
}

func containersOf(u *unstructured.Unstructured, field string, wanted func(name string) bool) (found []containerState) {
	for _, each := range listOf(u, "status", field) {
		if status, ok := each.(object); ok && wanted(text(status, "name")) {
			found = append(found, readContainer(status))
		}
	}
	return found
}

// faultOfBringers says why what a trial needs could not be brought into its pod.
func faultOfBringers(bringers []containerState) string {
	for _, each := range bringers {
		if each.terminated && each.code != 0 {
			return words("what it needs could not be brought", each.reason, each.message)
		}
	}
	return ""
}

func readContainer(status object) containerState {
	state, _ := status["state"].(object)
	c := containerState{known: true}
	if waiting, ok := state["waiting"].(object); ok {
		c.waiting, c.whyWaits = text(waiting, "reason"), text(waiting, "message")
	}
	if running, ok := state["running"].(object); ok {
		c.running, c.started = true, timeOf(running, "startedAt")
	}
	if ended, ok := state["terminated"].(object); ok {
		c.terminated, c.started, c.ended = true, timeOf(ended, "startedAt"), timeOf(ended, "finishedAt")
		c.reason, c.message = text(ended, "reason"), text(ended, "message")
		code, _ := ended["exitCode"].(int64)
		c.code = int(code)
	}
	return c
}

// faultOfCluster says what the cluster did to a pod: evicted, preempted, lost its
// node. Empty: nothing.
func faultOfCluster(u *unstructured.Unstructured) string {
	if disrupted, ok := conditionsOf(u)["DisruptionTarget"]; ok {
		return words(text(disrupted, "reason"), text(disrupted, "message"))
	}
	status, _ := u.Object["status"].(object)
	if reason := text(status, "reason"); reason != "" {
		return words(reason, text(status, "message"))
	}
	return ""
}

// whyWaiting says why a pod has not begun, and whether an image is the cause.
func (p *podState) whyWaiting(u *unstructured.Unstructured) (trial.Reason, bool) {
	for _, c := range append(slices.Clone(p.bringers), p.trial, p.journal) {
		switch c.waiting {
		case "", "ContainerCreating", "PodInitializing":
		case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull":
			return trial.Reason{Code: "image", Text: words("its image cannot be pulled", c.waiting, firstLine(c.whyWaits))}, true
		default:
			return trial.Reason{Code: "container", Text: words("its container cannot be made", c.waiting, firstLine(c.whyWaits))}, c.waiting == "CreateContainerConfigError"
		}
	}
	if reason, message := unscheduled(u); reason != "" {
		return trial.Reason{Code: "unschedulable", Text: words("no node has room for it", message)}, false
	}
	if p.node == "" {
		return trial.Reason{Code: "scheduling", Text: "the cluster looks for a node"}, false
	}
	return trial.Reason{Code: "starting", Text: fmt.Sprintf("its container starts on node %s", p.node)}, false
}

// unscheduled is what the scheduler says.
func unscheduled(u *unstructured.Unstructured) (reason, message string) {
	for _, each := range listOf(u, "status", "conditions") {
		if c, ok := each.(object); ok && c["type"] == "PodScheduled" && c["status"] == "False" {
			return text(c, "reason"), text(c, "message")
		}
	}
	return "", ""
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
