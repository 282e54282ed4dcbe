package stories

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/testsuite/kube"
	"github.com/perennial-ml/perennial/trial"
)

// world is a controller with a state directory of its own, and a namespace of the
// cluster for its trials.
type world struct {
	*endtoend.Home
	lab        *kube.Cluster
	t          *testing.T
	namespace  string
	kubeconfig string // by which the controller reaches the cluster
	section    string // lines of the platform's section beside those that every experiment has
}

func newWorld(t *testing.T) *world {
	t.Helper()
	lab := kube.Up(t)
	return &world{endtoend.NewHome(t), lab, t, lab.Namespace(t), lab.Kubeconfig, ""}
}

// through has the controller reach the cluster by a proxy only.
func (w *world) through(proxy *kube.Proxy) *kube.Proxy {
	w.lab.Proxy(w.t, proxy)
	w.kubeconfig = proxy.Kubeconfig
	return proxy
}

// experiment writes an experiment whose pods see the ledger at its path.
func (w *world) experiment(plan endtoend.Plan) string {
	plan.Code = "code"
	plan.Platform = fmt.Sprintf(`  platform: kubernetes
  kubeconfig: %s
  namespace: %s
  image: %s
  volumes: [{name: work, hostPath: {path: %[4]s}}]
  volumeMounts: [{name: work, mountPath: %[4]s}]
`, w.kubeconfig, w.namespace, kube.ShellImage, w.Work) + w.section
	return w.Experiment(plan)
}

func (w *world) follow(plan endtoend.Plan) *endtoend.Following { return w.Follow(w.experiment(plan)) }

func short(trials, concurrency int) endtoend.Plan {
	return endtoend.Plan{Trials: trials, Concurrency: concurrency, Steps: "3", Pause: "0.3"}
}

// gated is a plan of which each trial goes on until it is let go.
func gated(trials int) endtoend.Plan {
	gate := `step=0
while [ $step -lt 1 ] || ! { [ -e "$LEDGER.go-$PERENNIAL_SEQUENCE" ] || [ -e "$LEDGER.go-all" ]; }; do`
	script := strings.Replace(endtoend.Script("1", "0.5"), "step=0\nwhile [ $step -lt $(( 1 )) ]; do", gate, 1)
	return endtoend.Plan{Trials: trials, Concurrency: trials, Script: script}
}

// letGo lets a gated trial end, or "all".
func (w *world) letGo(which any) {
	require.NoError(w.t, os.WriteFile(fmt.Sprintf("%s.go-%v", w.LedgerFile(), which), nil, 0o644))
}

// awaitReported waits until the first attempts of all trials have reported.
func (w *world) awaitReported(id string, trials int) {
	w.AwaitRunning(id, trials)
	w.Await("a metric of each trial", func() bool {
		ledger := w.Ledger()
		for _, attempts := range ledger {
			if attempts[1] == nil || len(attempts[1].Metrics) == 0 {
				return false
			}
		}
		return len(ledger) == trials
	})
}

// awaitMetric waits until an attempt of a trial has reported.
func (w *world) awaitMetric(trial string, attempt int) {
	w.Await("a metric of "+trial, func() bool { ran := w.Ledger()[trial][attempt]; return ran != nil && len(ran.Metrics) > 0 })
}

// awaitEnded waits until a trial has come to its end, by its own word.
func (w *world) awaitEnded(trial string, attempt int) {
	w.Await("the end of "+trial, func() bool { ran := w.Ledger()[trial][attempt]; return ran != nil && ran.Ended })
}

func (w *world) requireDone(run *endtoend.Following, trials int, killed map[string]bool) {
	w.t.Helper()
	require.Equal(w.t, "DONE", run.Finished(4*endtoend.Patience).Status)
	w.RequireExactlyOnce(run.ID(), trials, killed)
}

