package workers

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/workflows"
)

// errorOrphaned is the type of the error an activity of a dead host ends with.
const errorOrphaned = "host-died"

const (
	// takeOverEvery and atOnce make trials that need nothing wait their turn: all
	// at once would keep those waiting that do.
	takeOverEvery = 500 * time.Millisecond
	atOnce        = 25
)

// failOrphans ends, retryably, the activities of some workflows that an earlier
// host of this state directory had begun: its lock proves it dead, so nobody needs
// to wait for their heartbeats to stay away.
func (w *Workers) failOrphans(ctx context.Context, ids []string) {
	for _, id := range ids {
		if err := w.failOrphansIn(ctx, id); err != nil && ctx.Err() == nil {
			w.options.Logger.Warn("fail orphaned activities; Temporal will by their timeouts", "workflow", id, "error", err)
		}
	}
}

// takeOver fails the orphans of trials. First come those that somebody has to do
// something for. What merely runs is observed already, and its turn comes.
func (w *Workers) takeOver(ctx context.Context, trials []string) {
	ticker := time.NewTicker(takeOverEvery)
	defer ticker.Stop()
	for len(trials) > 0 && ctx.Err() == nil {
		running, err := w.underWay(ctx)
		if err != nil {
			w.options.Logger.Warn("read what is under way", "error", err)
		}
		first, rest := split(trials, running)
		some := min(len(rest), atOnce)
		w.failOrphans(ctx, slices.Concat(first, rest[:some]))
		trials = rest[some:]
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// split tells trials that run from the others.
func split(trials []string, running map[string]bool) (others, merelyRun []string) {
	for _, id := range trials {
		if running[id] {
			merelyRun = append(merelyRun, id)
		} else {
			others = append(others, id)
		}
	}
	return others, merelyRun
}

// underWay are the workflows of trials with an attempt that was submitted and is
// not over, as far as anybody knows, and that nobody wants to end.
func (w *Workers) underWay(ctx context.Context) (ids map[string]bool, err error) {
	ids = map[string]bool{}
	stopping := map[string]bool{}
	for name := range w.options.Sections.Registry() {
		open, err := w.options.Record.OpenAttempts(ctx, name)
		if err != nil {
			return nil, err
		}
		for _, attempt := range open {
			if err := w.noteStopping(ctx, attempt.Key.Experiment, stopping); err != nil {
				return nil, err
			}
			ids[trialWorkflow(attempt.Key)] = !stopping[attempt.Key.Experiment] && attempt.Outcome == "" && attempt.Handle != nil && !attempt.Drained
		}
	}
	decisions, err := w.options.Record.OpenDecisions(ctx)
	for _, decision := range decisions {
		ids[trialWorkflow(decision.Key)] = false
	}
	return ids, err
}

// noteStopping notes whether an experiment shall stop, unless that is known already.
func (w *Workers) noteStopping(ctx context.Context, experiment string, stopping map[string]bool) error {
	if _, known := stopping[experiment]; known {
		return nil
	}
	row, err := w.options.Record.Experiment(ctx, experiment)
	stopping[experiment] = row.Status == record.Stopping
	return err
}

func trialWorkflow(key trial.Key) string {
	return workflows.TrialWorkflowID(key.Experiment, key.Sequence)
}

// driven are the ids of the workflows of active experiments, and of those of their
// trials that have an open attempt: no other trial waits for an activity.
func (w *Workers) driven(ctx context.Context) (experiments, trials []string, err error) {
	active, err := w.options.Record.Active(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, id := range active {
		// Those between two attempts too: a record that came from a backup may have
		// given up the attempt that a trial's workflow still waits for.
		begun, err := w.options.Record.Attempted(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		experiments = append(experiments, workflows.ExperimentWorkflowID(id))
		for _, n := range begun {
			trials = append(trials, workflows.TrialWorkflowID(id, n))
		}
	}
	return experiments, trials, nil
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
// directory, or by any other where the record is led from here. A call by id checks no attempt: one that this host begins meanwhile,
// after a timeout, may be failed for it, and runs twice for a moment as any may.
func (w *Workers) orphaned(activity *workflowpb.PendingActivityInfo) bool {
	identity := activity.LastWorkerIdentity
	return activity.State == enumspb.PENDING_ACTIVITY_STATE_STARTED &&
		(w.options.Led || strings.HasPrefix(identity, w.options.StateID+"/")) &&
		!strings.HasPrefix(identity, w.options.StateID+"/"+w.options.Nonce)
}
