package slurm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/testsuite/slurmlab"
)

// world is a controller with a state directory of its own, and a cluster.
type world struct {
	*endtoend.Home
	*slurmlab.Cluster
	t *testing.T
}

func newWorld(t *testing.T) *world {
	cluster := slurmlab.New(t)
	w := &world{endtoend.NewHome(t), cluster, t}
	w.Env = cluster.Environment()
	return w
}

func (w *world) follow(trials, concurrency int, steps, more string) *endtoend.Following {
	return w.followPlan(endtoend.Plan{Trials: trials, Concurrency: concurrency, Steps: steps, Pause: "0.3"}, more)
}

// followPlan starts an experiment on the cluster, with some more options.
func (w *world) followPlan(plan endtoend.Plan, more string) *endtoend.Following {
	example, err := filepath.Abs("../../../examples/platforms/slurm/slurm.py")
	require.NoError(w.t, err)
	plan.Code = "code"
	plan.Platform = fmt.Sprintf("  platform: executable\n  executable: %s\n  options: {directory: %s, poll: 0.5%s}\n", example, w.Cluster.Home, more)
	return w.Follow(w.Experiment(plan))
}

// first outlasts whatever a test has in mind for the first attempt of trial 0.
const first = "PERENNIAL_SEQUENCE > 0 || PERENNIAL_ATTEMPT > 1 ? 4 : 400"

// awaitRunning waits for trial 0 and returns its id and the node that runs it.
func (w *world) awaitRunning(id string) (trial, node string) {
	w.AwaitState(id, 0, "RUNNING", 1)
	trial = w.Trial(id, 0).ID
	w.Home.Await("its first metric", func() bool { ran := w.Ledger()[trial][1]; return ran != nil && len(ran.Metrics) > 0 })
	return trial, w.slurm("squeue", "-h", "-n", w.job(id, trial, 1), "-t", "R", "-o", "%N")
}

// slurm runs one of Slurm's commands.
func (w *world) slurm(command ...string) string { return w.Cluster.Run(command...) }

func (w *world) job(id, trial string, attempt int) string {
	return fmt.Sprintf("perennial-%s-%s-%d", id, trial, attempt)
}

func (w *world) requireDone(run *endtoend.Following, trials int, killed map[string]bool) {
	require.Equal(w.t, "DONE", run.Finished(3*endtoend.Patience).Status)
	w.RequireExactlyOnce(run.ID(), trials, killed)
	w.Cluster.Await("an empty queue", func() bool { return w.slurm("squeue", "-h", "-t", "PD,R,CG") == "" })
}

func TestStory1_NothingGoesWrong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.requireDone(w.follow(6, 3, "3", ", partition: main, memory: 10M"), 6, nil)
}

func TestStory2_TheControllerIsKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.follow(6, 3, "10", "")
	for sequence := range 3 {
		w.Home.Await("another trial in the ledger", func() bool { return len(w.Ledger()) > sequence })
		w.KillAndAwait(endtoend.Host)
	}
	w.requireDone(run, 6, nil)
}

func TestStory3_ARunnerIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.follow(1, 1, first, "")
	trial, _ := w.awaitRunning(run.ID())
	w.slurm("scancel", "--signal=KILL", "--full", "--name="+w.job(run.ID(), trial, 1))
	w.requireDone(run, 1, map[string]bool{trial + "/1": true})
	require.Equal(t, 2, w.Trial(run.ID(), 0).Attempts)
}

func TestStory4_TerminateOnATrialThatRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.follow(2, 2, "80", "")
	w.awaitRunning(run.ID())
	workflow := "experiment-" + run.ID() + "/trial-0"
	w.Terminate(run.ID(), workflow)
	w.Must("resume", run.ID(), "--detach")
	w.Home.Await("another workflow of the trial", func() bool {
		return w.Status(run.ID(), workflow) != enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
	})
	w.requireDone(run, 2, nil)
}

// judged reports 100 at every step, but 1 in trial 3, which then stays until it is ended.
const judged = `#!/bin/sh
value=100
[ "$PERENNIAL_SEQUENCE" = 3 ] && value=1
for step in 1 2 3 4; do echo "perennial: intermediate $value"; done
[ "$PERENNIAL_SEQUENCE" = 3 ] && sleep 600
echo "perennial: final $value"
`

func TestStory6_TheAssessorStopsATrial(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.followPlan(endtoend.Plan{Trials: 4, Concurrency: 1, Script: judged,
		More: "assessor:\n  name: Medianstop\n  classArgs:\n    optimize_mode: maximize\n    start_step: 2\n"}, "")
	finished := run.Finished(3 * endtoend.Patience)
	require.Equal(t, map[string]int{"EARLY_STOPPED": 1, "SUCCEEDED": 3}, map[string]int{
		"EARLY_STOPPED": finished.Trials["EARLY_STOPPED"], "SUCCEEDED": finished.Trials["SUCCEEDED"]})
	stopped := w.Trial(run.ID(), 3)
	require.Equal(t, "EARLY_STOPPED", stopped.State)
	require.Equal(t, 1, stopped.Attempts)
	require.Contains(t, stopped.Reason.Text, "median")
	w.Cluster.Await("an empty queue", func() bool { return w.slurm("squeue", "-h", "-t", "PD,R,CG") == "" })
}

