package workers

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	// looks bounds how many workflows that may lack an activity are looked at each
	// time, besides those that are known to, and describers how many at once.
	looks      = 50
	describers = 8
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
	search := search{Workers: w}
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if err := search.look(ctx); err != nil && ctx.Err() == nil {
			w.options.Logger.Warn("look for lost activities", "error", err)
		}
	}
}

// search looks for lost activities, in each look at some workflows, so that all have
// their turn.
type search struct {
	*Workers
	suspects map[string]string // activities that ran nowhere at the last look → their workflows
	turn     int
}

// look fails the suspects of the last look that still run nowhere, and finds others.
func (s *search) look(ctx context.Context) error {
	experiments, trials, err := s.driven(ctx)
	if err != nil {
		return err
	}
	before, some := s.suspects, s.choose(experiments, trials)
	s.suspects = map[string]string{}
	found, failures := make([]map[string]string, len(some)), make([]error, len(some))
	slots := make(chan struct{}, describers)
	var looking sync.WaitGroup
	for i, id := range some {
		slots <- struct{}{}
		looking.Go(func() {
			found[i], failures[i] = s.failLostIn(ctx, id, before)
			<-slots
		})
	}
	looking.Wait()
	for _, suspects := range found {
		maps.Copy(s.suspects, suspects)
	}
	return errors.Join(failures...)
}

// choose takes the workflows of suspects, experiments of which nothing runs here, and
// of the rest as many as there is room for, the next ones each time. A trial that has
// its activity here lacks none.
func (s *search) choose(experiments, trials []string) []string {
	chosen := slices.Collect(maps.Values(s.suspects))
	var rest []string
	for _, id := range experiments {
		if s.arrivals.any(id) {
			rest = append(rest, id)
		} else {
			chosen = append(chosen, id)
		}
	}
	rest = append(rest, slices.DeleteFunc(trials, s.arrivals.any)...)
	for range min(looks, len(rest)) {
		s.turn++
		chosen = append(chosen, rest[s.turn%len(rest)])
	}
	slices.Sort(chosen)
	return slices.Compact(chosen)
}

// failLostIn fails the lost activities of a workflow that were suspects before, and
// returns those that are.
func (s *search) failLostIn(ctx context.Context, workflowID string, before map[string]string) (suspects map[string]string, err error) {
	pending, err := s.pending(ctx, workflowID)
	suspects = map[string]string{}
	for _, activity := range pending {
		// One of the last host's may show up late, from a Temporal that was down when
		// this host began.
		ours := activity.LastWorkerIdentity == Identity(s.options.StateID, s.options.Nonce) || s.orphaned(activity)
		if !ours || activity.State != enumspb.PENDING_ACTIVITY_STATE_STARTED || s.arrivals.has(workflowID, activity.ActivityId) {
			continue
		}
		suspect := fmt.Sprint(workflowID, " ", activity.ActivityId, " ", activity.Attempt)
		if before[suspect] == "" {
			suspects[suspect] = workflowID
			continue
		}
		s.options.Logger.Info("an activity was lost on its way; having it run again", "workflow", workflowID, "type", activity.ActivityType.GetName())
		if err := s.fail(ctx, workflowID, activity.ActivityId); err != nil {
			return suspects, err
		}
	}
	return suspects, err
}
