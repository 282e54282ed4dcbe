package stories

import (
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/testsuite/kube"
	"github.com/perennial-ml/perennial/trial"
)

func TestTheControllerDiesAtEachPointOfASubmitAndOneObjectIsMadeAndAdopted(t *testing.T) {
	onVolume := "  code: {volume: work}\n"
	for point, section := range map[string]string{"submit.between-parts": "", "submit.depot-before-code": onVolume, "submit.code-before-object": "", "submit.object-before-handle": ""} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.section = section
			w.With("PERENNIAL_CRASH_POINT=" + point).Serve()
			first := w.Processes(endtoend.Host)
			require.Len(t, first, 1)
			run := w.follow(short(2, 2))
			w.Await("another host", func() bool {
				now := w.Processes(endtoend.Host)
				return len(now) == 1 && now[0].PID != first[0].PID
			})
			w.requireDone(run, 2, nil)
			for _, row := range w.Trials(run.ID()) {
				require.Equal(t, 1, row.Attempts, "%+v", row)
			}
			w.lab.Await(t, "nothing of ours on the cluster or the volume", func() bool {
				left, err := os.ReadDir(filepath.Join(w.Work, "perennial"))
				return len(left) == 0 && (err == nil || os.IsNotExist(err)) && len(leftovers(t, w.lab, w.namespace)) == 0
			})
		})
	}
}

func TestTheControllerDiesAtEachPointOfACancelAndTheTrialIsEnded(t *testing.T) {
	for _, point := range []string{"cancel.before-intent", "cancel.intent-before-pods"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.With("PERENNIAL_CRASH_POINT=" + point).Serve()
			run := w.follow(gated(2))
			id := run.ID()
			w.awaitReported(id, 2)
			first := w.Processes(endtoend.Host)
			w.Run("kill", id, "0") // the host may die before it answers
			w.Await("the death of the first host", func() bool {
				for _, now := range w.Processes(endtoend.Host) {
					if now.PID == first[0].PID {
						return false
					}
				}
				return true
			})
			ended := w.AwaitState(id, 0, "USER_CANCELED", 1)
			require.Equal(t, 1, ended.Attempts)
			require.False(t, w.Ledger()[ended.ID][1].Ended)
			w.letGo("all")
			require.Equal(t, "DONE", run.Finished(4*endtoend.Patience).Status)
			require.Equal(t, "SUCCEEDED", w.Trial(id, 1).State)
		})
	}
}

func TestAnExperimentGoesThroughAnAPIServerThatBreaksOffEveryWatchAndRefusesEveryFourthRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	proxy := w.through(&kube.Proxy{WatchFor: time.Second, Every: 4})
	w.requireDone(w.follow(short(10, 4)), 10, nil)
	for _, fault := range []kube.Fault{kube.CutOffWatch, kube.Conflict, kube.TooMany, kube.Broken, kube.LostAnswer} {
		require.Positive(t, proxy.Faults()[fault], "%s: %+v", fault, proxy.Faults())
	}
	t.Logf("faults: %v", proxy.Faults())
}

// Not in parallel with others: it takes the cluster apart.
func TestATrialOutlivesAllThatHappensToItsClusterOrHasAnotherAttempt(t *testing.T) {
	w := newWorld(t)
	run := w.follow(gated(8))
	id := run.ID()
	w.awaitReported(id, 8)
	rows := w.Trials(id)
	lost := map[string]bool{}
	next := func(sequences ...int) {
		for _, sequence := range sequences {
			lost[rows[sequence].ID+"/1"] = true
		}
		for _, sequence := range sequences {
			w.AwaitState(id, sequence, "RUNNING", 2)
		}
	}
	endsMeanwhile := func(sequence int) {
		w.letGo(sequence)
		w.awaitEnded(rows[sequence].ID, 1)
	}

	w.lab.Kill(t, kube.APIServer)
	w.lab.Kill(t, kube.Etcd)
	endsMeanwhile(0)
	w.Await("the reason of each trial", func() bool { return w.allCannotReach(id) })
	w.lab.Restart(t, kube.Etcd)
	w.lab.Restart(t, kube.APIServer)
	w.AwaitState(id, 0, "SUCCEEDED", 1)

	w.lab.Kill(t, kube.Kubelet)
	endsMeanwhile(1)
	w.lab.Restart(t, kube.Kubelet)
	w.AwaitState(id, 1, "SUCCEEDED", 1)

	w.lab.Cut(t)
	w.KillAndAwait(endtoend.Host)
	endsMeanwhile(2)
	w.lab.Heal(t)
	w.AwaitState(id, 2, "SUCCEEDED", 1)

	run.Signal(syscall.SIGSTOP) // nobody may bring a host up between the two
	w.KillAndAwait(endtoend.Host)
	require.NoError(t, os.RemoveAll(filepath.Join(w.Dir, "temporal")))
	run.Signal(syscall.SIGCONT)
	endsMeanwhile(3)
	w.AwaitState(id, 3, "SUCCEEDED", 1)

	evicted := w.pod(id, rows[4].ID, 1)
	_, err := w.lab.API.Do(t.Context(), http.MethodPost, evicted+"/eviction", kube.Object{"apiVersion": "policy/v1", "kind": "Eviction",
		"metadata": kube.Object{"name": filepath.Base(evicted), "namespace": w.namespace}})
	require.NoError(t, err)
	_, err = w.lab.API.Do(t.Context(), http.MethodDelete, w.pod(id, rows[5].ID, 1), nil)
	require.NoError(t, err)
	next(4, 5)
	w.letGo(4)
	w.letGo(5)
	w.AwaitState(id, 4, "SUCCEEDED", 2)
	w.AwaitState(id, 5, "SUCCEEDED", 2)

	w.killRunner(trial.Key{Experiment: id, Sequence: 6, Attempt: 1})
	next(6)
	require.Equal(t, "runner-died", w.attempts(id, 6)[0].Reason.Code)
	w.awaitMetric(rows[6].ID, 2)

	run.Signal(syscall.SIGSTOP)
	w.KillAndAwait(endtoend.Host)
	endsMeanwhile(7)
	w.awaitTerminated(w.pod(id, rows[7].ID, 1))
	for _, part := range []string{kube.Kubelet, kube.APIServer, kube.Etcd} { // as where the machine loses power
		w.lab.Kill(t, part)
	}
	w.killPods()
	for _, part := range []string{kube.Etcd, kube.APIServer, kube.Kubelet} {
		w.lab.Restart(t, part)
	}
	run.Signal(syscall.SIGCONT)
	w.AwaitState(id, 7, "SUCCEEDED", 1)
	lost[rows[6].ID+"/2"] = true
	w.AwaitState(id, 6, "RUNNING", 3)
	w.awaitMetric(rows[6].ID, 3)

	w.lab.Kill(t, kube.Kubelet)
	w.killPods()
	w.lab.DeleteNode(t)
	lost[rows[6].ID+"/3"] = true
	w.AwaitFor(2*endtoend.Patience, "the next attempt", func() bool { return w.Trial(id, 6).Attempts == 4 })
	w.lab.ReturnNode(t)
	w.AwaitState(id, 6, "RUNNING", 4)
	w.letGo("all")
	w.requireDone(run, 8, lost)
	w.lab.Await(t, "nothing of ours on the cluster", func() bool { return len(leftovers(t, w.lab, w.namespace)) == 0 })
}

