package cluster

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
)

// limit is far above what an experiment of a test takes on a busy machine.
const limit = 4 * time.Minute

func TestAnyTemporal(t *testing.T) {
	c := Start(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *Cluster)
	}{
		{"an experiment runs there and nothing of ours is a server", runs},
		{"payloads are encrypted where that is asked for", encrypted},
		{"a queue that nobody polls is the reason for waiting", unpolled},
		{"an experiment moves there and back while its trials run", moves},
		{"two people with a record each do not meet", twoPeople},
		{"a second machine or a copy on one record is refused in plain words", copies},
		{"a machine that is gone for good is followed by another, which knows the record", succeeds},
		{"a worker that is back has its experiments again, which another drove meanwhile", returns},
		{"an experiment goes on that was submitted from a machine which is gone", submits},
		{"of two workers with docker compose one is killed", composed},
		{"a host and a command that mean different Temporals say so", disagree},
		{"nothing is lost and nothing runs twice when Temporal and the host are killed", killed},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, c) })
	}
}

func small() endtoend.Plan {
	return endtoend.Plan{Trials: 4, Concurrency: 2, Steps: "2", Pause: "0.1"}
}

func runs(t *testing.T, c *Cluster) {
	home := c.Home(t).With("TEMPORAL_UI=http://temporal.example.org")
	following := home.Follow(home.Experiment(small()))
	id := following.ID()
	require.Equal(t, "DONE", following.Finished(limit).Status)
	home.RequireExactlyOnce(id, 4, nil)

	where := home.Show(id).Temporal
	require.Equal(t, c.Address(), where.Address)
	require.Equal(t, Namespace, where.Namespace)
	require.Empty(t, where.TokenFile)
	require.Equal(t, "http://temporal.example.org/namespaces/somebodys/workflows/experiment-"+id, where.WebUI)
	require.NoFileExists(t, filepath.Join(home.Dir, "temporal", "temporal.db"))
	requireDeployed(t, c, where.WorkflowID)
	requireSearchAttributes(t, c)
	home.RequireNothingLeft()
}

// requireDeployed wants the experiment to have run in the Worker Deployment of its
// record, and to go on under whatever version comes next.
func requireDeployed(t *testing.T, c *Cluster, workflowID string) {
	described, err := c.Client().DescribeWorkflowExecution(t.Context(), workflowID, "")
	require.NoError(t, err)
	versioning := described.GetWorkflowExecutionInfo().GetVersioningInfo()
	require.Equal(t, enumspb.VERSIONING_BEHAVIOR_AUTO_UPGRADE, versioning.GetBehavior())
	name := versioning.GetDeploymentVersion().GetDeploymentName()
	require.True(t, strings.HasPrefix(name, "perennial-"), name)
	deployment, err := c.Client().WorkerDeploymentClient().GetHandle(name).Describe(t.Context(), client.WorkerDeploymentDescribeOptions{})
	require.NoError(t, err)
	require.Equal(t, versioning.GetDeploymentVersion().GetBuildId(), deployment.Info.RoutingConfig.CurrentVersion.BuildID)
}

func requireSearchAttributes(t *testing.T, c *Cluster) {
	answer, err := c.Client().OperatorService().ListSearchAttributes(t.Context(), &operatorservice.ListSearchAttributesRequest{Namespace: Namespace})
	require.NoError(t, err)
	require.Equal(t, enumspb.INDEXED_VALUE_TYPE_KEYWORD, answer.GetCustomAttributes()["ExperimentId"])
}

