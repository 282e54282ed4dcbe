package replay

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/perennial-ml/perennial/workflows"
)

func kept(t *testing.T) []string {
	paths, err := filepath.Glob("testdata/*.json.gz")
	require.NoError(t, err)
	return paths
}

func TestEveryKeptHistoryReplays(t *testing.T) {
	paths := kept(t)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			recorded, err := Read(path)
			require.NoError(t, err)
			require.NoError(t, replayed(recorded, workflows.Experiment))
		})
	}
}

// quiet drops what the replayer says besides its verdict.
var quiet = log.NewStructuredLogger(slog.New(slog.DiscardHandler))

func replayed(recorded Recorded, experiment any) error {
	replayer := worker.NewWorkflowReplayer()
	replayer.RegisterWorkflowWithOptions(experiment, workflow.RegisterOptions{Name: workflows.ExperimentType})
	replayer.RegisterWorkflowWithOptions(workflows.Trial, workflow.RegisterOptions{Name: workflows.TrialType})
	// Children's ids follow from the workflow's own, which the replayer invents
	// unless it is told.
	return replayer.ReplayWorkflowHistoryWithOptions(quiet, recorded.History,
		worker.ReplayWorkflowHistoryOptions{OriginalExecution: recorded.Execution})
}

func TestAWorkflowThatDecidesOtherwiseDoesNotReplay(t *testing.T) {
	recorded, err := Read("testdata/small-experiment-1.json.gz")
	require.NoError(t, err)
	require.Error(t, replayed(recorded, func(ctx workflow.Context, _ workflows.ExperimentInput) error { return nil }))
}

func TestTheKeptHistoriesTellWhatTheyAreNamedFor(t *testing.T) {
	seen := map[string]bool{}
	for _, path := range kept(t) {
		recorded, err := Read(path)
		require.NoError(t, err)
		scenario, _, _ := strings.Cut(filepath.Base(path), "-")
		queue := recorded.History.Events[0].GetWorkflowExecutionStartedEventAttributes().GetTaskQueue().GetName()
		for _, event := range recorded.History.Events {
			seen[scenario+" "+event.EventType.String()] = true
			if marker := event.GetMarkerRecordedEventAttributes(); marker != nil {
				seen[fmt.Sprintf("%s %s %s", scenario, event.EventType, marker.GetMarkerName())] = true
			}
			if failure := event.GetActivityTaskStartedEventAttributes().GetLastFailure(); failure != nil {
				seen[scenario+" orphaned"] = true
			}
			if activity := event.GetActivityTaskScheduledEventAttributes(); activity != nil {
				name := activity.GetActivityType().GetName()
				seen[scenario+" "+name] = true
				verb := slices.Contains([]string{"PrepareCodeDir", "TakeIn", "CancelTrial"}, name) // they end by themselves
				require.True(t, verb || activity.GetTaskQueue().GetName() == queue,
					"%s: %s waits in another queue than its workflow's, and so is not given out at once", path, name)
			}
		}
	}
	for _, needed := range []string{
		"continued " + enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW.String(),
		"continued " + enumspb.EVENT_TYPE_MARKER_RECORDED.String() + " Version",
		"unversioned " + enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW.String(),
		"stopped " + enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED.String(),
		"stopped CancelTrial",
		"early CancelTrial",
		"killed " + enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED.String(),
		"crashed orphaned",
		"fault RunAttempt",
		"unversioned " + enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED.String(),
	} {
		require.True(t, seen[needed], "no kept history has %q", needed)
	}
}
