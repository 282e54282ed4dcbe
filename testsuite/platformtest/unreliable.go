package platformtest

import (
	"context"
	"sync"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/trial"
)

// Faults are what a network does to calls.
type Faults struct {
	LostAnswers int  // of each verb, so many answers are lost after the call did its work
	Timeouts    int  // so many calls of each verb never reach the platform
	Duplicates  bool // every call arrives twice
}

// UnreliablePlatform is a platform behind a bad network.
type UnreliablePlatform struct {
	platforms.Platform
	inner  platforms.Platform
	faults Faults
	lock   sync.Mutex
	calls  map[string]int
}

// Unreliable puts a platform behind a bad network. What fails is Transient.
func Unreliable(platform platforms.Platform, faults Faults) *UnreliablePlatform {
	return &UnreliablePlatform{Platform: platform, inner: platform, faults: faults, calls: map[string]int{}}
}

// through carries one call. Time-outs come first, then lost answers.
func (u *UnreliablePlatform) through(verb string, call func() error) error {
	u.lock.Lock()
	u.calls[verb]++
	count := u.calls[verb]
	u.lock.Unlock()
	if count <= u.faults.Timeouts {
		return platforms.Errorf(platforms.Transient, verb, "timed out: %w", context.DeadlineExceeded)
	}
	err := call()
	if u.faults.Duplicates {
		err = call()
	}
	if err == nil && count <= u.faults.Timeouts+u.faults.LostAnswers {
		return platforms.Errorf(platforms.Transient, verb, "the answer was lost")
	}
	return err
}

// Submit implements platforms.Platform.
func (u *UnreliablePlatform) Submit(ctx context.Context, job platforms.Job) (handle platforms.Handle, err error) {
	err = u.through("submit", func() error {
		handle, err = u.inner.Submit(ctx, job)
		return err
	})
	return handle, err
}

// Poll implements platforms.Platform.
func (u *UnreliablePlatform) Poll(ctx context.Context, questions []platforms.Question) (reports []platforms.Report, err error) {
	err = u.through("poll", func() error {
		reports, err = u.inner.Poll(ctx, questions)
		return err
	})
	return reports, err
}

// List implements platforms.Platform.
func (u *UnreliablePlatform) List(ctx context.Context, keys ...trial.Key) (handles []platforms.Handle, err error) {
	err = u.through("list", func() error {
		handles, err = u.inner.List(ctx, keys...)
		return err
	})
	return handles, err
}

// Cancel implements platforms.Platform.
func (u *UnreliablePlatform) Cancel(ctx context.Context, handle platforms.Handle, intent trial.Intent) error {
	return u.through("cancel", func() error { return u.inner.Cancel(ctx, handle, intent) })
}

// Collect implements platforms.Platform.
func (u *UnreliablePlatform) Collect(ctx context.Context, handle platforms.Handle, after platforms.Cursor) (records []metrics.Record, cursor platforms.Cursor, err error) {
	err = u.through("collect", func() error {
		records, cursor, err = u.inner.Collect(ctx, handle, after)
		return err
	})
	return records, cursor, err
}
