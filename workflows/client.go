package workflows

import (
	"context"
	"errors"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/trial"
)

// ErrNotDriven is the answer for a trial that has no workflow at present.
var ErrNotDriven = errors.New("nobody drives this trial at present")

// Client sends people's wishes to workflows.
type Client struct {
	Temporal client.Client
	Queues   Queues
	// ShareOf, if not nil, names the share of an experiment, which is not that of Queues.
	ShareOf func(ctx context.Context, experiment string) (string, error)
}

// Send gives an experiment a command, starting its workflow where none is open,
// and returns the command's number in the log once it is durable. The same
// command id acts once, however often it is sent.
func (c Client) Send(ctx context.Context, experiment string, command trial.Command) (number int64, err error) {
	options, err := c.options(ctx, experiment, command)
	if err != nil {
		return 0, err
	}
	operation := c.Temporal.NewWithStartWorkflowOperation(options, ExperimentType, ExperimentInput{Experiment: experiment})
	handle, err := c.Temporal.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: operation,
		UpdateOptions: client.UpdateWorkflowOptions{
			UpdateID: command.ID, UpdateName: UpdateCommand, Args: []any{command},
			WaitForStage: client.WorkflowUpdateStageCompleted,
		},
	})
	if err != nil {
		return 0, err
	}
	return number, handle.Get(ctx, &number)
}

// Drive starts an experiment's workflow unless one is open.
func (c Client) Drive(ctx context.Context, experiment string) error {
	options, err := c.options(ctx, experiment, trial.Command{})
	if err == nil {
		_, err = c.Temporal.ExecuteWorkflow(ctx, options, ExperimentType, ExperimentInput{Experiment: experiment})
	}
	return err
}

func (c Client) options(ctx context.Context, experiment string, command trial.Command) (options client.StartWorkflowOptions, err error) {
	queues := c.Queues
	if c.ShareOf != nil {
		queues.Share, err = c.ShareOf(ctx, experiment)
	}
	return client.StartWorkflowOptions{
		ID:                       ExperimentWorkflowID(experiment),
		TaskQueue:                queues.Experiment(),
		WorkflowTaskTimeout:      ExperimentTaskTimeout,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		StaticSummary:            summaryOf(experiment, command),
		StaticDetails:            detailsOf(experiment),
	}, err
}

// End asks a trial to end and returns once that is durable, or ErrNotDriven.
func (c Client) End(ctx context.Context, experiment string, sequence int, ending Ending) error {
	handle, err := c.Temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: TrialWorkflowID(experiment, sequence), UpdateName: UpdateEnd, Args: []any{ending},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(ctx, nil)
	}
	return driven(err)
}

// Overview asks an experiment's workflow how it sees its experiment.
func (c Client) Overview(ctx context.Context, experiment string) (overview Overview, err error) {
	answer, err := c.Temporal.QueryWorkflow(ctx, ExperimentWorkflowID(experiment), "", QueryState)
	if err == nil {
		err = answer.Get(&overview)
	}
	return overview, err
}

// Start implements activities.TrialWorkflows.
func (c Client) Start(ctx context.Context, start activities.Start) error {
	story := storyOf(start)
	options := client.StartWorkflowOptions{
		ID:                       TrialWorkflowID(start.Experiment, start.Sequence),
		TaskQueue:                start.Queue,
		WorkflowTaskTimeout:      TaskTimeout,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		StaticSummary:            story.summary, StaticDetails: story.details, Memo: story.memo, TypedSearchAttributes: story.attributes,
	}
	_, err := c.Temporal.ExecuteWorkflow(ctx, options, TrialType, inputOf(start))
	return err
}

func inputOf(start activities.Start) TrialInput {
	return TrialInput{Experiment: start.Experiment, Sequence: start.Sequence, Platform: start.Platform, Searchable: start.Searchable}
}

// EarlyStop takes a decision to a trial's workflow. It is no error if there is
// none: the sweeper repeats what was missed.
func (c Client) EarlyStop(ctx context.Context, key trial.Key, decision trial.Decision) error {
	ending := Ending{Cause: decision.Cause, Decision: decision.ID, Reason: decision.Reason}
	err := c.Temporal.SignalWorkflow(ctx, TrialWorkflowID(key.Experiment, key.Sequence), "", SignalEarlyStop, ending)
	if errors.Is(driven(err), ErrNotDriven) {
		return nil
	}
	return err
}

func driven(err error) error {
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return ErrNotDriven
	}
	return err
}
