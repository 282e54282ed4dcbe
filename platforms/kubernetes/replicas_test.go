package kubernetes_test

import (
	"fmt"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/testsuite/kube"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
	"github.com/perennial-ml/perennial/trial"
)

// rank is how a command knows which replica it is, by what its kind's operator says.
const rank = `rank=${JOB_COMPLETION_INDEX:-$FC_TASK_INDEX}; rank=${rank:-$(echo "$TF_CONFIG" | sed 's/.*"index":\([0-9]*\).*/\1/')}; `

// values are what records say, by their kind.
func values(t *testing.T, records []metrics.Record) map[metrics.Kind][]string {
	found, numbers := map[metrics.Kind][]string{}, map[int64]bool{}
	for _, record := range records {
		require.False(t, numbers[record.Number], "a number is there once: %+v", records)
		numbers[record.Number] = true
		found[record.Kind] = append(found[record.Kind], record.Value)
	}
	return found
}

// ofFour is a section whose trials have four replicas, on kinds of four controllers.
func ofFour(t *testing.T, test func(t *testing.T, cluster *kube.Cluster, namespace string, more map[string]any)) {
	for _, kind := range []string{"Job", "TFJob", "TrainJob", "Framework"} {
		t.Run(kind, func(t *testing.T) {
			cluster := kube.Up(t)
			t.Parallel()
			test(t, cluster, cluster.Namespace(t), map[string]any{"kind": kind, "replicas": 4})
		})
	}
}

func TestAnyOfFourReplicasMayReportAndEachRecordIsToldOnce(t *testing.T) {
	ofFour(t, func(t *testing.T, cluster *kube.Cluster, namespace string, more map[string]any) {
		p := open(t, cluster, namespace, more)
		handle := submit(t, p, rank+`echo "I am $rank"; [ $((rank % 2)) = 1 ] && exit 0
echo "perennial: intermediate 1$rank"; sleep 2; echo "perennial: intermediate 2$rank"; echo "perennial: final 3$rank"`)
		var all []metrics.Record
		var cursor platforms.Cursor
		last := platforms.Report{}
		cluster.Await(t, "the end", func() bool {
			reports, err := p.Poll(t.Context(), []platforms.Question{{Handle: handle, After: cursor}})
			require.NoError(t, err)
			if last = reports[0]; last.Journal != nil {
				all, cursor = append(all, last.Journal.Records...), last.Journal.Next
			}
			return exited(last)
		})
		require.Equal(t, 0, last.Exit.Code)
		require.Zero(t, last.Reason)
		told := values(t, all)
		require.ElementsMatch(t, []string{"10", "12", "20", "22"}, told[metrics.Periodical])
		require.ElementsMatch(t, []string{"30", "32"}, told[metrics.Final])

		require.NoError(t, p.Close())
		again, next, err := open(t, cluster, namespace, more).Collect(t.Context(), handle, "")
		require.NoError(t, err, "for whoever comes later")
		require.ElementsMatch(t, all, again)
		require.Equal(t, cursor, next)
	})
}

func TestAFinalOfAnyReplicaCountsAndEachHasItsOwnOutput(t *testing.T) {
	ofFour(t, func(t *testing.T, cluster *kube.Cluster, namespace string, more map[string]any) {
		p := open(t, cluster, namespace, more)
		handle := submit(t, p, rank+`echo "I am $rank"; [ $rank = 2 ] && echo "perennial: final 7"; sleep 1`)
		report := await(t, p, handle, exited)
		require.Equal(t, []string{"7"}, values(t, report.Journal.Records)[metrics.Final])
		require.NoError(t, p.(platforms.WithForget).Forget(t.Context(), handle))
		name := map[string]string{"Job": "2", "TFJob": "worker-2", "TrainJob": "node-2", "Framework": "worker-2"}[more["kind"].(string)]
		for wanted, said := range map[string]string{"": "I am 0", name: "I am 2"} {
			log, err := p.(platforms.WithLogs).Logs(t.Context(), handle, platforms.Log{Stream: "stdout", Replica: wanted})
			require.NoError(t, err)
			content, err := io.ReadAll(log)
			require.NoError(t, err)
			require.Contains(t, string(content), said)
		}
		_, err := p.(platforms.WithLogs).Logs(t.Context(), handle, platforms.Log{Stream: "stdout", Replica: "ps-7"})
		require.ErrorContains(t, err, name)
	})
}

