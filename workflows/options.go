package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/perennial-ml/perennial/activities"
)

// Every timeout and retry policy, each with its reason.
const (
	// TaskTimeout is short because a workflow task in flight at a crash stalls
	// the restart for as long.
	TaskTimeout = 2 * time.Second
	// ExperimentTaskTimeout leaves time to replay a whole run on a busy machine,
	// and a restart within its ten seconds.
	ExperimentTaskTimeout = 4 * time.Second
	// recordTimeout bounds one write to the record: a full disk shows within it,
	// and is tried again for ever.
	recordTimeout = 30 * time.Second
	// prepareTimeout is for the upload of a whole code directory.
	prepareTimeout = 30 * time.Minute
	// takeInTimeout is short: a host that comes back has to drive within its ten seconds.
	takeInTimeout = 5 * time.Second
	// longTimeout is for activities that last as long as a trial or an
	// experiment; their heartbeat tells sooner that nobody runs them.
	longTimeout = 10 * 365 * 24 * time.Hour
)

// takeInPauses are how long a trial that the record does not know waits for its
// experiment, which looks at all platforms meanwhile. One that ended at once would be
// gone when the experiment, which takes it for running, has it known.
var takeInPauses = []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 15 * time.Second}

// patient retries for ever: neither the record nor a platform that is away is a
// reason to give up a trial.
func patient() *temporal.RetryPolicy {
	return &temporal.RetryPolicy{InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 15 * time.Second}
}

// onRecord runs an activity that touches only the record, in this worker.
func onRecord(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: recordTimeout, RetryPolicy: patient(), Summary: summary,
	})
}

// onPlatform runs a short platform verb, beside what runs on the trial's own queue.
func onPlatform(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: Verbs(workflow.GetInfo(ctx).TaskQueueName), StartToCloseTimeout: activities.PlatformTimeout, RetryPolicy: patient(), Summary: summary,
	})
}

// forPreparing runs a platform verb of minutes where the platform's workers are.
func forPreparing(ctx workflow.Context, queue string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: Verbs(queue), StartToCloseTimeout: prepareTimeout, RetryPolicy: patient(), Summary: "prepare the code directory",
	})
}

// forTakingIn runs the activity that looks at a platform's runs where the platform's
// workers are. A record that is known to come from a backup must have its answer. Else
// a platform that is away keeps nobody waiting.
func forTakingIn(ctx workflow.Context, queue string, must bool) workflow.Context {
	options := workflow.ActivityOptions{
		TaskQueue: Verbs(queue), StartToCloseTimeout: prepareTimeout, RetryPolicy: patient(), Summary: "look for runs that the record does not know",
	}
	if !must {
		options.ScheduleToCloseTimeout = takeInTimeout
	}
	return workflow.WithActivityOptions(ctx, options)
}

// forLong runs an activity that waits, under heartbeats, on the workflow's own queue.
func forLong(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: longTimeout, HeartbeatTimeout: activities.HeartbeatTimeout,
		RetryPolicy: patient(), Summary: summary,
	})
}
