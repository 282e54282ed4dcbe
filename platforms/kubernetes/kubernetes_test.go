package kubernetes_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/kubernetes"
	"github.com/perennial-ml/perennial/runner/binary"
	"github.com/perennial-ml/perennial/testsuite/kube"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
	"github.com/perennial-ml/perennial/trial"
)

// open opens a section on the cluster, with keys beside those that lead there.
func open(t *testing.T, cluster *kube.Cluster, namespace string, more map[string]any) platforms.Platform {
	return openAt(t, "", cluster, namespace, more)
}

// openAt is open for a home.
func openAt(t *testing.T, home string, cluster *kube.Cluster, namespace string, more map[string]any) platforms.Platform {
	keys := map[string]any{"image": kube.ShellImage, "namespace": namespace, "kubeconfig": cluster.Kubeconfig}
	for name, value := range more {
		keys[name] = value
	}
	options, err := json.Marshal(keys)
	require.NoError(t, err)
	kind := kubernetes.New(kubernetes.Options{StateDirectory: t.TempDir(), Home: home, Runner: binary.For})
	experiment := strings.TrimPrefix(namespace, "test-")
	section := platformtest.Section("kubernetes", experiment, func() json.RawMessage { return options })
	opened := kind.Open(section)
	experiments.Store(opened, experiment)
	t.Cleanup(func() { _ = opened.Close() })
	return opened
}

// experiments are those of the sections that open opened: one in each namespace.
var experiments sync.Map

var submitted atomic.Int64

func key() trial.Key { return trial.Key{Experiment: trial.NewExperimentID(), Attempt: 1} }

// oneMore is the key of one more trial of a section's experiment.
func oneMore(p platforms.Platform) trial.Key {
	experiment, _ := experiments.Load(p)
	return trial.Key{Experiment: experiment.(string), Sequence: int(submitted.Add(1)), Attempt: 1}
}

// await waits for a report.
func await(t *testing.T, p platforms.Platform, handle platforms.Handle, wanted func(platforms.Report) bool) platforms.Report {
	t.Helper()
	var last platforms.Report
	require.Eventually(t, func() bool {
		reports, err := p.Poll(t.Context(), platforms.Ask(handle))
		if err != nil {
			return false
		}
		last = reports[0]
		return wanted(last)
	}, 2*time.Minute, 50*time.Millisecond, "%+v", &last)
	return last
}

func submit(t *testing.T, p platforms.Platform, command string) platforms.Handle {
	made := job(t, oneMore(p), platformtest.Behaviour{})
	made.Command = command
	handle, err := p.Submit(t.Context(), made)
	require.NoError(t, err)
	return handle
}

func saying(code, words string) func(platforms.Report) bool {
	return func(r platforms.Report) bool { return r.Reason.Code == code && strings.Contains(r.Reason.Text, words) }
}

func TestATrialThatNoNodeHasRoomForSaysWhatTheSchedulerSays(t *testing.T) {
	cluster := kube.Up(t)
	p := open(t, cluster, cluster.Namespace(t), map[string]any{"cpu": "4000"})
	report := await(t, p, submit(t, p, "true"), saying("unschedulable", "Insufficient cpu"))
	require.Equal(t, platforms.Waiting, report.Phase)
}

func TestATrialWhoseImageCannotBePulledSaysSo(t *testing.T) {
	cluster := kube.Up(t)
	p := open(t, cluster, cluster.Namespace(t), map[string]any{"image": "laboratory.invalid/nowhere:1"})
	report := await(t, p, submit(t, p, "true"), saying("image", "laboratory.invalid/nowhere:1"))
	require.Equal(t, platforms.Waiting, report.Phase)
}