func TestTheFailureOfOneReplicaIsTheTrialsAndItsOwnExitIsTold(t *testing.T) {
	ofFour(t, func(t *testing.T, cluster *kube.Cluster, namespace string, more map[string]any) {
		p := open(t, cluster, namespace, more)
		handle := submit(t, p, rank+`[ $rank = 2 ] && sleep 1 && exit 5; sleep 600`)
		report := await(t, p, handle, func(r platforms.Report) bool { return r.Phase.Definite() })
		require.Equal(t, platforms.Exited, report.Phase, "%+v", report)
		require.Equal(t, 5, report.Exit.Code, "%+v", report.Exit)
		require.Contains(t, report.Exit.Text, "2 failed")
	})
}

// podOfReplica waits for the pod of a replica, by what its kind calls it.
func podOfReplica(t *testing.T, cluster *kube.Cluster, namespace string, handle platforms.Handle, label, value string) string {
	return podOf(t, cluster, namespace, handle, func(pod kube.Object) bool {
		return kube.Field(pod, "metadata", "labels", label) == value && kube.Field(pod, "status", "phase") == "Running"
	})
}

func TestARunOfWhichAReplicaIsDeletedIsLostAndWhatItsOperatorMakesInsteadDoesNotCount(t *testing.T) {
	cluster := kube.Up(t)
	t.Parallel()
	namespace, keys := cluster.Namespace(t), map[string]any{"kind": "TFJob", "replicas": 2}
	p := open(t, cluster, namespace, keys)
	handle := submit(t, p, reports("sleep 600"))
	begun := await(t, p, handle, func(r platforms.Report) bool {
		return r.Journal != nil && len(r.Journal.Records) == 2 && r.Handle != nil
	})
	handle = *begun.Handle
	remove(t, cluster, podOfReplica(t, cluster, namespace, handle, "training.kubeflow.org/replica-index", "1"))
	for _, who := range []platforms.Platform{p, open(t, cluster, namespace, keys)} { // also whoever comes later
		report := await(t, who, handle, func(r platforms.Report) bool { return r.Phase.Definite() })
		require.Equal(t, platforms.Lost, report.Phase, "%+v", report)
		require.NotZero(t, report.Reason)
	}
	require.NoError(t, p.Cancel(t.Context(), handle, trial.Intent{Cause: trial.CauseSuperseded}))
	cluster.Await(t, "the end of the others", func() bool {
		for _, pod := range cluster.Pods(t, namespace, "perennial.dev/run="+handle.Key.String()) {
			if stateOf(pod, "tensorflow", "running") {
				return false
			}
		}
		return true
	})
}

func TestARunOfWhichTheClusterEndsAReplicaHasNotSucceededThoughTheFirstHas(t *testing.T) {
	cluster := kube.Up(t)
	t.Parallel()
	namespace := cluster.Namespace(t)
	p := open(t, cluster, namespace, map[string]any{"replicas": 2})
	handle := submit(t, p, `[ $JOB_COMPLETION_INDEX = 0 ] || exec sleep 600`)
	await(t, p, handle, func(r platforms.Report) bool { return r.Reason.Code == "replicas" })
	remove(t, cluster, podOfReplica(t, cluster, namespace, handle, "batch.kubernetes.io/job-completion-index", "1"))
	report := await(t, p, handle, func(r platforms.Report) bool { return r.Phase.Definite() })
	require.Equal(t, platforms.Lost, report.Phase, "%+v", report)
}

