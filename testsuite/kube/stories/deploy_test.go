package stories

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	temporal "github.com/perennial-ml/perennial/testsuite/cluster"
	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/testsuite/kube"
)

const ours = "perennial" // the namespace that the manifests name

// collections are the paths of what the manifests hold.
var collections = map[string]string{
	"Namespace": "/api/v1/namespaces/", "ServiceAccount": "/api/v1/namespaces/" + ours + "/serviceaccounts/",
	"ConfigMap": "/api/v1/namespaces/" + ours + "/configmaps/", "Service": "/api/v1/namespaces/" + ours + "/services/",
	"Role":                "/apis/rbac.authorization.k8s.io/v1/namespaces/" + ours + "/roles/",
	"RoleBinding":         "/apis/rbac.authorization.k8s.io/v1/namespaces/" + ours + "/rolebindings/",
	"Secret":              "/api/v1/namespaces/" + ours + "/secrets/",
	"StatefulSet":         "/apis/apps/v1/namespaces/" + ours + "/statefulsets/",
	"PodDisruptionBudget": "/apis/policy/v1/namespaces/" + ours + "/poddisruptionbudgets/",
	"NetworkPolicy":       "/apis/networking.k8s.io/v1/namespaces/" + ours + "/networkpolicies/",
}

func pathOf(object kube.Object) string {
	return collections[object["kind"].(string)] + kube.Field(object, "metadata", "name").(string)
}

// deployment are the objects of deploy/kubernetes, in their order.
func deployment(t *testing.T) (objects []kube.Object) {
	directory := filepath.Join(endtoend.Root(), "deploy", "kubernetes")
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(directory, name))
		require.NoError(t, err)
		return string(content)
	}
	var kustomization struct{ Resources []string }
	require.NoError(t, yaml.Unmarshal([]byte(read("kustomization.yaml")), &kustomization))
	files, err := os.ReadDir(directory)
	require.NoError(t, err)
	require.Len(t, kustomization.Resources, len(files)-1, "every other file is named")
	for _, name := range kustomization.Resources {
		for _, document := range strings.Split(read(name), "\n---\n") {
			var object kube.Object
			require.NoError(t, yaml.Unmarshal([]byte(document), &object), name)
			objects = append(objects, object)
		}
	}
	return objects
}

func TestWorkersOnTheClusterRunTrialsThereAsTheManifestsHaveThem(t *testing.T) {
	cluster, objects := kube.Up(t), deployment(t)
	t.Cleanup(func() {
		_, _ = cluster.API.Do(context.Background(), http.MethodDelete, collections["Namespace"]+ours, nil)
	})
	named := map[string]kube.Object{}
	for _, object := range objects {
		named[object["kind"].(string)] = object
		suffix := "?dryRun=All&fieldValidation=Strict"
		if object["kind"] == "Namespace" {
			suffix = ""
		}
		_, err := cluster.API.Do(t.Context(), http.MethodPost, strings.TrimSuffix(collections[object["kind"].(string)], "/")+suffix, object)
		require.NoError(t, err, pathOf(object))
	}
	_, err := cluster.API.Do(t.Context(), http.MethodPost, "/api/v1/namespaces/"+ours+"/serviceaccounts", named["ServiceAccount"])
	require.NoError(t, err)
	_, err = cluster.API.Do(t.Context(), http.MethodPost, "/api/v1/namespaces/"+ours+"/pods?dryRun=All", onItsOwn(t, named["StatefulSet"]))
	require.NoError(t, err)

	lab := temporal.Start(t)
	record := lab.Record(t, "deployed")
	h := lab.Home(t).With("PERENNIAL_RECORD=" + record).With("KUBECONFIG=" + cluster.Kubeconfig)
	file := h.Write("experiment.yml", told+"trainingService: {platform: kubernetes, namespace: "+ours+", image: "+kube.ShellImage+"}\n")
	var role kube.Object
	require.NoError(t, yaml.Unmarshal([]byte(strings.Split(h.Must("doctor", file, "--rbac"), "---\n")[1]), &role))
	require.Equal(t, role["rules"], named["Role"]["rules"])

	h.Must("keys", "--rotate")
	deployed(t, cluster, h, lab, record, named)
	id := h.Follow(file).ID()
	h.AwaitFor(endtoend.Patience, "the end", func() bool { return h.Show(id).Status == "DONE" })
	require.Equal(t, 2, h.Show(id).Trials["SUCCEEDED"])
	require.Empty(t, h.Processes(endtoend.Host), "the worker is on the cluster")
}

// onItsOwn is a pod of the workers as none of a StatefulSet, whose claim is made for it.
func onItsOwn(t *testing.T, workers kube.Object) kube.Object {
	pod := copied(t, kube.Field(workers, "spec", "template"))
	pod["apiVersion"], pod["kind"], pod["metadata"].(kube.Object)["name"] = "v1", "Pod", "allowed"
	addVolume(pod["spec"].(kube.Object), kube.Object{"name": "state", "emptyDir": kube.Object{}})
	return pod
}

func copied(t *testing.T, of any) (object kube.Object) {
	content, err := yaml.Marshal(of)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(content, &object))
	return object
}

func addVolume(spec, volume kube.Object) { spec["volumes"] = append(spec["volumes"].([]any), volume) }

// addressIn is the host and port in a URL.
func addressIn(t *testing.T, text string) string {
	parsed, err := url.Parse(text)
	require.NoError(t, err)
	return parsed.Host
}

