package workers

import (
	"context"
	"errors"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/perennial-ml/perennial/workflows"
)

// errorOrphaned is the type of the error an activity of a dead host ends with.
const errorOrphaned = "host-died"

// failOrphans ends, retryably and before any worker of this host polls, the
// activities that an earlier host of this state directory had begun: its lock
// proves it dead, so nobody needs to wait for their heartbeats to stay away.
func (w *Workers) failOrphans(ctx context.Context) error {
	ids, err := w.driven(ctx)
	if err != nil {
		return err
	}
	var failures []error
	for _, id := range ids {
		failures = append(failures, w.failOrphansIn(ctx, id))
	}
	return errors.Join(failures...)
}

// driven are the ids of the workflows that active experiments have, or may have.
func (w *Workers) driven(ctx context.Context) (ids []string, err error) {
	rows, err := w.options.Record.Experiments(ctx)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if !row.Status.Active() {
			continue
		}
		sequences, err := w.options.Record.Unsettled(ctx, row.ID)
		if err != nil {
			return nil, err
		}
		ids = append(ids, workflows.ExperimentWorkflowID(row.ID))
		for _, n := range sequences {
			ids = append(ids, workflows.TrialWorkflowID(row.ID, n))
		}
	}
	return ids, nil
}

func (w *Workers) failOrphansIn(ctx context.Context, workflowID string) error {
	pending, err := w.pending(ctx, workflowID)
	if err != nil {
		return err
	}
	for _, activity := range pending {
		if !w.orphaned(activity) {
			continue
		}
		if err := w.fail(ctx, workflowID, activity.ActivityId); err != nil {
			return err
		}
	}
	return nil
}

// pending are the activities that a workflow waits for; none where it is gone.
func (w *Workers) pending(ctx context.Context, workflowID string) ([]*workflowpb.PendingActivityInfo, error) {
	description, err := w.options.Client.DescribeWorkflowExecution(ctx, workflowID, "")
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return nil, nil
	}
	return description.GetPendingActivities(), err
}

// fail ends an activity that nobody runs, so that Temporal has it run again.
func (w *Workers) fail(ctx context.Context, workflowID, activityID string) error {
	err := w.options.Client.CompleteActivityByID(ctx, w.options.Namespace, workflowID, "", activityID, nil,
		temporal.NewApplicationError("nobody runs it", errorOrphaned))
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return nil
	}
	return err
}

// orphaned tells whether an activity was begun by an earlier host of this state
// directory. A call by id checks no attempt, so a live one must never match.
func (w *Workers) orphaned(activity *workflowpb.PendingActivityInfo) bool {
	identity := activity.LastWorkerIdentity
	return activity.State == enumspb.PENDING_ACTIVITY_STATE_STARTED &&
		strings.HasPrefix(identity, w.options.StateID+"/") &&
		!strings.HasPrefix(identity, w.options.StateID+"/"+w.options.Nonce)
}
