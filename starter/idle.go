package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// idleVariable says after how long a host in the background ends that has nothing to do,
// such as "20m"; "0" lets it stay.
const idleVariable = "PERENNIAL_IDLE_LIMIT"

const (
	idleLimit = time.Hour
	idleLook  = time.Minute
)

func idleLimitOf(value string) (time.Duration, error) {
	if value == "" {
		return idleLimit, nil
	}
	limit, err := time.ParseDuration(value)
	if err != nil || limit < 0 {
		return 0, fmt.Errorf("$%s is %q: write a duration such as 20m, or 0 to let the host stay", idleVariable, value)
	}
	return limit, nil
}

// idleness knows since when a host has had nothing to do.
type idleness struct {
	idle  func(context.Context) (bool, error)
	limit time.Duration
}

// await returns when there was nothing to do for as long as the limit says, or the
// context ends.
func (i idleness) await(ctx context.Context) {
	ticker := time.NewTicker(min(idleLook, max(i.limit/4, time.Millisecond)))
	defer ticker.Stop()
	for since := time.Now(); time.Since(since) < i.limit; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if idle, err := i.idle(ctx); err != nil || !idle {
			since = time.Now()
		}
	}
}

// untilIdle is a context that ends, beside the given one, once a host in the background
// has had nothing to do for so long that nobody will miss it: the next command that
// needs a host starts one. say is told before.
func untilIdle(ctx context.Context, idle func(context.Context) (bool, error), say func(limit time.Duration)) (context.Context, context.CancelFunc, error) {
	limit, err := idleLimitOf(os.Getenv(idleVariable))
	ctx, cancel := context.WithCancel(ctx)
	if err != nil || limit == 0 {
		return ctx, cancel, err
	}
	go func() {
		idleness{idle, limit}.await(ctx)
		if ctx.Err() == nil {
			say(limit)
			cancel()
		}
	}()
	return ctx, cancel, nil
}
