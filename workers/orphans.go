package workers

import (
	"context"
	"errors"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/workflows"
)

// errorOrphaned is the type of the error an activity of a dead host ends with.
const errorOrphaned = "host-died"

// failOrphans ends, retryably and before any worker of this host polls, the
// activities that an earlier host of this state directory had begun: its lock
// proves it dead, so nobody needs to wait for their heartbeats to stay away.
func (w *Workers) failOrphans(ctx context.Context) error {
	rows, err := w.options.Record.Experiments(ctx)
	if err != nil {
		return err
	}
	var failures []error
	for _, row := range rows {
		if row.Status.Active() {
			failures = append(failures, w.failOrphansOf(ctx, row))
		}
	}
	return errors.Join(failures...)
}

func (w *Workers) failOrphansOf(ctx context.Context, row record.Experiment) error {
	sequences, err := w.options.Record.Unsettled(ctx, row.ID)
	if err != nil {
		return err
	}
	ids := []string{workflows.ExperimentWorkflowID(row.ID)}
	for _, n := range sequences {
		ids = append(ids, workflows.TrialWorkflowID(row.ID, n))
	}
	for _, id := range ids {
		if err := w.failOrphansIn(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func (w *Workers) failOrphansIn(ctx context.Context, workflowID string) error {
	description, err := w.options.Client.DescribeWorkflowExecution(ctx, workflowID, "")
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, activity := range description.PendingActivities {
		if !w.orphaned(activity) {
			continue
		}
		err := w.options.Client.CompleteActivityByID(ctx, w.options.Namespace, workflowID, "", activity.ActivityId, nil,
			temporal.NewApplicationError("the host that ran it died", errorOrphaned))
		if err != nil && !errors.As(err, &missing) {
			return err
		}
	}
	return nil
}

// orphaned tells whether an activity was begun by an earlier host of this state
// directory. A call by id checks no attempt, so a live one must never match.
func (w *Workers) orphaned(activity *workflowpb.PendingActivityInfo) bool {
	identity := activity.LastWorkerIdentity
	return activity.State == enumspb.PENDING_ACTIVITY_STATE_STARTED &&
		strings.HasPrefix(identity, w.options.StateID+"/") &&
		!strings.HasPrefix(identity, w.options.StateID+"/"+w.options.Nonce)
}