func TestMetricsSurviveChatterThatTheNodeDrops(t *testing.T) {
	cluster := kube.Up(t)
	namespace := cluster.Namespace(t)
	p := open(t, cluster, namespace, nil)
	handle := submit(t, p, `echo "perennial: intermediate 1"; yes chatter | head -c 12000000; echo "perennial: final 2"`)
	job := "/apis/batch/v1/namespaces/" + namespace + "/jobs/perennial-" + handle.Key.String()
	require.NoError(t, p.Close())
	cluster.Await(t, "the end, while nobody watches", func() bool {
		object, err := cluster.API.Get(t.Context(), job)
		return err == nil && kube.Condition(object, "Complete")
	})
	p = open(t, cluster, namespace, nil)
	report := await(t, p, handle, func(r platforms.Report) bool { return r.Phase == platforms.Exited && !r.Pending })
	require.Len(t, report.Journal.Records, 2)
	require.Zero(t, report.Reason)
}

func TestWhatATrialPrintedIsKeptWithinItsLimitOnceItsPodIsGone(t *testing.T) {
	cluster := kube.Up(t)
	t.Parallel()
	namespace := cluster.Namespace(t)
	p := open(t, cluster, namespace, nil)
	made := job(t, oneMore(p), platformtest.Behaviour{})
	made.Command, made.LogLimit = "echo first; yes between | head -c 50000; echo last", 1000
	handle, err := p.Submit(t.Context(), made)
	require.NoError(t, err)
	await(t, p, handle, exited)
	require.NoError(t, p.(platforms.WithForget).Forget(t.Context(), handle))
	cluster.Await(t, "no pod", func() bool { return len(cluster.Pods(t, namespace, "perennial.dev/run="+handle.Key.String())) == 0 })
	log, err := p.(platforms.WithLogs).Logs(t.Context(), handle, platforms.Log{Stream: "stdout"})
	require.NoError(t, err)
	content, err := io.ReadAll(log)
	require.NoError(t, err)
	require.Less(t, len(content), 1100)
	require.Regexp(t, `(?s)^first\nbetween.* bytes left out\]\n.*between\nlast\n$`, string(content))
}

func TestTheAPIServersAbsenceIsNoEndAndLosesNothing(t *testing.T) {
	cluster := kube.Up(t)
	p := open(t, cluster, cluster.Namespace(t), nil)
	handle := submit(t, p, `echo "perennial: intermediate 1"; sleep 4; echo "perennial: final 2"`)
	await(t, p, handle, func(r platforms.Report) bool { return r.Phase == platforms.Running })
	cluster.Kill(t, kube.APIServer)
	require.Eventually(t, func() bool {
		_, err := p.Poll(t.Context(), platforms.Ask(handle))
		return err != nil && platforms.CodeOf(err) == platforms.Transient
	}, time.Minute, 50*time.Millisecond)
	cluster.Restart(t, kube.APIServer)
	report := await(t, p, handle, func(r platforms.Report) bool { return r.Phase == platforms.Exited && !r.Pending })
	require.Equal(t, 0, report.Exit.Code)
	require.Len(t, report.Journal.Records, 2)
}

func TestAnObjectThatOthersDeleteIsLostAndNoFailure(t *testing.T) {
	cluster := kube.Up(t)
	namespace := cluster.Namespace(t)
	p := open(t, cluster, namespace, nil)
	handle := submit(t, p, "sleep 600")
	await(t, p, handle, func(r platforms.Report) bool { return r.Phase == platforms.Running })
	_, err := cluster.API.Do(t.Context(), "DELETE", "/apis/batch/v1/namespaces/"+namespace+"/jobs/perennial-"+handle.Key.String()+"?propagationPolicy=Background", nil)
	require.NoError(t, err)
	report := await(t, p, handle, func(r platforms.Report) bool { return r.Phase.Definite() })
	require.Equal(t, platforms.Lost, report.Phase)
}

func TestOutOfItsOwnMemoryIsTheTrialsFailure(t *testing.T) {
	cluster := kube.Up(t)
	p := open(t, cluster, cluster.Namespace(t), map[string]any{"memory": "32Mi"})
	handle := submit(t, p, "x=a; while true; do x=$x$x; done")
	report := await(t, p, handle, func(r platforms.Report) bool { return r.Phase.Definite() })
	require.Equal(t, platforms.Exited, report.Phase)
	require.NotZero(t, report.Exit.Code)
	require.False(t, report.Exit.Outside)
}

