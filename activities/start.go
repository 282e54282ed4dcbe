package activities

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/runner/rundir"
)

const (
	// startsAtOnce bounds the calls that start trials at the same time.
	startsAtOnce = 16
	// startTimeout bounds one such call. startAgain is the pause after one that failed.
	startTimeout = 5 * time.Second
	startAgain   = 200 * time.Millisecond
)

// startPatience is how long a round that has news waits for its starts: a Temporal that
// is slow with one of them keeps the others' ends from nobody.
var startPatience = 5 * time.Second

// starting are the starts of trials' workflows that a round has under way.
type starting struct {
	*Activities
	until  time.Time // when those that are late are handed back
	cancel context.CancelFunc
	over   chan struct{} // closed when nobody tries any more
	slots  chan struct{}

	mu   sync.Mutex
	late []int // not known to have been started
}

// begin begins to start the trials that a round is asked for.
func (a *Activities) begin(ctx context.Context, request RoundRequest) (*starting, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &starting{
		Activities: a, until: time.Now().Add(startPatience), cancel: cancel, over: make(chan struct{}),
		slots: make(chan struct{}, startsAtOnce), late: slices.Clone(request.Start),
	}
	var platforms []string
	if len(request.Start) > 0 {
		var err error
		if platforms, err = a.Sections.Platforms(ctx, request.Experiment); err != nil {
			cancel()
			return nil, err
		}
	}
	var all sync.WaitGroup
	for _, n := range request.Start {
		platform := platforms[n%len(platforms)]
		start := Start{request.Experiment, n, platform, a.Queue(platform), request.Searchable}
		all.Go(func() { s.insist(ctx, start) })
	}
	go func() { all.Wait(); close(s.over) }()
	return s, nil
}

// insist starts one trial, however often that takes, until ctx ends.
func (s *starting) insist(ctx context.Context, start Start) {
	for ctx.Err() == nil {
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		err := s.try(ctx, start)
		<-s.slots
		if err == nil {
			return
		}
		select {
		case <-time.After(startAgain):
		case <-ctx.Done():
		}
	}
}

func (s *starting) try(ctx context.Context, start Start) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	rundir.CrashPoint("round.asked-before-start")
	err := s.Workflows.Start(ctx, start)
	if err == nil {
		rundir.CrashPoint("round.started-before-answer")
		s.mu.Lock()
		defer s.mu.Unlock()
		s.late = slices.DeleteFunc(s.late, func(n int) bool { return n == start.Sequence })
	}
	return err
}

// handBack ends what is under way, at the latest when patience with it ends, and returns
// the trials that are still to be started. Some of those may have been: starting them
// again does no harm.
func (s *starting) handBack() []int {
	patience := time.NewTimer(time.Until(s.until))
	defer patience.Stop()
	select {
	case <-s.over:
	case <-patience.C:
	}
	s.cancel()
	<-s.over
	return s.late
}
