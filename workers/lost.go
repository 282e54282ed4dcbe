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
	// looks bounds how many trials without an activity here are looked at each time.
	looks = 50
)

// arrivals knows which activities run in this process.
type arrivals struct {
	interceptor.WorkerInterceptorBase
	mu      sync.Mutex
	running map[string]map[string]int // workflow id → activity id → how often
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
		a.arrivals.add(info.WorkflowExecution.ID, info.ActivityID, 1)
		defer a.arrivals.add(info.WorkflowExecution.ID, info.ActivityID, -1)
	}
	return a.Next.ExecuteActivity(ctx, in)
}

func (a *arrivals) add(workflowID, activityID string, change int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running == nil {
		a.running = map[string]map[string]int{}
	}
	here := a.running[workflowID]
	if here == nil {
		here = map[string]int{}
		a.running[workflowID] = here
	}
	if here[activityID] += change; here[activityID] == 0 {
		delete(here, activityID)
	}
	if len(here) == 0 {
		delete(a.running, workflowID)
	}
}

// any tells whether an activity of the workflow runs here.
func (a *arrivals) any(workflowID string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.running[workflowID]) > 0
}

// has tells whether this activity of the workflow runs here.
func (a *arrivals) has(workflowID, activityID string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.running[workflowID][activityID] > 0
}

// recoverLost has activities run again that Temporal gave to this process and that
// never arrived, or whose result never arrived there: it died, or its answer to the
// workflow task that asked for them was lost. It would wait for their heartbeats for
// a minute.
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
	silent := slices.DeleteFunc(trials, w.arrivals.any)
	for _, id := range slices.Concat(experiments, silent[:min(looks, len(silent))]) {
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
		if !ours || activity.State != enumspb.PENDING_ACTIVITY_STATE_STARTED || w.arrivals.has(workflowID, activity.ActivityId) {
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