func encrypted(t *testing.T, c *Cluster) {
	home := c.Home(t).With("PERENNIAL_ENCRYPT=true")
	following := home.Follow(home.Experiment(small()))
	require.Equal(t, "DONE", following.Finished(limit).Status)
	// A command without the variable speaks as the host does.
	home.With("PERENNIAL_ENCRYPT=").Must("update", "max-trials", following.ID(), "5")
	home.Await("the fifth trial", func() bool {
		return len(home.Trials(following.ID())) == 5 && home.Show(following.ID()).Status == "DONE"
	})
	history := c.Client().GetWorkflowHistory(t.Context(), "experiment-"+following.ID(), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	begun, err := history.Next()
	require.NoError(t, err)
	input := begun.GetWorkflowExecutionStartedEventAttributes().GetInput().GetPayloads()
	require.Equal(t, "binary/encrypted", string(input[0].GetMetadata()["encoding"]))
	home.RequireNothingLeft()
}

func unpolled(t *testing.T, c *Cluster) {
	home := c.Home(t)
	file := home.Experiment(small())
	run := home.Start("run", file, "--no-worker", "--output", "json")
	home.Await("the reason for waiting", func() bool {
		return strings.Contains(errorsOf(t, home, "run"), "no worker polls the queue perennial-experiment; starter worker starts one")
	})
	require.Empty(t, home.Processes(endtoend.Host), "--no-worker started a host")

	wrong := home.Start("worker", "--platform", "fake")
	id := run.ID()
	var waiting endtoend.Trial
	home.Await("a trial that waits for a worker", func() bool {
		waiting = home.Trial(id, 0)
		return waiting.Reason.Code == "no-worker"
	})
	require.Contains(t, waiting.Reason.Text, "no worker polls the queue platform.local.")
	require.Contains(t, waiting.Reason.Text, "starter worker --platform local")
	require.Contains(t, home.Must("show", id), "starter worker --platform local")

	// Its workflow answers all the same.
	home.Await("the trial's attempt", func() bool { return home.Trial(id, 0).Attempts == 1 })
	require.Contains(t, home.Run("kill", id, "0", "--lost").Stderr, "no attempt of this trial runs at present")

	wrong.Signal(syscall.SIGTERM)
	require.Zero(t, wrong.Wait(limit))
	right := home.Start("worker")
	require.Equal(t, "DONE", run.Finished(limit).Status)
	home.RequireExactlyOnce(id, 4, nil)
	home.Must("serve", "--stop")
	require.Zero(t, right.Wait(limit))
}

// errorsOf is what the commands of a name have written to stderr.
func errorsOf(t *testing.T, home *endtoend.Home, command string) (all string) {
	files, err := filepath.Glob(filepath.Join(home.Work, "*."+command+".err"))
	require.NoError(t, err)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		all += string(content)
	}
	return all
}

func moves(t *testing.T, c *Cluster) {
	there := c.Home(t)
	here := there.With("TEMPORAL_ADDRESS=")
	plan := endtoend.Plan{Trials: 6, Concurrency: 2, Steps: "4", Pause: "0.5"}
	id := strings.Fields(here.Must("run", here.Experiment(plan), "--detach"))[1]
	here.AwaitRunning(id, 2)
	here.Must("serve", "--stop")
	there.Must("resume", id, "--detach")
	there.Await("the third trial", func() bool { return there.Trial(id, 2).State == "RUNNING" })
	there.Must("serve", "--stop")
	here.Must("resume", id)
	here.RequireExactlyOnce(id, plan.Trials, nil)
	here.RequireNothingLeft()
}

func twoPeople(t *testing.T, c *Cluster) {
	one, other := c.Home(t), c.Home(t)
	hers, his := one.Follow(one.Experiment(small())), other.Follow(other.Experiment(small()))
	require.Equal(t, "DONE", hers.Finished(limit).Status)
	require.Equal(t, "DONE", his.Finished(limit).Status)
	one.RequireExactlyOnce(hers.ID(), 4, nil)
	other.RequireExactlyOnce(his.ID(), 4, nil)
	require.Equal(t, 2, one.Run("show", his.ID()).Code, "an experiment of another record was found")
}

