package webui

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/operatorservice/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/perennial-ml/perennial/embedded"
	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/workflows"
)

func TestTheEmbeddedServerKnowsTheSearchAttributesOfWorkflows(t *testing.T) {
	require.Equal(t, embedded.SearchAttributes(), workflows.SearchAttributes())
}

// found waits until a query of the Web UI's list finds so many workflows.
func (w *window) found(query string, count int) {
	w.t.Helper()
	var last []string
	w.home.Await(query, func() bool {
		answer, err := w.temporal.ListWorkflow(w.t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: query})
		require.NoError(w.t, err)
		last = nil
		for _, info := range answer.Executions {
			last = append(last, info.Execution.WorkflowId)
		}
		return len(last) == count
	})
}

// ask answers the query "state" of a workflow.
func (w *window) ask(workflow string, into any) {
	w.t.Helper()
	answer, err := w.temporal.QueryWorkflow(w.t.Context(), workflow, "", workflows.QueryState)
	require.NoError(w.t, err)
	require.NoError(w.t, answer.Get(into))
}

// details are the current details of a workflow, as the Web UI asks for them.
func (w *window) details(workflow string) string {
	w.t.Helper()
	metadata, err := w.temporal.QueryWorkflow(w.t.Context(), workflow, "", "__temporal_workflow_metadata")
	require.NoError(w.t, err)
	var answer sdkpb.WorkflowMetadata
	require.NoError(w.t, metadata.Get(&answer))
	return answer.CurrentDetails
}

func TestListsQueriesAndDetailsTellTheStoryOfAnExperiment(t *testing.T) {
	t.Parallel()
	w := begin(t, endtoend.NewHome(t), endtoend.Plan{Trials: 4, Concurrency: 2, Script: quick})
	w.status("DONE")
	require.NoError(t, w.temporal.GetWorkflow(t.Context(), w.workflow(), "").Get(t.Context(), nil))
	w.found("ExperimentId = '"+w.id+"'", 5)
	w.found("ExperimentId = '"+w.id+"' AND TrialStatus = 'SUCCEEDED' AND Platform = 'local'", 4)
	w.found("ExperimentId = '"+w.id+"' AND FinalMetric > 0.915 AND TrialIndex < 3", 1)
	w.found("ExperimentId = '"+w.id+"' AND BestMetric > 0.9", 1)
	var overview workflows.Overview
	w.ask(w.workflow(), &overview)
	require.Equal(t, 4, overview.Progress.Done())
	require.Empty(t, overview.Open)
	var trial workflows.TrialOverview
	w.ask(w.trial(3), &trial)
	require.Equal(t, 1, trial.Attempt)
	require.InDelta(t, 0.93, *trial.Result.Value, 1e-9)
	require.NotEmpty(t, trial.Parameters)
	words, found, _ := strings.Cut(w.details(w.workflow()), "\n")
	require.Equal(t, "DONE: 4 of 4 done, best 0.93 by trial 3", words)
	require.Contains(t, found, "[Its trials](/namespaces/")
	require.Contains(t, w.details(w.trial(3)), "SUCCEEDED with 0.93")
}

func TestAnExperimentRunsOnAServerWithoutTheSearchAttributes(t *testing.T) {
	t.Parallel()
	home := endtoend.NewHome(t)
	first := begin(t, home, endtoend.Plan{Trials: 1, Concurrency: 1, Script: quick})
	first.status("DONE")
	names := []string{}
	for name := range workflows.SearchAttributes() {
		names = append(names, name)
	}
	_, err := first.temporal.OperatorService().RemoveSearchAttributes(t.Context(), &operatorservice.RemoveSearchAttributesRequest{
		Namespace: home.Show(first.id).Temporal.Namespace, SearchAttributes: names,
	})
	require.NoError(t, err)
	second := begin(t, home, endtoend.Plan{Trials: 2, Concurrency: 2, Script: quick})
	second.status("DONE")
	require.NotEqual(t, first.id, second.id)
	require.Equal(t, 2, home.Show(second.id).Trials["SUCCEEDED"])
}
