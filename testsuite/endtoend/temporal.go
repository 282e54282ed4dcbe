package endtoend

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/perennial-ml/perennial/workers/codec"
)

// Temporal connects to the engine as any Temporal client could, by what show
// tells of it: payloads stay encrypted. The caller closes it.
func (h *Home) Temporal(id string) client.Client {
	h.t.Helper()
	return dial(h.t, h.options(id))
}

// TemporalWithKeys is Temporal with the keys of the state directory.
func (h *Home) TemporalWithKeys(id string) client.Client {
	h.t.Helper()
	ring, err := codec.Read(codec.In(h.Dir))
	require.NoError(h.t, err)
	return dial(h.t, ring.Protect(h.options(id)))
}

func (h *Home) options(id string) client.Options {
	h.t.Helper()
	at := h.Show(id).Temporal
	token, err := os.ReadFile(at.TokenFile)
	require.NoError(h.t, err)
	options := client.Options{
		HostPort: at.Address, Namespace: at.Namespace,
		Credentials: client.NewAPIKeyStaticCredentials(strings.TrimSpace(string(token))),
	}
	options.ConnectionOptions.TLSDisabled = true
	return options
}

func dial(t testing.TB, options client.Options) client.Client {
	t.Helper()
	temporal, err := client.Dial(options)
	require.NoError(t, err)
	return temporal
}

// Terminate does what the Web UI's Terminate does.
func (h *Home) Terminate(id, workflowID string) {
	h.t.Helper()
	temporal := h.Temporal(id)
	defer temporal.Close()
	require.NoError(h.t, temporal.TerminateWorkflow(context.Background(), workflowID, "", "end-to-end test"))
}

// Reset resets a workflow to its last completed workflow task.
func (h *Home) Reset(id, workflowID string) {
	h.t.Helper()
	temporal := h.Temporal(id)
	defer temporal.Close()
	events := History(h.t, temporal, workflowID, "")
	var completed int64
	for _, event := range events {
		if event.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			completed = event.EventId
		}
	}
	require.NotZero(h.t, completed, "%s has completed no workflow task", workflowID)
	_, err := temporal.ResetWorkflowExecution(context.Background(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: h.Show(id).Temporal.Namespace, Reason: "end-to-end test", RequestId: h.t.Name() + workflowID,
		WorkflowExecution:         &commonpb.WorkflowExecution{WorkflowId: workflowID},
		WorkflowTaskFinishEventId: completed,
	})
	require.NoError(h.t, err)
}

// Status is the status of the newest run of a workflow.
func (h *Home) Status(id, workflowID string) enumspb.WorkflowExecutionStatus {
	h.t.Helper()
	temporal := h.Temporal(id)
	defer temporal.Close()
	description, err := temporal.DescribeWorkflowExecution(context.Background(), workflowID, "")
	require.NoError(h.t, err)
	return description.WorkflowExecutionInfo.Status
}

// History reads all events of one run; an empty run is the newest.
func History(t require.TestingT, temporal client.Client, workflowID, run string) (events []*historypb.HistoryEvent) {
	iterator := temporal.GetWorkflowHistory(context.Background(), workflowID, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for iterator.HasNext() {
		event, err := iterator.Next()
		require.NoError(t, err)
		events = append(events, event)
	}
	return events
}
