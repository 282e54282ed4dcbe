package kubernetes_test

import (
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/kubernetes"
	"github.com/perennial-ml/perennial/runner/binary"
	"github.com/perennial-ml/perennial/testsuite/kube"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
)

// serves is a pod that gives an archive of code away.
func serves(t *testing.T, cluster *kube.Cluster, namespace string) (url, sum string) {
	path := "/api/v1/namespaces/" + namespace + "/pods"
	script := `mkdir /www && echo 'echo "perennial: final $PERENNIAL_ATTEMPT"' >trial.sh && tar -czf /www/code.tar.gz trial.sh && sha256sum /www/code.tar.gz && exec httpd -f -h /www`
	cluster.Create(t, path, kube.Object{"apiVersion": "v1", "kind": "Pod", "metadata": kube.Object{"name": "store"}, "spec": kube.Object{"containers": []any{
		kube.Object{"name": "store", "image": kube.ShellImage, "workingDir": "/tmp", "command": []any{"sh", "-ec", script}}}}})
	cluster.Await(t, "the archive", func() bool {
		pod, err := cluster.API.Get(t.Context(), path+"/store")
		if err != nil || kube.Field(pod, "status", "phase") != "Running" {
			return false
		}
		url = "http://" + kube.Field(pod, "status", "podIP").(string) + "/code.tar.gz"
		sum, _, _ = strings.Cut(cluster.Logs(t, namespace, "store", "store"), " ")
		return len(sum) == 64
	})
	return url, sum
}

// runFrom runs a command on code that is not packed here, to its end.
func runFrom(t *testing.T, p platforms.Platform, command string) platforms.Report {
	workspace, err := p.Prepare(t.Context(), platforms.Bundle{CodeDirectory: filepath.Join(t.TempDir(), "not there")})
	require.NoError(t, err)
	made := job(t, oneMore(p), platformtest.Behaviour{})
	made.Workspace, made.Command = workspace, command
	handle, err := p.Submit(t.Context(), made)
	require.NoError(t, err)
	return await(t, p, handle, func(r platforms.Report) bool { return r.Phase.Definite() && !r.Pending })
}

func TestCodeComesOutOfAnImageOrFromAnAddress(t *testing.T) {
	cluster := kube.Up(t)
	t.Parallel()
	namespace := cluster.Namespace(t)
	url, sum := serves(t, cluster, namespace)
	for name, from := range map[string]struct {
		code    map[string]any
		command string
	}{
		"its own image": {map[string]any{"path": "/etc"}, `grep -q root passwd && echo "perennial: final 1"`},
		"another image": {map[string]any{"image": kube.ShellImage, "path": "/etc"}, `grep -q root passwd && touch mine && echo "perennial: final 1"`},
		"an address":    {map[string]any{"url": url, "sha256": sum}, `sh trial.sh`},
	} {
		t.Run(name, func(t *testing.T) {
			report := runFrom(t, open(t, cluster, namespace, map[string]any{"code": from.code}), from.command)
			require.Equal(t, platforms.Exited, report.Phase, "%+v", report)
			require.Zero(t, report.Exit.Code)
			require.Len(t, report.Journal.Records, 1)
		})
	}
	other := strings.Repeat("0", 64)
	report := runFrom(t, open(t, cluster, namespace, map[string]any{"code": map[string]any{"url": url, "sha256": other}}), "true")
	require.Equal(t, platforms.Lost, report.Phase, "%+v", report)
	require.Contains(t, report.Reason.Text, "has the SHA-256 sum "+sum)
}

// claims binds a claim to a directory of the node's.
func claims(t *testing.T, cluster *kube.Cluster, namespace, name, directory string) {
	about := func(name string) kube.Object { return kube.Object{"name": name} }
	size := kube.Object{"storage": "1Gi"}
	cluster.Create(t, "/api/v1/persistentvolumes", kube.Object{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": about(namespace), "spec": kube.Object{
		"capacity": size, "accessModes": []any{"ReadWriteMany"}, "hostPath": kube.Object{"path": directory}, "persistentVolumeReclaimPolicy": "Retain",
		"claimRef": kube.Object{"namespace": namespace, "name": name}, "storageClassName": ""}})
	cluster.Create(t, "/api/v1/namespaces/"+namespace+"/persistentvolumeclaims", kube.Object{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": about(name),
		"spec": kube.Object{"accessModes": []any{"ReadWriteMany"}, "resources": kube.Object{"requests": size}, "storageClassName": "", "volumeName": namespace}})
}

// prepare tries again, as users of a platform do: a busy API server breaks off what takes
// long.
func prepare(t *testing.T, p platforms.Platform, bundle platforms.Bundle) (workspace platforms.Workspace) {
	t.Helper()
	var err error
	require.Eventually(t, func() bool {
		workspace, err = p.Prepare(t.Context(), bundle)
		return err == nil || platforms.CodeOf(err) != platforms.Transient
	}, 2*time.Minute, 100*time.Millisecond, "%v", &err)
	require.NoError(t, err)
	return workspace
}