func TestCredentialsThatAreRefusedAreToldAndTheRenewedOnesUsed(t *testing.T) {
	cluster := kube.Up(t)
	namespace := cluster.Namespace(t)
	right, err := os.ReadFile(cluster.Kubeconfig)
	require.NoError(t, err)
	require.Contains(t, string(right), cluster.API.Token)
	file := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(file, right, 0o600))
	p := open(t, cluster, namespace, map[string]any{"kubeconfig": file})
	handle := submit(t, p, `echo "perennial: final 2"; sleep 1`)
	wrong := strings.ReplaceAll(string(right), cluster.API.Token, "expired")
	require.NoError(t, os.WriteFile(file, []byte(wrong), 0o600))
	require.Eventually(t, func() bool {
		_, err := p.Poll(t.Context(), platforms.Ask(handle))
		return platforms.CodeOf(err) == platforms.Denied && strings.Contains(err.Error(), "renew what the kubeconfig")
	}, time.Minute, 50*time.Millisecond)
	require.NoError(t, os.WriteFile(file, right, 0o600))
	report := await(t, p, handle, func(r platforms.Report) bool { return r.Phase == platforms.Exited && !r.Pending })
	require.Len(t, report.Journal.Records, 1)
}

func TestALoginByAPluginOrATokenInAFileThatHasExpiredIsToldAndTheNextOneUsed(t *testing.T) {
	cluster, directory := kube.Up(t), t.TempDir()
	login := filepath.Join(directory, "login")
	require.NoError(t, os.WriteFile(login, []byte(`#!/bin/sh
read -r token <"$1" || exit 1
echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "'"$token"'"}}'
`), 0o755))
	for name, user := range map[string]func(token string) kube.Object{
		"plugin": func(token string) kube.Object {
			return kube.Object{"exec": kube.Object{"apiVersion": "client.authentication.k8s.io/v1", "command": login, "args": []any{token}, "interactiveMode": "Never"}}
		},
		"file": func(token string) kube.Object { return kube.Object{"tokenFile": token} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			token := filepath.Join(t.TempDir(), "token")
			p := open(t, cluster, cluster.Namespace(t), map[string]any{"kubeconfig": kubeconfigOf(t, cluster, user(token))})
			made := job(t, oneMore(p), platformtest.Behaviour{})
			made.Command = `echo "perennial: final 2"`
			refused := func(says string) {
				_, err := p.Submit(t.Context(), made)
				require.Equal(t, platforms.Denied, platforms.CodeOf(err), "%v", err)
				require.ErrorContains(t, err, says)
			}
			if name == "plugin" {
				refused("log in again")
			}
			require.NoError(t, os.WriteFile(token, []byte("expired\n"), 0o600))
			refused("renew what the kubeconfig")
			require.NoError(t, os.WriteFile(token, []byte(cluster.API.Token+"\n"), 0o600))
			var handle platforms.Handle
			require.Eventually(t, func() (renewed bool) {
				var err error
				handle, err = p.Submit(t.Context(), made)
				return err == nil
			}, 2*time.Minute, 50*time.Millisecond)
			require.Len(t, await(t, p, handle, exited).Journal.Records, 1)
		})
	}
}

// kubeconfigOf is the path of a configuration in which the user logs in otherwise.
func kubeconfigOf(t *testing.T, cluster *kube.Cluster, user kube.Object) string {
	t.Helper()
	right, err := os.ReadFile(cluster.Kubeconfig)
	require.NoError(t, err)
	var config kube.Object
	require.NoError(t, json.Unmarshal(right, &config))
	kube.Field(config, "users", 0).(kube.Object)["user"] = user
	content, err := json.Marshal(config)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(file, content, 0o600))
	return file
}
