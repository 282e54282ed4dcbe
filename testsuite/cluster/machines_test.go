package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/testsuite/sshlab"
)

// machine is a home of a machine of its own that works with others on one record; its
// ledger is on every host of the laboratory.
func (c *Cluster) machine(t *testing.T, record, work string) *endtoend.Home {
	home := c.Home(t).With("PERENNIAL_RECORD=" + record)
	home.Work = work
	return home
}

// submits tells of somebody whose machine only submits, and then is gone with its disk.
func submits(t *testing.T, c *Cluster) {
	record := c.Record(t, "submitted")
	home := func() *endtoend.Home { return c.Home(t).With("PERENNIAL_RECORD=" + record) }
	worker, submitter := home(), home().With("GREETING=hello from afar")
	submitter.Work = worker.Work
	worker.Write("ledger", "")
	working := worker.Start("worker")
	worker.Await("the worker to work", func() bool { return strings.Contains(working.Said(), "works for") })

	plan := endtoend.Plan{Trials: 3, Concurrency: 2, Steps: "3", Pause: "0.1", Code: "code"}
	file := submitter.Experiment(plan)
	refused := submitter.Run("run", file, "--detach")
	require.Equal(t, 2, refused.Code, refused.Stderr)
	require.Contains(t, refused.Stderr, "no key of that one is here: copy the files of keys/")
	require.Equal(t, "[]", strings.TrimSpace(submitter.Must("ls", "--output", "json")))
	require.NoError(t, os.CopyFS(filepath.Join(submitter.Dir, "keys"), os.DirFS(filepath.Join(worker.Dir, "keys"))))
	following := submitter.Follow(file)
	id := following.ID()
	following.Signal(syscall.SIGINT)
	following.Wait(endtoend.Patience)
	require.Contains(t, submitter.Must("show", id), id)
	require.NotEqual(t, 0, submitter.Run("serve", "--pid").Code, "a host was started")
	require.Contains(t, submitter.Run("serve", "--detach").Stderr, "works on this record")
	require.NoError(t, os.RemoveAll(submitter.Dir))
	require.NoError(t, os.RemoveAll(filepath.Join(worker.Work, plan.Code)))

	worker.AwaitFor(limit, "the end", func() bool { return worker.Show(id).Status == "DONE" })
	worker.RequireExactlyOnce(id, plan.Trials, nil)
	environment, err := os.ReadFile(filepath.Join(worker.Dir, "experiments", id, "environment"))
	require.NoError(t, err)
	require.Contains(t, string(environment), "hello from afar")
	require.NotContains(t, c.postgres.Dump(t, "submitted"), "hello from afar")
}

const password = "opens-the-hosts"

func onHosts(lab *sshlab.Lab) string {
	var lines strings.Builder
	lines.WriteString("  platform: remote\n  sshConfigFile: " + filepath.Join(lab.Home, ".ssh", "config") + "\n  machineList:\n")
	for _, h := range lab.Hosts {
		fmt.Fprintf(&lines, "  - host: %s\n    port: %d\n    user: %s\n    password: %s\n", h.Address, h.Port, h.User, password)
	}
	return lines.String()
}

// staff is how each worker stands, as starter workers has it.
func staff(t *testing.T, home *endtoend.Home) (states []string) {
	var workers []struct {
		State  string
		Reason *struct{ Code string }
	}
	require.NoError(t, json.Unmarshal([]byte(home.Must("workers", "--output", "json")), &workers))
	for _, worker := range workers {
		if worker.Reason != nil {
			worker.State += " " + worker.Reason.Code
		}
		states = append(states, worker.State)
	}
	return states
}

// succeeds is story 12: the machine that worked dies for good, its disk too.
func succeeds(t *testing.T, c *Cluster) {
	record := c.Record(t, "shared")
	endtoend.Program(t) // built before anybody waits
	lab := sshlab.New(t, sshlab.Spec{Password: password})
	work := filepath.Join(lab.Evidence, "work")
	require.NoError(t, os.Mkdir(work, 0o755))
	first, second := c.machine(t, record, work), c.machine(t, record, work)
	first.Write("ledger", "")
	require.NoError(t, os.Chmod(first.LedgerFile(), 0o666))
	working := first.Start("worker")
	first.Await("the first to work", func() bool { return strings.Contains(working.Said(), "works for") })
	require.NoError(t, os.MkdirAll(second.Dir, 0o700))
	require.NoError(t, os.CopyFS(filepath.Join(second.Dir, "keys"), os.DirFS(filepath.Join(first.Dir, "keys"))))
	beside := second.Start("worker")
	second.Await("the second to work", func() bool { return strings.Contains(beside.Said(), "works for") })
	first.AwaitFor(limit, "all to be told of", func() bool { return slices.Equal(staff(t, second), []string{"WORKS", "WORKS"}) })

	plan := endtoend.Plan{Trials: 5, Concurrency: 2, Steps: "12", Pause: "0.5", Code: "code", Platform: onHosts(lab)}
	id := first.Follow(first.Experiment(plan)).ID()
	first.AwaitRunning(id, plan.Concurrency)
	first.KillAll()
	require.NoError(t, os.RemoveAll(first.Dir))
	require.NoError(t, os.RemoveAll(filepath.Join(work, plan.Code)))
	require.NotContains(t, c.postgres.Dump(t, "shared"), password)

	second.AwaitFor(limit, "all to be told of", func() bool {
		return slices.Equal(staff(t, second), []string{"WORKS", "SILENT silent"})
	})
	second.AwaitFor(limit, "the end", func() bool { return second.Show(id).Status == "DONE" })
	second.RequireExactlyOnce(id, plan.Trials, nil)
}

