package replay

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/proxy"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/workers/codec"
)

var refresh = flag.Bool("refresh", false, "record the histories anew, with the real program")

// trialsKept is how many trials of each experiment are kept: the rest are alike.
const trialsKept = 2

func fake(lines string) string { return "  platform: fake\n" + lines }

const slow = "  duration: 30\n  final: 1\n"

func TestRecordHistories(t *testing.T) {
	if !*refresh {
		t.Skip("histories are recorded with -refresh only")
	}
	h := endtoend.NewHome(t)
	h.Serve()
	keep(t, h, "small", whole(h, plan(3, 2, "  duration: 0.2\n  intermediates: [1, 2]\n  final: 3\n")))
	keep(t, h, "fault", whole(h, plan(2, 2, "  duration: 0.3\n  final: 1\n  rules:\n    - {trials: [0], attempts: [1, 2], lostAfter: 0.1}\n    - {trials: [1], lostReplies: 2}\n")))
	keep(t, h, "stopped", stopped(h))
	keep(t, h, "early", early(h))
	keep(t, h, "killed", killed(h))
	keep(t, h, "crashed", crashed(h))
	keep(t, h, "continued", whole(h, plan(900, 2, "  duration: 0\n  final: 1\n")))
}

func plan(trials, concurrency int, behaviour string) endtoend.Plan {
	return endtoend.Plan{Trials: trials, Concurrency: concurrency, Platform: fake(behaviour), Script: "#!/bin/sh\n"}
}

func whole(h *endtoend.Home, plan endtoend.Plan) string {
	run := h.Follow(h.Experiment(plan))
	run.Finished(4 * endtoend.Patience)
	return run.ID()
}

func stopped(h *endtoend.Home) string {
	run := h.Follow(h.Experiment(plan(3, 2, "  duration: 3\n  final: 1\n")))
	h.AwaitRunning(run.ID(), 2)
	h.Must("stop", run.ID())
	h.Start("resume", run.ID(), "--output", "json").Finished(endtoend.Patience)
	return run.ID()
}

func early(h *endtoend.Home) string {
	run := h.Follow(h.Experiment(plan(4, 2, slow)))
	h.AwaitRunning(run.ID(), 2)
	h.Must("update", "concurrency", run.ID(), "3")
	h.Must("pause", run.ID())
	h.Must("kill", run.ID(), "0", "--early-stop")
	h.AwaitState(run.ID(), 0, "EARLY_STOPPED", 1)
	h.Must("resume", run.ID(), "--detach")
	h.AwaitRunning(run.ID(), 3)
	h.Must("stop", run.ID(), "--early-stop")
	run.Finished(endtoend.Patience)
	return run.ID()
}

func killed(h *endtoend.Home) string {
	run := h.Follow(h.Experiment(plan(2, 2, slow)))
	h.AwaitRunning(run.ID(), 2)
	h.Must("kill", run.ID(), "0")
	h.AwaitState(run.ID(), 0, "USER_CANCELED", 1)
	h.Must("stop", run.ID(), "--early-stop")
	run.Finished(endtoend.Patience)
	return run.ID()
}

// crashed is an experiment whose host was killed while two trials ran.
func crashed(h *endtoend.Home) string {
	run := h.Follow(h.Experiment(plan(4, 2, "  duration: 3\n  final: 1\n")))
	h.AwaitRunning(run.ID(), 2)
	h.KillAndAwait(endtoend.Host)
	h.Serve()
	h.AwaitState(run.ID(), 3, "SUCCEEDED", 1)
	h.Await("the end of the experiment", func() bool { return h.Show(run.ID()).Status == "DONE" })
	return run.ID()
}

// keep writes down every run of an experiment's workflow, and those of its first
// trials. What is kept of other scenarios stays: older versions made it.
func keep(t *testing.T, h *endtoend.Home, scenario, id string) {
	temporal := h.Temporal(id)
	defer temporal.Close()
	namespace := h.Show(id).Temporal.Namespace
	older, err := filepath.Glob(filepath.Join("testdata", scenario+"-*"))
	require.NoError(t, err)
	for _, path := range older {
		require.NoError(t, os.Remove(path))
	}
	var runs []*workflowpb.WorkflowExecutionInfo
	h.Await("the end of all workflows, in the list", func() bool {
		runs = list(t, temporal, namespace, "experiment-"+id)
		return len(runs) > 0 && !slices.ContainsFunc(runs, func(run *workflowpb.WorkflowExecutionInfo) bool { return run.CloseTime == nil })
	})
	number := map[string]int{}
	for _, run := range runs {
		name := strings.TrimPrefix(strings.TrimPrefix(run.Execution.WorkflowId, "experiment-"+id), "/")
		if name == "" {
			name = "experiment"
		}
		number[name]++
		events := endtoend.History(t, temporal, run.Execution.WorkflowId, run.Execution.RunId)
		recorded := Recorded{workflow.Execution{ID: run.Execution.WorkflowId, RunID: run.Execution.RunId}, &historypb.History{Events: events}}
		decrypt(t, h, recorded.History)
		require.NoError(t, recorded.Write(filepath.Join("testdata", fmt.Sprintf("%s-%s-%d.json.gz", scenario, name, number[name]))))
	}
}

// list returns the runs of an experiment's workflow and of its first trials, the
// oldest first.
func list(t *testing.T, temporal client.Client, namespace, workflowID string) (runs []*workflowpb.WorkflowExecutionInfo) {
	ids := []string{workflowID}
	for n := range trialsKept {
		ids = append(ids, fmt.Sprintf("%s/trial-%d", workflowID, n))
	}
	for _, id := range ids {
		answer, err := temporal.ListWorkflow(context.Background(), &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: namespace, PageSize: 100, Query: fmt.Sprintf("WorkflowId = '%s'", id),
		})
		require.NoError(t, err)
		slices.Reverse(answer.Executions)
		runs = append(runs, answer.Executions...)
	}
	return runs
}

// decrypt makes a history readable without the keys of the state directory that
// it comes from.
func decrypt(t *testing.T, h *endtoend.Home, history *historypb.History) {
	ring, err := codec.Read(codec.In(h.Dir))
	require.NoError(t, err)
	err = proxy.VisitPayloads(t.Context(), history, proxy.VisitPayloadsOptions{
		Visitor: func(_ *proxy.VisitPayloadsContext, payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
			return ring.Decode(payloads)
		},
	})
	require.NoError(t, err)
}