func copies(t *testing.T, c *Cluster) {
	home, restored := c.Home(t), c.Home(t)
	home.Must("run", home.Experiment(small())) // its host is at work
	require.NoError(t, os.MkdirAll(restored.Dir, 0o700))
	for _, name := range []string{"record.sqlite", "record.sqlite-wal"} {
		content, err := os.ReadFile(filepath.Join(home.Dir, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(restored.Dir, name), content, 0o600))
	}
	refused := restored.Run("serve", "--detach")
	require.Equal(t, 4, refused.Code)
	require.Contains(t, refused.Stderr, "several machines need a shared record")

	home.Must("serve", "--stop")
	require.NoError(t, os.WriteFile(filepath.Join(home.Dir, "machine"), []byte("0123456789abcdef gpu-box\n"), 0o600))
	if _, err := os.Stat("/etc/machine-id"); err != nil {
		return // a machine without an id is bound to nothing
	}
	result := home.Run("serve", "--detach")
	require.Equal(t, 4, result.Code, result.Stderr)
	require.Contains(t, result.Stderr, `is that of the machine "gpu-box"`)
}

func disagree(t *testing.T, c *Cluster) {
	home := c.Home(t)
	home.Serve()
	result := home.With("TEMPORAL_ADDRESS=").Run("serve", "--detach")
	require.Equal(t, 4, result.Code)
	require.Contains(t, result.Stderr, "no TEMPORAL_ADDRESS is set here")
	result = home.With("TEMPORAL_NAMESPACE=another").Run("serve", "--detach")
	require.Equal(t, 4, result.Code)
	require.Contains(t, result.Stderr, `"starter serve --stop"`)
	home.Must("serve", "--stop")
	result = home.With("TEMPORAL_NAMESPACE=another").Run("serve", "--detach")
	require.Equal(t, 4, result.Code)
	require.Contains(t, result.Stderr, `the Temporal namespace "another" does not exist`)
	result = home.With("TEMPORAL_ADDRESS=").Run("worker")
	require.Equal(t, 2, result.Code)
	require.Contains(t, result.Stderr, "no Temporal is named")
	require.Contains(t, home.Must("doctor"), "Temporal at "+c.Address())
}

var (
	rounds = flag.Uint64("rounds", 3, "how many rounds of kills")
	first  = flag.Uint64("seed", 1, "seed of the first round; the next ones count on")
)

func killed(t *testing.T, c *Cluster) {
	for seed := *first; seed < *first+*rounds; seed++ {
		t.Run(fmt.Sprintf("seed-%d", seed), func(t *testing.T) { round(t, c, rand.New(rand.NewPCG(seed, 0))) })
	}
}

func round(t *testing.T, c *Cluster, random *rand.Rand) {
	home, dead := c.Home(t), map[string]bool{}
	plan := endtoend.Plan{Trials: 12, Concurrency: 4, Steps: "2 + PERENNIAL_SEQUENCE % 4", Pause: "0.5"}
	id := home.Follow(home.Experiment(plan)).ID()
	// A server that is killed while the workers of a new record register with it
	// takes a minute by itself: its own activities time out that slowly.
	home.AwaitRunning(id, 1)
	for range 3 {
		time.Sleep(time.Duration(random.Int64N(int64(2 * time.Second)))) // the moment of the kill
		strike(c, home, random.IntN(4), dead)
		home.Serve()
	}
	home.AwaitFor(limit, "the end", func() bool { return home.Show(id).Status == "DONE" })
	home.Kill(endtoend.CLI)
	home.RequireExactlyOnce(id, plan.Trials, dead)
	home.RequireNothingLeft()
}

// strike kills Temporal, the host, or both; or runners and host at once, which
// ends attempts.
func strike(c *Cluster, home *endtoend.Home, kind int, dead map[string]bool) {
	switch kind {
	case 0:
		c.Kill()
		c.Restart()
	case 1:
		home.Kill(endtoend.Host)
	case 2:
		c.Kill()
		home.Kill(endtoend.Host)
		c.Restart()
	default:
		for _, process := range home.Kill(endtoend.Runner, endtoend.Host) {
			dead[process.Attempt()] = true
		}
	}
}

func TestWithoutATemporalACommandSaysSoAtOnce(t *testing.T) {
	home := endtoend.NewHome(t).With("TEMPORAL_ADDRESS=127.0.0.1:1")
	began := time.Now()
	result := home.Run("run", home.Experiment(small()))
	require.Equal(t, 4, result.Code)
	require.Contains(t, result.Stderr, "127.0.0.1:1")
	require.Less(t, time.Since(began), time.Minute)
}