// FrameworkController deletes pods the moment they have ended.
func TestATrialWhosePodIsDeletedTheMomentItEndedWhileNobodyWatchesLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.section = "  kind: Framework\n"
	id := w.endUnwatched(gated(1))
	require.Equal(t, "DONE", w.Start("resume", id, "--output", "json").Finished(2*endtoend.Patience).Status)
	w.RequireExactlyOnce(id, 1, nil)
	require.Empty(t, w.Trial(id, 0).Reason.Code)
	w.lab.Await(t, "no pod of ours", func() bool { return len(w.lab.Pods(t, w.namespace, "perennial.dev/experiment="+id)) == 0 })
}

// A Job keeps no more of a pod than that it succeeded.
func TestATrialWhosePodSomebodyDeletesAfterItEndedWhileNobodyWatchesSucceededAndSaysWhatIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.endUnwatched(gated(1))
	pod := w.pod(id, w.onlyTrial(), 1)
	w.awaitTerminated(pod)
	w.lab.Await(t, "the Job's end", func() bool {
		jobs, err := w.lab.API.Get(t.Context(), "/apis/batch/v1/namespaces/"+w.namespace+"/jobs")
		return err == nil && kube.Condition(kube.Field(jobs, "items", 0).(kube.Object), "Complete")
	})
	_, err := w.lab.API.Do(t.Context(), http.MethodDelete, pod+"?gracePeriodSeconds=0", nil)
	require.NoError(t, err)
	w.lab.Await(t, "no pod", func() bool { return len(w.lab.Pods(t, w.namespace, "perennial.dev/experiment="+id)) == 0 })
	require.Equal(t, "DONE", w.Start("resume", id, "--output", "json").Finished(2*endtoend.Patience).Status)
	settled := w.Trial(id, 0)
	require.Equal(t, "SUCCEEDED", settled.State)
	require.Equal(t, 1, settled.Attempts)
	require.Equal(t, "metrics-lost", settled.Reason.Code)
	require.Len(t, w.Ledger(), 1)
	require.Equal(t, 1, w.Ledger()[settled.ID][1].Starts)
}

// The trial's chatter is a hundred times what the laboratory's node keeps of a log.
func TestAControllerThatIsAwayWhileATrialPrintsAHundredMegabytesAndEndsLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plan := gated(1)
	plan.Script = chatting(plan.Script)
	run := w.follow(plan)
	id := run.ID()
	w.awaitReported(id, 1)
	w.KillAndAwait(endtoend.Host, endtoend.CLI)
	w.letGo("all")
	w.AwaitFor(2*endtoend.Patience, "the trial's end", func() bool {
		for _, attempts := range w.Ledger() {
			return attempts[1].Ended
		}
		return false
	})
	resumed := w.Start("resume", id, "--output", "json")
	require.Equal(t, "DONE", resumed.Finished(2*endtoend.Patience).Status)
	w.RequireExactlyOnce(id, 1, nil)
	require.Equal(t, 1, w.Trial(id, 0).Attempts)
	require.Empty(t, w.Trial(id, 0).Reason.Code)
}

func TestANamespaceWithAQuotaOfOnePodRunsOneTrialAfterTheOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, w.lab.API.Apply(t.Context(), "/api/v1/namespaces/"+w.namespace+"/resourcequotas/one", kube.Object{
		"apiVersion": "v1", "kind": "ResourceQuota", "metadata": kube.Object{"name": "one"}, "spec": kube.Object{"hard": kube.Object{"pods": "1"}}}))
	run := w.follow(short(3, 3))
	w.requireDone(run, 3, nil)
	for _, row := range w.Trials(run.ID()) {
		require.Equal(t, 1, row.Attempts, "%+v", row)
	}
}
