package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"
)

// idleVariable says after how long a host in the background ends that has nothing to do,
// such as "20m"; "0" lets it stay.
const idleVariable = "PERENNIAL_IDLE_LIMIT"

const (
	idleLimit = time.Hour
	idleLook  = time.Minute
)

// idleLimitOf is the limit of a host, 0 where it stays: in the foreground it always does.
func idleLimitOf(background bool, value string) (time.Duration, error) {
	if !background {
		return 0, nil
	}
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

// untilIdle is a context that ends, beside the given one, once a host has had nothing to
// do for so long that nobody will miss it: the next command that needs a host starts one.
// say is told before. A limit of 0 is none.
func untilIdle(ctx context.Context, limit time.Duration, idle func(context.Context) (bool, error), say func()) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if limit == 0 {
		return ctx, cancel
	}
	go func() {
		idleness{idle, limit}.await(ctx)
		if ctx.Err() == nil {
			say()
			cancel()
		}
	}()
	return ctx, cancel
}

// rest has a host with nothing to do run on one processor, unless the user has said on
// how many: most of what its few regular looks cost is waking threads on the others.
func rest(resting bool) {
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	if resting {
		runtime.GOMAXPROCS(1)
		return
	}
	runtime.SetDefaultGOMAXPROCS()
}
