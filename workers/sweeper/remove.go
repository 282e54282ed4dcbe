package sweeper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/workflows"
)

// remove removes all of the experiments of which nothing shall stay. What is on record
// goes last, so that what was interrupted goes on.
func (s *Sweeper) remove(ctx context.Context) error {
	removals, err := s.Record.Removing(ctx)
	if err != nil {
		return err
	}
	return each(slices.Collect(maps.Keys(removals)), func(id string) error { return s.removeOne(ctx, id, removals[id]) })
}

// reasonRemoval is the code of the reason why an experiment is still being removed.
const reasonRemoval = "cannot-remove"

// removeOne removes an experiment. What keeps it from that is the experiment's reason,
// and is tried again with every sweep.
func (s *Sweeper) removeOne(ctx context.Context, id string, removal trial.Removal) error {
	err := s.removeAll(ctx, id, removal)
	if err == nil || ctx.Err() != nil {
		return err
	}
	said := s.Record.SetReason(ctx, id, trial.Reason{Code: reasonRemoval, Text: err.Error()})
	if errors.Is(said, record.ErrNotFound) {
		said = nil // only giving room back to the disk has failed
	}
	return errors.Join(err, said)
}

func (s *Sweeper) removeAll(ctx context.Context, id string, removal trial.Removal) error {
	if err := s.RemoveFiles(ctx, id, removal); err != nil {
		return err
	}
	if err := s.awaitClosed(ctx, id); err != nil {
		return err
	}
	if err := s.removePages(ctx, id); err != nil {
		return err
	}
	s.Logger.Info("removed an experiment", "experiment", id)
	return s.Record.Remove(ctx, id)
}

const (
	// closesWithin is how long the workflow that brought the word may take to its end.
	closesWithin = 20 * time.Second
	closedLook   = 200 * time.Millisecond
)

// awaitClosed waits for the end of an experiment's workflow: it reads the record.
func (s *Sweeper) awaitClosed(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, closesWithin)
	defer cancel()
	for {
		open, err := s.open(ctx, workflows.ExperimentWorkflowID(id))
		if err != nil || !open {
			return err
		}
		select {
		case <-time.After(closedLook):
		case <-ctx.Done():
			return fmt.Errorf("the workflow of experiment %s, which is to be removed, is still open: %w", id, ctx.Err())
		}
	}
}

// removePages removes what Temporal still shows of an experiment and its trials.
func (s *Sweeper) removePages(ctx context.Context, id string) error {
	request := &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: s.Namespace, Query: fmt.Sprintf("WorkflowId STARTS_WITH %q", workflows.ExperimentWorkflowID(id)),
	}
	for {
		page, err := s.Workflows.Temporal.ListWorkflow(ctx, request)
		if err != nil {
			return err
		}
		err = each(page.Executions, func(run *workflowpb.WorkflowExecutionInfo) error { return s.removePage(ctx, run) })
		if err != nil || len(page.NextPageToken) == 0 {
			return err
		}
		request.NextPageToken = page.NextPageToken
	}
}

func (s *Sweeper) removePage(ctx context.Context, run *workflowpb.WorkflowExecutionInfo) error {
	_, err := s.Workflows.Temporal.WorkflowService().DeleteWorkflowExecution(ctx, &workflowservice.DeleteWorkflowExecutionRequest{
		Namespace: s.Namespace, WorkflowExecution: run.Execution,
	})
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return nil
	}
	return err
}
