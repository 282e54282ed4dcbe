package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/workflowservice/v1"
)

const (
	// spare is how long a platform is served whole after the last experiment that needs
	// it: its trials' workflows have yet to close, and another one may follow.
	spare = 5 * time.Minute
	// serveEvery is how often is looked for platforms that nobody needs any more, and
	// serveAgain the pause before what could not be started is tried again.
	serveEvery = time.Minute
	serveAgain = 2 * time.Second
)

// serving starts and ends the workers of platforms as they are needed, since all that
// polls costs a host that has nothing to do. A platform that an unfinished experiment
// names, or of which Temporal has an open trial, is served whole. One that only finished ones name is served as far as people ask
// what became of their trials, or tell Temporal to do them again. Any other is not.
type serving struct {
	parts
	mu     sync.Mutex
	wanted map[string]time.Time // when somebody needed it, the last time
	wake   chan struct{}

	servers map[string]server // by platform; of run alone, and of end after it
	known   bool              // what the record names is in wanted
	begun   time.Time
	resting bool   // what rest was told
	said    string // what went wrong at the last look
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// parts are what serving works with.
type parts struct {
	named  func(context.Context) ([]string, error) // by any experiment on record
	needed func(context.Context) ([]string, error) // by the unfinished ones, or by open workflows
	// start starts the workers of a platform; what it returns stops them.
	start  func(platform string, whole bool) (stop func(), err error)
	rest   func(resting bool) // told when nothing was needed for a while, and when something is again
	logger *slog.Logger
	spare  time.Duration
}

// server is the workers of one platform.
type server struct {
	whole bool
	stop  func()
}

func newServing(parts parts) *serving {
	return &serving{parts: parts, wanted: map[string]time.Time{}, wake: make(chan struct{}, 1), servers: map[string]server{}}
}

// begin begins to serve what is needed; end ends that, in order.
func (s *serving) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.begun = cancel, time.Now()
	s.running.Go(func() { s.run(ctx) })
}

func (s *serving) end() {
	if s.cancel == nil {
		return
	}
	s.cancel()
	s.running.Wait()
	for _, server := range s.servers {
		server.stop()
	}
}

// want has a platform served whole from now on, also before the next look at the record.
func (s *serving) want(platform string) {
	s.note(time.Now(), platform)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// note notes when somebody needed some platforms, unless they were needed later.
func (s *serving) note(at time.Time, platforms ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range platforms {
		if before, known := s.wanted[name]; !known || before.Before(at) {
			s.wanted[name] = at
		}
	}
}

func (s *serving) run(ctx context.Context) {
	for ctx.Err() == nil {
		pause := serveEvery
		err := s.look(ctx)
		if err != nil {
			pause = serveAgain
		}
		s.complain(ctx, err)
		select {
		case <-time.After(pause):
		case <-s.wake:
		case <-ctx.Done():
		}
	}
}

// complain says what goes wrong, once.
func (s *serving) complain(ctx context.Context, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != s.said && ctx.Err() == nil {
		s.logger.Warn("look after the workers of platforms; trying again", "error", text)
	}
	s.said = text
}

// look starts and ends workers once. Where the record does not tell what is needed,
// nothing is ended.
func (s *serving) look(ctx context.Context) error {
	needed, err := s.needed(ctx)
	s.note(time.Now(), needed...)
	err = errors.Join(err, s.learn(ctx))
	failures := []error{err}
	wishes := s.wishes()
	s.settle(wishes, err)
	for platform, whole := range wishes {
		if ctx.Err() != nil {
			break
		}
		if err == nil || whole {
			failures = append(failures, s.serve(platform, whole))
		}
	}
	return errors.Join(failures...)
}

// learn takes over, once, what experiments on record name.
func (s *serving) learn(ctx context.Context) error {
	if s.known {
		return nil
	}
	named, err := s.named(ctx)
	s.note(time.Time{}, named...)
	s.known = err == nil
	return err
}

// wishes are the platforms to serve, and whether they are to be served whole.
func (s *serving) wishes() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	wishes := map[string]bool{}
	for platform, at := range s.wanted {
		wishes[platform] = time.Since(at) < s.spare
	}
	return wishes
}

// settle tells whether there is nothing to do, and has not been since a while.
func (s *serving) settle(wishes map[string]bool, unknown error) {
	needed := slices.Contains(slices.Collect(maps.Values(wishes)), true)
	resting := unknown == nil && !needed && time.Since(s.begun) >= s.spare
	if resting != s.resting {
		s.resting = resting
		s.rest(resting)
	}
}

// serve has a platform served as it should be.
func (s *serving) serve(platform string, whole bool) error {
	before, served := s.servers[platform]
	if served && before.whole == whole {
		return nil
	}
	if served {
		before.stop()
		delete(s.servers, platform)
	}
	stop, err := s.start(platform, whole)
	if err == nil {
		s.servers[platform] = server{whole, stop}
	}
	return err
}

// needed names the platforms of unfinished experiments, and of trials that are open in
// Temporal although no such experiment knows of them: the record may have forgotten
// theirs, or somebody has reset them.
func (w *Workers) needed(ctx context.Context) (platforms []string, err error) {
	active, err := w.options.Record.Active(ctx)
	for _, id := range active {
		of, failure := w.options.Sections.Platforms(ctx, id)
		platforms, err = append(platforms, of...), errors.Join(err, failure)
	}
	others := map[string]string{} // queue → platform
	for name := range w.options.Sections.Registry() {
		if !slices.Contains(platforms, name) {
			others[w.queue(name)] = name
		}
	}
	for len(others) > 0 && err == nil {
		var queue string
		if queue, err = w.open(ctx, others); queue == "" {
			break
		}
		platforms = append(platforms, others[queue])
		delete(others, queue)
	}
	return platforms, err
}

// open returns one of the queues that an open workflow is on, empty where there is none.
func (w *Workers) open(ctx context.Context, queues map[string]string) (string, error) {
	var quoted []string
	for queue := range queues {
		quoted = append(quoted, "'"+queue+"'")
	}
	found, err := w.options.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: w.options.Namespace, PageSize: 1,
		Query: fmt.Sprintf("ExecutionStatus = 'Running' AND TaskQueue IN (%s)", strings.Join(quoted, ", ")),
	})
	if err != nil || len(found.GetExecutions()) == 0 {
		return "", err
	}
	return found.GetExecutions()[0].GetTaskQueue(), nil
}