// returns tells of a worker that dies, and is back after another one has taken over its
// experiments; what runs on its own machine waits for it.
func returns(t *testing.T, c *Cluster) {
	record := c.Record(t, "returns")
	home := func() *endtoend.Home { return c.Home(t).With("PERENNIAL_RECORD=" + record) }
	one, two := home(), home()
	first := one.Start("worker")
	one.Await("the first to work", func() bool { return strings.Contains(first.Said(), "works for") })
	require.NoError(t, os.MkdirAll(two.Dir, 0o700))
	require.NoError(t, os.CopyFS(filepath.Join(two.Dir, "keys"), os.DirFS(filepath.Join(one.Dir, "keys"))))
	two.Start("worker")
	one.AwaitFor(limit, "both to work", func() bool { return slices.Equal(staff(t, one), []string{"WORKS", "WORKS"}) })
	const leaders = "SELECT string_agg(name || holder || fence, ' ' ORDER BY name) FROM leases"
	led := c.postgres.Ask(t, "returns", leaders)
	for range 3 { // as where the record was away for a while
		c.postgres.Ask(t, "returns", "UPDATE leases SET until = clock_timestamp() - interval '1 minute'")
		one.AwaitFor(limit, "all leases to be renewed", func() bool {
			return c.postgres.Ask(t, "returns", "SELECT count(*) FROM leases WHERE until < clock_timestamp()") == "0"
		})
	}
	require.Equal(t, led, c.postgres.Ask(t, "returns", leaders), "nobody took the place of one who lives")

	plan := endtoend.Plan{Trials: 3, Concurrency: 2, Steps: "14", Pause: "0.5"}
	following := one.Follow(one.Experiment(plan))
	own := following.ID()
	following.Signal(syscall.SIGKILL) // it would start another host
	others := two.Follow(two.Experiment(plan)).ID()
	one.AwaitRunning(own, plan.Concurrency)
	killed := time.Now()
	first.Signal(syscall.SIGKILL)
	drives := func(home *endtoend.Home, experiments ...int) func() bool {
		return func() bool {
			var workers []struct{ Experiments int }
			require.NoError(t, json.Unmarshal([]byte(home.Must("workers", "--output", "json")), &workers))
			return slices.EqualFunc(workers, experiments, func(w struct{ Experiments int }, n int) bool { return w.Experiments == n })
		}
	}
	two.AwaitFor(limit, "the second to drive both", drives(two, 2, 0))
	t.Log("driven by the other after", time.Since(killed))
	two.AwaitFor(limit, "the reason for waiting", func() bool { return two.Show(own).Reason.Code == "no-worker" })
	back := time.Now()
	one.Start("worker")
	two.AwaitFor(limit, "each to drive its own", func() bool {
		return slices.Equal(staff(t, two), []string{"WORKS", "WORKS"}) && drives(two, 1, 1)()
	})
	t.Log("handed back after", time.Since(back))
	for home, id := range map[*endtoend.Home]string{one: own, two: others} {
		home.AwaitFor(limit, "the end", func() bool { return home.Show(id).Status == "DONE" })
		home.RequireExactlyOnce(id, plan.Trials, nil)
	}

	// Once more it goes, and for good.
	plan.Trials = plan.Concurrency
	following = one.Follow(one.Experiment(plan))
	own = following.ID()
	following.Signal(syscall.SIGKILL)
	one.KillAll()
	two.AwaitFor(limit, "the reason for waiting", func() bool { return two.Show(own).Reason.Code == "no-worker" })
	c.postgres.Ask(t, "returns", "UPDATE leases SET seen = seen - interval '25 hours' WHERE seen < clock_timestamp() - interval '5 seconds' RETURNING 1")
	two.AwaitFor(limit, "the end elsewhere", func() bool { return two.Show(own).Status == "DONE" })
	require.Equal(t, plan.Trials, two.Show(own).Trials["SUCCEEDED"])
}
