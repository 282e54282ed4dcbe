package workers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
)

const (
	// lostAfter is how long an activity may be on its way from Temporal to here,
	// or its result on the way back.
	lostAfter = 5 * time.Second
	// looks bounds how many workflows are looked at every so often.
	looks = 50
)

// arrivals knows which activities run in this process.
type arrivals struct {
	interceptor.WorkerInterceptorBase
	mu      sync.Mutex
	running map[string]int // activities by workflow id
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (a *arrivals) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &arriving{interceptor.ActivityInboundInterceptorBase{Next: next}, a}
}

// arriving notes each activity for as long as it runs.
type arriving struct {
	interceptor.ActivityInboundInterceptorBase
	arrivals *arrivals
}

// ExecuteActivity implements interceptor.ActivityInboundInterceptor.
func (a *arriving) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := activity.GetInfo(ctx)
	if !info.IsLocalActivity {
		a.arrivals.add(info.WorkflowExecution.ID, 1)
		defer a.arrivals.add(info.WorkflowExecution.ID, -1)
	}
	return a.Next.ExecuteActivity(ctx, in)
}

func (a *arrivals) add(workflowID string, change int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running == nil {
		a.running = map[string]int{}
	}
	a.running[workflowID] += change
	if a.running[workflowID] == 0 {
		delete(a.running, workflowID)
	}
}

// any tells whether an activity of the workflow runs here.
func (a *arrivals) any(workflowID string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.running[workflowID] > 0
}

// recoverLost has activities run again that Temporal gave to this process and that
// never arrived, or whose result never arrived there. A Temporal of others that
// dies loses such, and would wait for their heartbeats for a minute.
func (w *Workers) recoverLost(ctx context.Context) {
	ticker := time.NewTicker(lostAfter)
	defer ticker.Stop()
	suspects := map[string]bool{}
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		var err error
		if suspects, err = w.failLost(ctx, suspects); err != nil && ctx.Err() == nil {
			w.options.Logger.Warn("look for lost activities", "error", err)
		}
	}
}

// failLost fails the suspects of the last look that still run nowhere, and returns
// those of this one.
func (w *Workers) failLost(ctx context.Context, before map[string]bool) (suspects map[string]bool, err error) {
	suspects = map[string]bool{}
	experiments, trials, err := w.driven(ctx)
	if err != nil {
		return suspects, err
	}
	looked := 0
	for _, id := range slices.Concat(experiments, trials) {
		if w.arrivals.any(id) || looked == looks {
			continue
		}
		looked++
		if err := w.failLostIn(ctx, id, before, suspects); err != nil {
			return suspects, err
		}
	}
	return suspects, nil
}

func (w *Workers) failLostIn(ctx context.Context, workflowID string, before, suspects map[string]bool) error {
	pending, err := w.pending(ctx, workflowID)
	if err != nil {
		return err
	}
	for _, activity := range pending {
		// One of the last host's may show up late, from a Temporal that was down when
		// this host began.
		ours := activity.LastWorkerIdentity == Identity(w.options.StateID, w.options.Nonce) || w.orphaned(activity)
		if !ours || activity.State != enumspb.PENDING_ACTIVITY_STATE_STARTED || w.arrivals.any(workflowID) {
			continue
		}
		suspect := fmt.Sprint(workflowID, " ", activity.ActivityId, " ", activity.Attempt)
		if !before[suspect] {
			suspects[suspect] = true
			continue
		}
		w.options.Logger.Info("an activity was lost on its way; having it run again", "workflow", workflowID, "type", activity.ActivityType.GetName())
		if err := w.fail(ctx, workflowID, activity.ActivityId); err != nil {
			return err
		}
	}
	return nil
}
