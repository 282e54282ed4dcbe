// Package openpai tells stories of trials on OpenPAI with the real program and real
// trials, on the cluster of package openpailab.
package openpai

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/testsuite/openpailab"
	"github.com/perennial-ml/perennial/testsuite/servicelab"
)

// world is a controller with a state directory of its own, and a cluster.
type world struct {
	*endtoend.Home
	*openpailab.Cluster
	t      *testing.T
	secret string // the file that has the credential
}

func newWorld(t *testing.T, secret string) *world {
	w := &world{Home: endtoend.NewHome(t), Cluster: openpailab.New(t), t: t}
	w.secret = filepath.Join(t.TempDir(), "secret")
	w.renew(secret)
	return w
}

// renew is what a person does whose credential is refused.
func (w *world) renew(secret string) {
	require.NoError(w.t, os.WriteFile(w.secret, []byte(secret+"\n"), 0o600))
}

// section is NNI's section, with the credential by reference.
func (w *world) section(credential string, more ...string) string {
	lines := append([]string{
		"platform: openpai", "host: " + w.URL, "username: " + openpailab.User, credential + ": ${file:" + w.secret + "}",
		"trialCpuNumber: 1", "trialMemorySize: 1gb", "trialGpuNumber: 0", "storageConfigName: " + openpailab.Storage,
		"virtualCluster: " + openpailab.VirtualCluster, "localStorageMountPoint: " + w.Here, "containerStorageMountPoint: " + w.There,
	}, more...)
	return "  " + strings.Join(lines, "\n  ") + "\n"
}

// requireNoSecret looks for a secret in everything that lies anywhere afterwards: the
// history, the record and the logs, the storage, and what commands print.
func (w *world) requireNoSecret(id string, secrets ...string) {
	w.t.Helper()
	said := w.Must("show", id, "--output", "json") + w.Must("trials", id) + w.LogTail()
	for _, secret := range secrets {
		require.NotContains(w.t, said, secret)
		for _, root := range []string{w.Dir, w.Here, w.Work} {
			require.NoError(w.t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
				if err != nil || !entry.Type().IsRegular() {
					return nil // it went meanwhile
				}
				content, err := os.ReadFile(path)
				require.False(w.t, err == nil && bytes.Contains(content, []byte(secret)), path)
				return nil
			}))
		}
	}
}

func (w *world) done(run *endtoend.Following, trials int, killed map[string]bool) {
	w.t.Helper()
	require.Equal(w.t, "DONE", run.Finished(3*endtoend.Patience).Status)
	w.RequireExactlyOnce(run.ID(), trials, killed)
	w.Await("the end of all jobs", func() bool { return w.Alive() == 0 })
	require.Zero(w.t, w.Refused(), "no call that a limit forbids")
}

func TestTrialsInEnvironmentsOutliveTheHostAndAnEnvironmentAndARevokedToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, openpailab.Token)
	run := w.Follow(w.Experiment(endtoend.Plan{Trials: 6, Concurrency: 2, Steps: "PERENNIAL_SEQUENCE == 0 && PERENNIAL_ATTEMPT == 1 ? 2000 : 10",
		Pause: "0.3", Code: "code", Platform: w.section("token")}))
	w.AwaitState(run.ID(), 0, "RUNNING", 1)
	first := w.Trial(run.ID(), 0).ID
	w.Await("its first metric", func() bool { ran := w.Ledger()[first][1]; return ran != nil && len(ran.Metrics) > 0 })
	w.KillAndAwait(endtoend.Host)
	w.Await("another trial", func() bool { return len(w.Ledger()) > 2 })

	const renewed = "the-token-that-ada-made-later"
	w.Revoke(renewed)
	w.Await("word of the token", func() bool {
		reason := w.Trial(run.ID(), 0).Reason
		return reason.Code == "denied" && strings.Contains(reason.Text, "renew the token of OpenPAI's user ada")
	})
	w.KillAndAwait(endtoend.Host)
	w.renew(renewed)
	w.Await("the end of that", func() bool { return w.Trial(run.ID(), 0).Reason.Code != "denied" })

	environment := w.environmentOf(first)
	w.Cluster.Kill(environment)
	w.done(run, 6, map[string]bool{first + "/1": true})
	require.Less(t, w.Calls("submit"), 7, "seven attempts, in fewer environments")
	w.requireNoSecret(run.ID(), openpailab.Token, renewed)
}

// environmentOf is the job that runs a trial, by what it says itself.
func (w *world) environmentOf(trial string) (found string) {
	w.t.Helper()
	w.Await("the environment of "+trial, func() bool {
		for name, state := range w.States() {
			if state == "RUNNING" && strings.Contains(w.Log(name), "/trials/"+trial+"/") {
				found = name
			}
		}
		return found != ""
	})
	return found
}

func TestATrialIsAJobWhereEnvironmentsAreNotWanted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, openpailab.Password)
	w.Have(servicelab.Fault{Of: "submit", Lost: true}, servicelab.Fault{Of: "list", Status: 502, HTML: true})
	run := w.Follow(w.Experiment(endtoend.Plan{Trials: 4, Concurrency: 4, Steps: "PERENNIAL_SEQUENCE < 2 ? 2000 : 5", Pause: "0.3",
		Code: "code", Platform: w.section("password", "reuseMode: false")}))
	for sequence := range 2 {
		w.AwaitState(run.ID(), sequence, "RUNNING", 1)
	}
	w.Must("kill", run.ID(), "0")
	w.Must("kill", run.ID(), "1", "--early-stop")
	w.KillAndAwait(endtoend.Host)
	require.Equal(t, "DONE", run.Finished(3*endtoend.Patience).Status)
	require.Equal(t, "USER_CANCELED", w.Trial(run.ID(), 0).State)
	require.Equal(t, "EARLY_STOPPED", w.Trial(run.ID(), 1).State)
	w.Await("the end of all jobs", func() bool { return w.Alive() == 0 })
	for name := range w.States() {
		require.Contains(t, name, fmt.Sprintf("perennial-%s-", run.ID()))
	}
	require.Len(t, w.States(), 4, "one job for each trial, whatever was lost")
	w.requireNoSecret(run.ID(), openpailab.Password, "login-token-1")
}

func TestASectionOfNNIsFirstSchemaRunsAsItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, openpailab.Token)
	w.Experiment(endtoend.Plan{Trials: 1, Concurrency: 1, Steps: "1", Pause: "0", Code: "code"}) // for its files
	file := w.Write("v1.yml", fmt.Sprintf(`
authorName: ada
experimentName: v1
trialConcurrency: 1
maxExecDuration: 1h
maxTrialNum: 2
trainingServicePlatform: pai
searchSpacePath: space.json
useAnnotation: false
tuner: {builtinTunerName: Random}
trial:
  command: ./trial.sh
  codeDir: code
  gpuNum: 0
  cpuNum: 1
  memoryMB: 512
  image: msranni/nni:latest
  virtualCluster: default
  nniManagerNFSMountPath: %s
  containerNFSMountPath: %s
  paiStorageConfigName: %s
paiConfig:
  userName: %s
  token: ${file:%s}
  host: %s
  reuse: true
`, w.Here, w.There, openpailab.Storage, openpailab.User, w.secret, w.URL))
	run := w.Follow(file)
	require.Equal(t, "DONE", run.Finished(3*endtoend.Patience).Status)
	w.RequireExactlyOnce(run.ID(), 2, nil)
}
