package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/record"
)

// mayHaveForgotten tells whether the record must learn what its platforms know before
// anything is asked by it: it may come from a backup. Of an experiment that does not
// run nothing is asked.
func (e *experimentRun) mayHaveForgotten(status record.Status) bool {
	return !e.taken && (e.behind || !e.accepted && status == record.Running)
}

// takeIn has the record learn what runs on the experiment's platforms. Somebody's
// command is heard meanwhile: then it is begun again from the record.
func (e *experimentRun) takeIn(seen int) error {
	ready := 0
	for index, queue := range e.Queues {
		workflow.Go(e.ctx, func(ctx workflow.Context) {
			unread := 0
			request := activities.TakeInRequest{Experiment: e.id, Index: index}
			_ = workflow.ExecuteActivity(forTakingIn(ctx, queue, e.behind), do.TakeIn, request).Get(ctx, &unread)
			e.Unread = e.Unread || unread > 0
			ready++
		})
	}
	err := workflow.Await(e.ctx, func() bool { return ready == len(e.Queues) || e.commands > seen && e.quiet() })
	e.taken = ready == len(e.Queues)
	if err != nil || !e.taken || !e.behind {
		return err
	}
	return e.noteBehind()
}

// noteBehind puts on record that it came from a backup.
func (e *experimentRun) noteBehind() error {
	info := workflow.GetInfo(e.ctx)
	id := fmt.Sprintf("behind-%s-%d", info.WorkflowExecution.RunID, info.GetCurrentHistoryLength())
	ctx := onRecord(e.ctx, "note that the record came from a backup")
	err := workflow.ExecuteLocalActivity(ctx, do.NoteBehind, e.id, id, e.knew).Get(e.ctx, nil)
	if forgotten(err) {
		return nil // the next look at the record finds that
	}
	return err
}

// takeInLate goes on to ask machines that could not be reached. What they tell comes
// by the log.
func (e *experimentRun) takeInLate() {
	if !e.Unread {
		return
	}
	left := len(e.Queues)
	for index, queue := range e.Queues {
		workflow.Go(e.ctx, func(ctx workflow.Context) {
			request := activities.TakeInRequest{Experiment: e.id, Index: index, Insist: true}
			_ = workflow.ExecuteActivity(forTakingIn(ctx, queue, true), do.TakeIn, request).Get(ctx, nil)
			left--
			e.Unread = left > 0
		})
	}
}