// relay has what listens on this machine's loopback listen on the node's, too.
const relay = `import asyncio, sys
async def pipe(a, b):
    while data := await a.read(65536):
        b.write(data)
        await b.drain()
    b.close()
def to(host, port):
    async def serve(reader, writer):
        there = await asyncio.open_connection(host, port)
        await asyncio.gather(pipe(reader, there[1]), pipe(there[0], writer))
    return serve
async def main():
    await asyncio.gather(*[asyncio.start_server(to(sys.argv[1], port), "127.0.0.1", port) for port in sys.argv[2:]])
    await asyncio.Event().wait()
asyncio.run(main())
`

// theWayTo is a container that makes ports of this machine's loopback ports of the node's.
func theWayTo(t *testing.T, cluster *kube.Cluster, addresses ...string) kube.Object {
	node, _, err := net.SplitHostPort(addressIn(t, cluster.API.Server))
	require.NoError(t, err)
	here := node[:strings.LastIndex(node, ".")] + ".1" // see kube.Site
	command := []any{"python3", "-c", relay, here}
	for _, address := range addresses {
		_, port, err := net.SplitHostPort(address)
		require.NoError(t, err)
		passOn(t, net.JoinHostPort(here, port), address)
		command = append(command, port)
	}
	return kube.Object{"name": "way", "image": kube.PythonImage, "command": command}
}

// passOn has an address answered by another one until the test ends.
func passOn(t *testing.T, from, to string) {
	listener, err := net.Listen("tcp", from)
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			caller, err := listener.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", to)
			if err != nil {
				_ = caller.Close()
				continue
			}
			go func() { _, _ = io.Copy(there, caller); _ = there.Close() }()
			go func() { _, _ = io.Copy(caller, there); _ = caller.Close() }()
		}
	}()
}

// deployed brings the objects up, with what the laboratory has for what a cluster has: its
// node's network with a way to Temporal and to the database, a directory for the claim, and an
// image into which this tree's program is mounted.
func deployed(t *testing.T, cluster *kube.Cluster, h *endtoend.Home, lab *temporal.Cluster, record string, named map[string]kube.Object) {
	apply := func(object kube.Object) { require.NoError(t, cluster.API.Apply(t.Context(), pathOf(object), object)) }
	named["Namespace"]["metadata"].(kube.Object)["labels"] = kube.Object{"pod-security.kubernetes.io/enforce": "privileged"}
	named["ConfigMap"]["data"] = kube.Object{"TEMPORAL_ADDRESS": lab.Address(), "TEMPORAL_NAMESPACE": temporal.Namespace}
	secret := func(name string, data kube.Object) {
		apply(kube.Object{"apiVersion": "v1", "kind": "Secret", "metadata": kube.Object{"name": name, "namespace": ours}, "data": data})
	}
	keys, files := kube.Object{}, filepath.Join(h.Dir, "keys")
	entries, err := os.ReadDir(files)
	require.NoError(t, err)
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(files, entry.Name()))
		require.NoError(t, err)
		keys[entry.Name()] = base64.StdEncoding.EncodeToString(content)
	}
	apply(named["Namespace"])
	secret("perennial-keys", keys)
	secret("perennial-record", kube.Object{"address": base64.StdEncoding.EncodeToString([]byte(record))})
	workers := named["StatefulSet"]
	spec := workers["spec"].(kube.Object)
	delete(spec, "volumeClaimTemplates")
	spec["replicas"] = 1 // two would want the same port of the node
	pod := kube.Field(spec, "template", "spec").(kube.Object)
	pod["hostNetwork"] = true
	addVolume(pod, kube.Object{"name": "state", "emptyDir": kube.Object{}})
	addVolume(pod, kube.Object{"name": "program", "hostPath": kube.Object{"path": filepath.Dir(endtoend.Program(t))}})
	for _, containers := range []string{"initContainers", "containers"} {
		container := kube.Field(pod, containers, 0).(kube.Object)
		container["image"] = cluster.Python(t)
		container["volumeMounts"] = append(container["volumeMounts"].([]any), kube.Object{"name": "program", "mountPath": "/program"})
	}
	worker := kube.Field(pod, "containers", 0).(kube.Object)
	worker["command"] = []any{"/program/starter", "worker"}
	node, port, err := net.SplitHostPort(addressIn(t, cluster.API.Server)) // no proxy makes services of addresses here
	require.NoError(t, err)
	worker["env"] = append(worker["env"].([]any), kube.Object{"name": "KUBERNETES_SERVICE_HOST", "value": node}, kube.Object{"name": "KUBERNETES_SERVICE_PORT", "value": port})
	pod["containers"] = append(pod["containers"].([]any), theWayTo(t, cluster, lab.Address(), addressIn(t, record)))
	for _, object := range named {
		apply(object)
	}
	t.Cleanup(func() {
		if t.Failed() {
			status, _ := cluster.API.Get(context.Background(), "/api/v1/namespaces/"+ours+"/pods/perennial-worker-0")
			t.Log(h.Run("trials").Stdout, h.Run("workers").Stdout, h.Run("show").Stdout)
			said, _ := cluster.API.Do(context.Background(), http.MethodGet, "/api/v1/namespaces/"+ours+"/pods/perennial-worker-0/log?container=worker&tailLines=30", nil)
			t.Logf("%v\n%s", kube.Field(status, "status"), said)
		}
	})
	cluster.Await(t, "the worker to be ready", func() bool {
		found, err := cluster.API.Get(t.Context(), pathOf(workers))
		return err == nil && fmt.Sprint(kube.Field(found, "status", "readyReplicas")) == "1"
	})
}
