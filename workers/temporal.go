package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/perennial-ml/perennial/workflows"
)

// askAgain is the time between two looks for a Temporal that is away.
const askAgain = time.Second

// awaitTemporal returns once Temporal answers and has the namespace, or when ctx
// ends. A Temporal of others may be down longer than this host.
func (w *Workers) awaitTemporal(ctx context.Context) error {
	said := ""
	for {
		err := Reach(ctx, w.options.Client, w.options.Namespace)
		if err == nil {
			return nil
		}
		if text := err.Error(); text != said && ctx.Err() == nil {
			w.options.Logger.Warn("waiting for Temporal", "error", text)
			said = text
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(askAgain):
		}
	}
}

// Reach says in plain words why Temporal cannot be worked with.
func Reach(ctx context.Context, temporal client.Client, namespace string) error {
	_, err := temporal.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	var missing *serviceerror.NamespaceNotFound
	var absent *serviceerror.NotFound
	var denied *serviceerror.PermissionDenied
	switch {
	case errors.As(err, &missing), errors.As(err, &absent):
		return fmt.Errorf("the Temporal namespace %q does not exist: make it with \"temporal operator namespace create %s\", "+
			"or name another one by TEMPORAL_NAMESPACE", namespace, namespace)
	case errors.As(err, &denied):
		return fmt.Errorf("the Temporal namespace %q is refused: TEMPORAL_API_KEY or the certificates allow too little: %w", namespace, err)
	}
	return err
}

// alive is how long ago a worker that lives has polled at the most: a poll lasts
// a minute.
const alive = 70 * time.Second

// Unpolled returns the first of the queues from which the worker of an identity
// takes no activities, empty where there is none.
func Unpolled(ctx context.Context, temporal client.Client, identity string, queues []string) (string, error) {
	for _, queue := range queues {
		pollers, err := pollersOf(ctx, temporal, queue, enumspb.TASK_QUEUE_TYPE_ACTIVITY)
		if err != nil {
			return "", err
		}
		if !slices.Contains(pollers, identity) {
			return queue, nil
		}
	}
	return "", nil
}

// pollersOf are the identities of the workers that poll a queue of some kinds.
func pollersOf(ctx context.Context, temporal client.Client, queue string, kinds ...enumspb.TaskQueueType) (identities []string, err error) {
	polled, err := polledAs(ctx, temporal, queue, kinds...)
	for identity, last := range polled {
		if time.Since(last) < alive {
			identities = append(identities, identity)
		}
	}
	return identities, err
}

// Polled tells when each worker, by its identity, last asked Temporal for the work of a
// queue. Temporal forgets one that is gone after some minutes.
func Polled(ctx context.Context, temporal client.Client, queue string) (map[string]time.Time, error) {
	return polledAs(ctx, temporal, queue, enumspb.TASK_QUEUE_TYPE_WORKFLOW, enumspb.TASK_QUEUE_TYPE_ACTIVITY)
}

func polledAs(ctx context.Context, temporal client.Client, queue string, kinds ...enumspb.TaskQueueType) (map[string]time.Time, error) {
	last := map[string]time.Time{}
	for _, kind := range kinds {
		answer, err := temporal.DescribeTaskQueue(ctx, queue, kind)
		if err != nil {
			return nil, err
		}
		for _, poller := range answer.GetPollers() {
			if at := poller.GetLastAccessTime().AsTime(); at.After(last[poller.GetIdentity()]) {
				last[poller.GetIdentity()] = at
			}
		}
	}
	return last, nil
}

// SharedError says that another state directory works on the same record.
type SharedError struct{ Record, Identity string }

// Error says what to do about it.
func (e *SharedError) Error() string {
	return fmt.Sprintf("another host (%s) works on record %s at this Temporal: the record lies on one machine, "+
		"and a copy of it must not run beside it. End that host first (starter serve --stop, there) and try again "+
		"a minute later; several machines need a shared record, in PostgreSQL: docs/outgrow.md", e.Identity, e.Record)
}

// Alone returns a SharedError where a host of another state directory works on
// the record.
func Alone(ctx context.Context, temporal client.Client, record, stateID string) error {
	identities, err := pollersOf(ctx, temporal, workflows.Queues{Record: record}.Experiment(),
		enumspb.TASK_QUEUE_TYPE_WORKFLOW, enumspb.TASK_QUEUE_TYPE_ACTIVITY)
	if err != nil {
		return err
	}
	for _, identity := range identities {
		if !strings.HasPrefix(identity, stateID+"/") {
			return &SharedError{Record: record, Identity: identity}
		}
	}
	return nil
}
