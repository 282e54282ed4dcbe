package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// Types of application errors, for people who read them in the Web UI. All are
// worth another try but the last two.
const (
	// ErrorWorkerStopped ends a long activity whose worker goes away: the next
	// worker takes it up at once.
	ErrorWorkerStopped = "worker-stopped"
	// ErrorPlatform is a platform's failure.
	ErrorPlatform = "platform"
	// ErrorTrialFailed is no error of anybody's: it is how an attempt whose trial
	// failed, or that was lost, looks like that in Temporal, which would show any
	// other outcome in green. It is benign, so it is counted as no failure, and the
	// workflow completes.
	ErrorTrialFailed = "trial-failed"
	// ErrorForgotten is about something that the record does not know: it came from a
	// backup that is older than the workflow, which begins again from the record. No
	// other try would change that.
	ErrorForgotten = "not-in-record"
)

// forgotten says to Temporal that the record does not know what a call is about;
// another error, and nil, stays what it is.
func forgotten(err error) error {
	if !errors.Is(err, record.ErrNotFound) && !errors.Is(err, record.ErrBehind) {
		return err
	}
	return temporal.NewApplicationErrorWithOptions(err.Error(), ErrorForgotten, temporal.ApplicationErrorOptions{
		NonRetryable: true,
		Category:     temporal.ApplicationErrorCategoryBenign,
	})
}

// trialFailed shows an attempt as failed. A reason goes into history in a line.
func trialFailed(reason trial.Reason) error {
	return temporal.NewApplicationErrorWithOptions(brief(reason).Text, ErrorTrialFailed, temporal.ApplicationErrorOptions{
		NonRetryable: true,
		Category:     temporal.ApplicationErrorCategoryBenign,
	})
}

// TrialFailed tells such an error from one that somebody must do something about.
func TrialFailed(err error) bool {
	var application *temporal.ApplicationError
	return errors.As(err, &application) && application.Type() == ErrorTrialFailed
}

// temporalError says to Temporal what a platform's error asks for; nil stays nil.
func temporalError(err error) error {
	if err == nil {
		return nil
	}
	return temporal.NewApplicationErrorWithOptions(err.Error(), ErrorPlatform, temporal.ApplicationErrorOptions{
		NextRetryDelay: platforms.AfterOf(err),
		Category:       temporal.ApplicationErrorCategoryBenign,
	})
}

// stopped is what a long activity returns when its worker stops.
func stopped() error {
	return temporal.NewApplicationErrorWithOptions("the worker stopped", ErrorWorkerStopped, temporal.ApplicationErrorOptions{
		NextRetryDelay: time.Millisecond,
		Category:       temporal.ApplicationErrorCategoryBenign,
	})
}

// alive runs work under heartbeats and gives up with a retryable error as soon
// as the worker stops.
func alive(ctx context.Context, work func(context.Context) error) error {
	return aliveTelling(ctx, func() any { return nil }, work)
}

// aliveTelling is alive with heartbeats that carry what is told, for people who look at
// the activity in the Web UI; nil is nothing.
func aliveTelling(ctx context.Context, tell func() any, work func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	defer close(done)
	go beat(ctx, done, cancel, tell)
	err := work(ctx)
	if errors.Is(context.Cause(ctx), errWorkerStopped) {
		return stopped()
	}
	return err
}

var errWorkerStopped = errors.New("worker stopped")

func beat(ctx context.Context, done <-chan struct{}, cancel context.CancelCauseFunc, tell func() any) {
	ticker := time.NewTicker(HeartbeatEvery)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			heartbeat(ctx, tell())
		case <-activity.GetWorkerStopChannel(ctx):
			cancel(errWorkerStopped)
			return
		}
	}
}

func heartbeat(ctx context.Context, told any) {
	if told == nil {
		activity.RecordHeartbeat(ctx)
		return
	}
	activity.RecordHeartbeat(ctx, told)
}
