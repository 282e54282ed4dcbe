package poller

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/trial"
)

// Survive calls a verb of a platform's and makes a Transient error of its panic, which
// would end the host and all experiments' work with it. What the platform does in
// goroutines of its own is its own to guard.
func Survive(logger *slog.Logger, verb string, call func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			logger.Error("a platform panicked", "verb", verb, "cause", cause, "stack", string(debug.Stack()))
			err = &platforms.Error{Code: platforms.Transient, Verb: verb,
				Err: fmt.Errorf("the platform's own code failed, and the host's log says where: %v", cause)}
		}
	}()
	return call()
}

// guarded is a platform of which no panic gets out. Optional verbs are asked of the
// platform inside, see Optional.
type guarded struct {
	platforms.Platform
	name   string
	logger *slog.Logger
}

// Optional returns the optional verbs T of a section's platform, where it has them.
// Their caller guards them by Survive.
func Optional[T any](platform platforms.Platform) (verbs T, can bool) {
	if inside, is := platform.(guarded); is {
		platform = inside.Platform
	}
	verbs, can = platform.(T)
	return verbs, can
}

// timed calls a verb, survives it and notes how long it took and how it ended.
func (g guarded) timed(verb string, call func() error) error {
	begun := time.Now()
	err := Survive(g.logger, verb, call)
	verbSeconds.WithLabelValues(g.name, verb, outcome(err)).Observe(time.Since(begun).Seconds())
	return err
}

// Prepare implements platforms.Platform, as the other verbs do.
func (g guarded) Prepare(ctx context.Context, bundle platforms.Bundle) (made platforms.Workspace, err error) {
	err = g.timed("prepare", func() (err error) {
		made, err = g.Platform.Prepare(ctx, bundle)
		return err
	})
	return made, err
}

func (g guarded) Submit(ctx context.Context, job platforms.Job) (handle platforms.Handle, err error) {
	err = g.timed("submit", func() (err error) {
		handle, err = g.Platform.Submit(ctx, job)
		return err
	})
	return handle, err
}

func (g guarded) Poll(ctx context.Context, questions []platforms.Question) (reports []platforms.Report, err error) {
	err = g.timed("poll", func() (err error) {
		reports, err = g.Platform.Poll(ctx, questions)
		return err
	})
	return reports, err
}

func (g guarded) List(ctx context.Context, keys ...trial.Key) (handles []platforms.Handle, err error) {
	err = g.timed("list", func() (err error) {
		handles, err = g.Platform.List(ctx, keys...)
		return err
	})
	return handles, err
}

func (g guarded) Cancel(ctx context.Context, handle platforms.Handle, intent trial.Intent) error {
	return g.timed("cancel", func() error { return g.Platform.Cancel(ctx, handle, intent) })
}

func (g guarded) Collect(ctx context.Context, handle platforms.Handle, after platforms.Cursor) (records []metrics.Record, next platforms.Cursor, err error) {
	next = after
	err = g.timed("collect", func() (err error) {
		records, next, err = g.Platform.Collect(ctx, handle, after)
		return err
	})
	return records, next, err
}

func (g guarded) Close() error {
	return Survive(g.logger, "close", g.Platform.Close)
}