func TestCodeThatIsTooLargeForTheClusterIsBroughtOnceOntoAVolumeAndGoesWithTheExperiment(t *testing.T) {
	cluster := kube.Up(t)
	t.Parallel()
	namespace, onNode, code := cluster.Namespace(t), t.TempDir(), t.TempDir()
	claims(t, cluster, namespace, "code", onNode)
	random := make([]byte, 21<<20)
	_, _ = rand.Read(random)
	require.NoError(t, os.WriteFile(filepath.Join(code, "weights"), random, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(code, "trial.sh"), []byte(`[ $(wc -c <weights) = 22020096 ] && echo "perennial: final 1"`), 0o600))
	bundle := platforms.Bundle{CodeDirectory: code}
	_, err := open(t, cluster, namespace, nil).Prepare(t.Context(), bundle)
	require.Equal(t, platforms.Invalid, platforms.CodeOf(err))
	require.ErrorContains(t, err, "(code: {volume})")

	volumes := []any{map[string]any{"name": "code", "persistentVolumeClaim": map[string]any{"claimName": "code"}}}
	p := open(t, cluster, namespace, map[string]any{"volumes": volumes, "code": map[string]any{"volume": "code"}})
	workspace := prepare(t, p, bundle)
	lies := filepath.Join(onNode, "perennial", strings.TrimPrefix(namespace, "test-"))
	before, err := os.ReadDir(lies)
	require.NoError(t, err)
	require.Len(t, before, 1)
	first, err := before[0].Info()
	require.NoError(t, err)
	require.Greater(t, first.Size(), int64(20<<20))

	next := open(t, cluster, namespace, map[string]any{"volumes": volumes, "code": map[string]any{"volume": "code"}})
	require.Equal(t, workspace, prepare(t, next, bundle))
	after, err := os.Stat(filepath.Join(lies, before[0].Name()))
	require.NoError(t, err)
	require.Equal(t, first.ModTime(), after.ModTime(), "it was there")

	made := job(t, oneMore(p), platformtest.Behaviour{})
	made.Workspace, made.Command = workspace, "sh trial.sh"
	handle, err := p.Submit(t.Context(), made)
	require.NoError(t, err)
	report := await(t, p, handle, exited)
	require.Zero(t, report.Exit.Code, "%+v", report)
	require.Len(t, report.Journal.Records, 1)
	require.NoError(t, p.(platforms.WithCleanup).CleanUp(t.Context()))
	require.NoDirExists(t, lies)
	bundle.Again = &workspace
	require.Equal(t, workspace, prepare(t, next, bundle))
	require.FileExists(t, filepath.Join(lies, before[0].Name()), "another one has removed it")
	gone := open(t, cluster, "gone-"+namespace, map[string]any{"volumes": volumes, "code": map[string]any{"volume": "code"}})
	require.NoError(t, gone.(platforms.WithCleanup).CleanUp(t.Context()), "with its namespace")
}

func TestTheRunnerComesOutOfAnImage(t *testing.T) {
	cluster := kube.Up(t)
	t.Parallel()
	runner, err := binary.For("linux", "amd64")
	require.NoError(t, err)
	directory := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(directory, "perennial-runner"), runner, 0o755))
	namespace := cluster.Namespace(t)
	// As if it were in the image.
	patch := map[string]any{"spec": map[string]any{
		"initContainers": []any{map[string]any{"name": "perennial-runner", "volumeMounts": []any{map[string]any{"name": "built", "mountPath": "/usr/bin"}}}},
		"volumes":        []any{map[string]any{"name": "built", "hostPath": map[string]any{"path": directory}}}}}
	p := open(t, cluster, namespace, map[string]any{"runnerImage": kube.ShellImage, "podPatch": patch})
	report := await(t, p, submit(t, p, `echo "perennial: final 2"`), exited)
	require.Zero(t, report.Exit.Code)
	require.Len(t, report.Journal.Records, 1)
	maps, err := cluster.API.Get(t.Context(), "/api/v1/namespaces/"+namespace+"/configmaps?labelSelector=perennial.dev/experiment")
	require.NoError(t, err)
	require.Empty(t, maps["items"])
}

func TestASourceOfCodeThatCannotBeIsRefused(t *testing.T) {
	for _, wrong := range []string{`{"sha256": "00"}`, `{"url": "ftp://x", "sha256": "00"}`, `{"path": "relative"}`, `{"path": "/x", "url": "https://x/y.tar.gz"}`, `{"image": "x"}`, `{"volume": "x"}`, `{"volume": "x", "path": "/x"}`} {
		check := kubernetes.New(kubernetes.Options{}).Check
		require.ErrorContains(t, check(json.RawMessage(`{"image": "x", "code": `+wrong+`}`)), "code.", wrong)
	}
}
