package workers

import (
	"encoding/json"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/mocks"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

const experimentWorkflow = "experiment-k3v9x2ab"

// believing has a Temporal that believes an activity of the experiment to run on
// the worker of an identity.
func believing(t *testing.T, identity string) (*Workers, *mocks.Client) {
	store, err := record.Open(filepath.Join(t.TempDir(), "record.sqlite"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	config := `{"format":1,"searchSpace":{"x":{"_type":"uniform","_value":[0,1]}},"trialConcurrency":1,"tuner":{"name":"Random"},"trainingService":[]}`
	accept := trial.Command{ID: "accept", Name: trial.Accept, Value: json.RawMessage(config)}
	_, err = store.Append(t.Context(), "k3v9x2ab", record.CommandEvent(accept))
	require.NoError(t, err)
	temporal := &mocks.Client{}
	temporal.On("DescribeWorkflowExecution", mock.Anything, mock.Anything, "").Return(&workflowservice.DescribeWorkflowExecutionResponse{
		PendingActivities: []*workflowpb.PendingActivityInfo{{
			ActivityId: "5", ActivityType: &commonpb.ActivityType{Name: "Round"}, Attempt: 1,
			State: enumspb.PENDING_ACTIVITY_STATE_STARTED, LastWorkerIdentity: identity,
		}},
	}, nil)
	temporal.On("CompleteActivityByID", mock.Anything, "somebodys", experimentWorkflow, "", "5", nil, mock.Anything).Return(nil)
	w := &Workers{options: Options{Client: temporal, Namespace: "somebodys", Record: store, StateID: "mystate", Nonce: "now",
		Logger: slog.New(slog.DiscardHandler)}}
	return w, temporal
}

// look looks for lost activities twice and returns how many were failed.
func look(t *testing.T, w *Workers, temporal *mocks.Client) (failed int) {
	search := search{Workers: w}
	require.NoError(t, search.look(t.Context()))
	temporal.AssertNotCalled(t, "CompleteActivityByID", "it may still be on its way")
	require.NoError(t, search.look(t.Context()))
	for _, call := range temporal.Calls {
		if call.Method == "CompleteActivityByID" {
			failed++
		}
	}
	return failed
}

func TestAnActivityThatNeverArrivedRunsAgain(t *testing.T) {
	w, temporal := believing(t, "mystate/now")
	require.Equal(t, 1, look(t, w, temporal))
}

func TestAnActivityThatRunsHereIsNotLost(t *testing.T) {
	w, temporal := believing(t, "mystate/now")
	w.arrivals.add(experimentWorkflow, "5", 1)
	require.Zero(t, look(t, w, temporal))
	w.arrivals.add(experimentWorkflow, "5", -1)
	require.Equal(t, 1, look(t, w, temporal))
}

func TestAnActivityIsLostAlsoWhileAnotherOneOfItsWorkflowRunsHere(t *testing.T) {
	w, temporal := believing(t, "mystate/now")
	w.arrivals.add(experimentWorkflow, "4", 1) // Assess, beside a Round
	require.Equal(t, 1, look(t, w, temporal))
}

func TestAnActivityOfAnotherWorkerIsNotOursToFail(t *testing.T) {
	w, temporal := believing(t, "another/now")
	require.Zero(t, look(t, w, temporal))
}

func TestEveryTrialThatMayLackItsActivityHasItsTurn(t *testing.T) {
	w, temporal := believing(t, "mystate/before")
	const trials = 3 * looks
	for n := range trials {
		w.launched(t, n)
	}
	w.arrivals.add(experimentWorkflow, "5", 1)
	search, seen := search{Workers: w}, map[string]bool{}
	for range trials/looks + 1 {
		temporal.Calls, search.suspects = nil, nil
		require.NoError(t, search.look(t.Context()))
		require.LessOrEqual(t, len(temporal.Calls), looks)
		for _, call := range temporal.Calls {
			seen[call.Arguments.String(1)] = true
		}
	}
	require.Len(t, seen, trials+1)
}

func TestATrialThatHasItsActivityHereIsNotLookedAt(t *testing.T) {
	w, temporal := believing(t, "mystate/now")
	w.launched(t, 0)
	w.arrivals.add(trialWorkflow(keyOf(0)), "5", 1)
	search := search{Workers: w}
	require.NoError(t, search.look(t.Context()))
	temporal.AssertNumberOfCalls(t, "DescribeWorkflowExecution", 1)
}

func TestTheSearchForLostActivitiesReadsNothingOfWhatHasEnded(t *testing.T) {
	w, _ := believing(t, "mystate/now")
	_, err := w.options.Record.Finish(t.Context(), "k3v9x2ab", record.Done, record.Place{Number: 1})
	require.NoError(t, err)
	before := w.options.Record.Reads()
	search := search{Workers: w}
	require.NoError(t, search.look(t.Context()))
	require.Equal(t, record.Reads{Queries: before.Queries + 1, Rows: before.Rows}, w.options.Record.Reads())
}