func TestStory5_StopAndResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.follow(2, 2, "PERENNIAL_ATTEMPT > 1 ? 3 : 400", "")
	w.awaitRunning(run.ID())
	w.Must("stop", run.ID())
	w.Cluster.Await("an empty queue", func() bool { return w.slurm("squeue", "-h", "-t", "PD,R,CG") == "" })
	resumed := w.Start("resume", run.ID(), "--output", "json")
	require.Equal(t, "DONE", resumed.Finished(3*endtoend.Patience).Status)
}

func TestStory8_ANodeCrashesAndIsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.follow(2, 2, first, "")
	trial, node := w.awaitRunning(run.ID())
	w.Crash(node)
	w.Home.Await("the next attempt", func() bool { return w.Trial(run.ID(), 0).Attempts == 2 })
	w.StartNode(node)
	// The other trial may have run there, too.
	killed := map[string]bool{trial + "/1": true, w.Trial(run.ID(), 1).ID + "/1": true}
	w.requireDone(run, 2, killed)
}

func TestATrialIsPreemptedAndRequeueStartsNothingTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.follow(1, 1, first, ", sbatch: [--exclusive]")
	trial, node := w.awaitRunning(run.ID())
	script := filepath.Join(t.TempDir(), "urgent")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\nsleep 3\n"), 0o700))
	w.slurm("sbatch", "-p", slurmlab.Urgent, "-w", node, "--exclusive", "-o", "/dev/null", script)
	w.requireDone(run, 1, map[string]bool{trial + "/1": true})
	require.Equal(t, 2, w.Trial(run.ID(), 0).Attempts)
}

// An administrator has it in hand to requeue a job that asked not to be.
func TestAJobThatIsRequeuedIsStartedByNobodyAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.follow(1, 1, first, "")
	trial, _ := w.awaitRunning(run.ID())
	job := w.slurm("squeue", "-h", "-n", w.job(run.ID(), trial, 1), "-o", "%i")
	w.slurm("scontrol", "update", "JobId="+job, "Requeue=1")
	w.slurm("scontrol", "requeue", job)
	w.Home.Await("the next attempt", func() bool { return w.Trial(run.ID(), 0).Attempts == 2 })
	w.requireDone(run, 1, map[string]bool{trial + "/1": true})
}

// A slurmctld that was killed forgets its last seconds: it has been seen to start a
// job again that ran all the while.
func TestASlurmThatForgetsStartsNothingTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.follow(4, 4, "30", "")
	w.Home.Await("trials that run", func() bool { return len(w.Ledger()) == 4 })
	killed := map[string]bool{}
	for _, row := range w.Trials(run.ID()) {
		killed[row.ID+"/1"] = true // which of them Slurm forgets is Slurm's affair
		killed[row.ID+"/2"] = true
	}
	w.KillController()
	w.awaitReason(run.ID(), 0)
	w.StartController()
	w.requireDone(run, 4, killed)
}

// awaitReason waits until a trial says why nobody knows how it is.
func (w *world) awaitReason(id string, sequence int) {
	w.Home.Await("a reason that names Slurm", func() bool { return w.Trial(id, sequence).Reason.Code != "" })
}

func TestAJobThatWaitsInTheQueueSaysWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.follow(3, 3, "20", ", sbatch: [--exclusive]") // there are two nodes
	w.Home.Await("a trial in the queue", func() bool {
		for _, row := range w.Trials(run.ID()) {
			// Slurm itself needs a moment to know why.
			if row.Reason.Code == "queued" && strings.Contains(row.Reason.Text, "become free") {
				return true
			}
		}
		return false
	})
	w.requireDone(run, 3, nil)
}

func TestABadOptionIsRefusedBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	example, err := filepath.Abs("../../../examples/platforms/slurm/slurm.py")
	require.NoError(t, err)
	file := w.Experiment(endtoend.Plan{Trials: 1, Concurrency: 1, Steps: "1", Pause: "1", Code: "code",
		Platform: "  platform: executable\n  executable: " + example + "\n  options: {directory: shared, partitoin: gpu}\n"})
	result := w.Home.Run("run", file)
	require.NotZero(t, result.Code)
	require.Contains(t, result.Stderr+result.Stdout, "must be an absolute path that all nodes see")
	require.Contains(t, result.Stderr+result.Stdout, "partitoin")
}