// pod is the path of the pod of a trial's attempt.
func (w *world) pod(id, trial string, attempt int) string {
	selector := fmt.Sprintf("perennial.dev/experiment=%s,perennial.dev/trial=%s,perennial.dev/attempt=%d", id, trial, attempt)
	pods := w.lab.Pods(w.t, w.namespace, selector)
	require.Len(w.t, pods, 1, "pods of %s", trial)
	return "/api/v1/namespaces/" + w.namespace + "/pods/" + kube.Field(pods[0], "metadata", "name").(string)
}

// awaitTerminated waits until the node has told that all in a pod ended.
func (w *world) awaitTerminated(pod string) {
	w.lab.Await(w.t, "the end of what runs in "+pod, func() bool {
		found, err := w.lab.API.Get(w.t.Context(), pod)
		if err != nil {
			return false
		}
		statuses, _ := kube.Field(found, "status", "containerStatuses").([]any)
		return !slices.ContainsFunc(statuses, func(status any) bool { return kube.Field(status, "state", "terminated") == nil })
	})
}

// endUnwatched runs an experiment of one trial, which comes to its end after the host and
// its client were killed, and returns the experiment's id.
func (w *world) endUnwatched(plan endtoend.Plan) (id string) {
	id = w.follow(plan).ID()
	w.awaitReported(id, 1)
	w.KillAndAwait(endtoend.Host, endtoend.CLI)
	w.letGo("all")
	w.awaitEnded(w.onlyTrial(), 1)
	return id
}

// onlyTrial is the id of the one trial that ran.
func (w *world) onlyTrial() string {
	for trial := range w.Ledger() {
		return trial
	}
	return ""
}

// allCannotReach tells whether every trial that is not over runs, and its cluster cannot be
// reached.
func (w *world) allCannotReach(id string) bool {
	return !slices.ContainsFunc(w.Trials(id), func(row endtoend.Trial) bool {
		return row.State != "RUNNING" || row.Reason.Code != "cannot-reach"
	})
}

// attempts are those of a trial on record.
func (w *world) attempts(id string, sequence int) []record.Attempt {
	store, err := record.OpenReadOnly(filepath.Join(w.Dir, "record.sqlite"))
	require.NoError(w.t, err)
	defer store.Close()
	attempts, err := store.Attempts(w.t.Context(), id, sequence)
	require.NoError(w.t, err)
	return attempts
}

// killRunner kills the runner of an attempt in its pod.
func (w *world) killRunner(attempt trial.Key) {
	whose, err := json.Marshal(attempt)
	require.NoError(w.t, err)
	processes, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(w.t, err)
	killed := 0
	for _, process := range processes {
		arguments, _ := os.ReadFile(filepath.Join(process, "cmdline"))
		job, _ := os.ReadFile(filepath.Join(process, "root/perennial/run/attempt", rundir.JobFile))
		if strings.HasPrefix(string(arguments), "/perennial/runner\x00container") && strings.Contains(string(job), string(whose)) {
			pid, _ := strconv.Atoi(filepath.Base(process))
			require.NoError(w.t, syscall.Kill(pid, syscall.SIGKILL))
			killed++
		}
	}
	require.Equal(w.t, 1, killed, "runners of %s", attempt)
}

// killPods ends all processes of the world's pods, as the end of their node would.
func (w *world) killPods() {
	processes, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(w.t, err)
	for _, process := range processes {
		mounts, _ := os.ReadFile(filepath.Join(process, "mountinfo"))
		if strings.Contains(string(mounts), " /perennial ") && strings.Contains(string(mounts), w.Work) {
			pid, _ := strconv.Atoi(filepath.Base(process))
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended meanwhile
		}
	}
}

// chatting has a trial print a hundred megabytes once it was let go, between two
// metrics.
func chatting(script string) string {
	return strings.Replace(script, "done\n", "done\nyes \"$(printf '%01000d' 0)\" | head -c 100000000\n", 1)
}