func TestACancelHasTheLastWordOfEveryReplicaThoughTheFirstEndsSooner(t *testing.T) {
	ofFour(t, func(t *testing.T, cluster *kube.Cluster, namespace string, more map[string]any) {
		p := open(t, cluster, namespace, more)
		made := job(t, oneMore(p), platformtest.Behaviour{})
		made.Grace = time.Minute // however busy the machine is
		made.Command = rank + `trap '[ $rank = 0 ] || { sleep 0.5; echo "perennial: final 3$rank"; }; exit 0' TERM
echo "perennial: intermediate $rank"; while :; do sleep 0.1; done`
		handle, err := p.Submit(t.Context(), made)
		require.NoError(t, err)
		await(t, p, handle, func(r platforms.Report) bool { return r.Journal != nil && len(r.Journal.Records) == 4 })
		require.NoError(t, p.Cancel(t.Context(), handle, trial.Intent{Cause: trial.CauseUser}))
		report := await(t, p, handle, exited)
		require.Equal(t, trial.CauseUser, report.Intent.Cause)
		require.ElementsMatch(t, []string{"31", "32", "33"}, values(t, report.Journal.Records)[metrics.Final])
	})
}

// meets is a trial whose first replica is asked for a word by the other two.
const meets = `if [ $RANK = 0 ]; then
  mkdir www && echo 7 >www/word && { httpd -f -v -p $MASTER_PORT -h www 2>asked & }
  until [ "$(grep -c response:200 asked)" -ge 2 ]; do sleep 0.2; done
  echo "perennial: final $WORLD_SIZE"
else
  until word=$(wget -qO- http://$MASTER_ADDR:$MASTER_PORT/word); do sleep 0.2; done
  echo "perennial: intermediate $word"
fi`

func TestTheReplicasOfAPyTorchJobFindTheFirstByItsName(t *testing.T) {
	cluster := kube.Up(t)
	t.Parallel()
	p := open(t, cluster, cluster.Namespace(t), map[string]any{"kind": "PyTorchJob", "replicas": 3})
	report := await(t, p, submit(t, p, meets), exited)
	require.Zero(t, report.Exit.Code, "%+v", report)
	var values []string
	for _, told := range report.Journal.Records {
		values = append(values, told.Value)
	}
	require.ElementsMatch(t, []string{"7", "7", "3"}, values)
}

func TestATrialWhoseSecondReplicaHasNoRoomSaysSoWhileTheFirstRuns(t *testing.T) {
	cluster := kube.Up(t)
	t.Parallel()
	node, err := cluster.API.Get(t.Context(), "/api/v1/nodes/"+kube.NodeName)
	require.NoError(t, err)
	cores, err := strconv.Atoi(kube.Field(node, "status", "allocatable", "cpu").(string))
	require.NoError(t, err)
	p := open(t, cluster, cluster.Namespace(t), map[string]any{"kind": "TFJob", "replicas": 2, "cpu": fmt.Sprintf("%dm", cores*600)})
	report := await(t, p, submit(t, p, "sleep 600"), func(r platforms.Report) bool {
		return r.Phase == platforms.Running && r.Reason.Code == "unschedulable"
	})
	require.Contains(t, report.Reason.Text, "Insufficient cpu")
}

func TestReplicasOfAJobFindEachOtherByNamesThatGoWithTheExperiment(t *testing.T) {
	cluster := kube.Up(t)
	t.Parallel()
	namespace := cluster.Namespace(t)
	p := open(t, cluster, namespace, map[string]any{"replicas": 2})
	handle := submit(t, p, `until ping -c 1 -W 1 "$PERENNIAL_FIRST_REPLICA"; do sleep 0.2; done
echo "$PERENNIAL_FIRST_REPLICA"; echo "perennial: intermediate $PERENNIAL_REPLICAS"; sleep 600`)
	name, job := "perennial-"+handle.Key.Experiment, "perennial-"+handle.Key.String()
	await(t, p, handle, func(r platforms.Report) bool { return r.Journal != nil && len(r.Journal.Records) == 2 })
	log, err := p.(platforms.WithLogs).Logs(t.Context(), handle, platforms.Log{Stream: "stdout"})
	require.NoError(t, err)
	content, err := io.ReadAll(log)
	require.NoError(t, err)
	require.Contains(t, string(content), "\n"+job+"-0."+name+"\n")
	require.NoError(t, p.(platforms.WithCleanup).CleanUp(t.Context()))
	_, err = cluster.API.Get(t.Context(), "/api/v1/namespaces/"+namespace+"/services/"+name)
	require.Error(t, err)
}
