package kube_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/kube"
)

// What AdaptDL's own controller did, by its phases: recorded of the real one.
var (
	recordedSuccess = []string{"Pending", "Starting", "Running", "Succeeded"}
	recordedFailure = []string{"Pending", "Starting", "Running", "Failed"}
	recordedRescale = []string{"Pending", "Starting", "Running", "Stopping", "Pending", "Starting", "Running"}
)

func TestTheStandInForAdaptDLDoesWhatWasRecordedOfIt(t *testing.T) {
	cluster := kube.Up(t)
	cluster.AdaptDL(t)
	namespace := cluster.Namespace(t)
	jobs := "/apis/adaptdl.petuum.com/v1/namespaces/" + namespace + "/adaptdljobs"
	gate := filepath.Join(cluster.Exports(), namespace)
	require.NoError(t, os.MkdirAll(gate, 0o755))
	begin, err := cluster.API.Get(t.Context(), jobs)
	require.NoError(t, err)
	run := func(name, command string) {
		template := prints("main", kube.ShellImage, "begun; until [ -e /gate/open ]; do sleep 0.1; done; "+command)
		template["metadata"] = kube.Object{"labels": kube.Object{"job": name}}
		spec := template["spec"].(kube.Object)
		spec["terminationGracePeriodSeconds"] = 1
		spec["volumes"] = []any{kube.Object{"name": "gate", "hostPath": kube.Object{"path": gate}}}
		spec["containers"].([]any)[0].(kube.Object)["volumeMounts"] = []any{kube.Object{"name": "gate", "mountPath": "/gate"}}
		cluster.Create(t, jobs, kube.Object{"apiVersion": "adaptdl.petuum.com/v1", "kind": "AdaptDLJob", "metadata": kube.Object{"name": name},
			"spec": kube.Object{"preemptible": name == "rescales", "template": template}})
	}
	pods := func(name string) []kube.Object { return cluster.Pods(t, namespace, "job="+name) }
	phase := func(name, wanted string) {
		cluster.Await(t, name+" "+wanted, func() bool {
			job, err := cluster.API.Get(t.Context(), jobs+"/"+name)
			return err == nil && kube.Field(job, "status", "phase") == wanted
		})
	}
	run("succeeds", "true")
	run("fails", "exit 3")
	run("rescales", "sleep 1000")
	for _, name := range []string{"succeeds", "fails", "rescales"} {
		phase(name, "Running")
	}
	first := kube.Field(pods("rescales")[0], "metadata", "name")
	require.NoError(t, cluster.API.Patch(t.Context(), jobs+"/rescales/status", kube.Object{"status": kube.Object{"allocation": []any{kube.NodeName, kube.NodeName}}}))
	cluster.Await(t, "two pods of the next group", func() bool {
		job, err := cluster.API.Get(t.Context(), jobs+"/rescales")
		return err == nil && kube.Field(job, "status", "group") == 1.0 && kube.Field(job, "status", "phase") == "Running"
	})
	require.Len(t, pods("rescales"), 2)
	require.NotEqual(t, first, kube.Field(pods("rescales")[0], "metadata", "name"))
	require.NoError(t, os.WriteFile(filepath.Join(gate, "open"), nil, 0o600))
	phase("succeeds", "Succeeded")
	phase("fails", "Failed")
	cluster.Await(t, "no pod of what has succeeded", func() bool { return len(pods("succeeds")) == 0 })
	require.Len(t, pods("fails"), 1, "a failed pod stays")
	seen := phases(t, cluster, jobs, kube.Field(begin, "metadata", "resourceVersion").(string))
	require.Equal(t, recordedSuccess, seen["succeeds"])
	require.Equal(t, recordedFailure, seen["fails"])
	require.Equal(t, recordedRescale, seen["rescales"])
}

// phases are those that the jobs of a collection have gone through since, by the API
// server's own memory.
func phases(t *testing.T, cluster *kube.Cluster, jobs, since string) map[string][]string {
	events, err := cluster.API.Do(t.Context(), http.MethodGet, jobs+"?watch=1&timeoutSeconds=1&resourceVersion="+since, nil)
	require.NoError(t, err)
	seen := map[string][]string{}
	for decoder := json.NewDecoder(bytes.NewReader(events)); decoder.More(); {
		var event struct{ Object kube.Object }
		require.NoError(t, decoder.Decode(&event))
		name := kube.Field(event.Object, "metadata", "name").(string)
		now, _ := kube.Field(event.Object, "status", "phase").(string)
		if past := seen[name]; now != "" && (len(past) == 0 || past[len(past)-1] != now) {
			seen[name] = append(past, now)
		}
	}
	return seen
}
