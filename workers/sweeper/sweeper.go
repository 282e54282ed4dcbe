// Package sweeper mends what Terminate, Reset, retention, a deleted Temporal
// database or a crash between two steps left behind. It compares the record with
// Temporal and with the platforms, looks at the record last, and so needs one
// look only; everything it does is harmless when it was not needed.
package sweeper

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/activities/poller"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/workflows"
)

// Every is how often the sweeper looks.
const Every = time.Minute

// Sweeper is one host's sweeper.
type Sweeper struct {
	Record    *record.Store
	Workflows workflows.Client
	Sections  *poller.Sections
	// RemoveFiles is activities.Activities.RemoveFiles.
	RemoveFiles func(ctx context.Context, experiment string, removal trial.Removal) error
	Namespace   string // Temporal's
	Logger      *slog.Logger
	soon        [2]chan struct{} // for each of the looks
}

// New returns a sweeper; Run makes it work.
func New(parts Sweeper) *Sweeper {
	for i := range parts.soon {
		parts.soon[i] = make(chan struct{}, 1)
	}
	return &parts
}

// looks are what a sweep is made of. Machines that hang can hold up the second for
// minutes, and must not the first.
func (s *Sweeper) looks() [2]func(context.Context) error {
	return [...]func(context.Context) error{s.atTemporal, s.atPlatforms}
}

// Soon has Run look without waiting for the interval's end.
func (s *Sweeper) Soon() {
	for _, soon := range s.soon {
		select {
		case soon <- struct{}{}:
		default:
		}
	}
}

// Run sweeps at once, then every interval and when Soon is called, until ctx
// ends.
func (s *Sweeper) Run(ctx context.Context, every time.Duration) {
	var working sync.WaitGroup
	for i, look := range s.looks() {
		working.Go(func() { s.repeat(ctx, every, s.soon[i], look) })
	}
	working.Wait()
}

func (s *Sweeper) repeat(ctx context.Context, every time.Duration, soon <-chan struct{}, look func(context.Context) error) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if err := look(ctx); err != nil && ctx.Err() == nil {
			s.Logger.Warn("sweep", "error", err)
		}
		select {
		case <-ticker.C:
		case <-soon:
		case <-ctx.Done():
			return
		}
	}
}

// Sweep looks once at everything. What it could not look at is in the error; the
// rest was swept all the same.
func (s *Sweeper) Sweep(ctx context.Context) error {
	var failures []error
	for _, look := range s.looks() {
		failures = append(failures, look(ctx))
	}
	return errors.Join(failures...)
}

// atTemporal sees to it that everything that is not over is driven.
func (s *Sweeper) atTemporal(ctx context.Context) error {
	active, err := s.Record.Active(ctx)
	if err != nil {
		return err
	}
	return errors.Join(each(active, func(id string) error { return s.drive(ctx, id) }), s.decisions(ctx))
}

// atPlatforms ends and removes what nobody needs any more.
func (s *Sweeper) atPlatforms(ctx context.Context) error {
	active, err := s.Record.Active(ctx)
	if err != nil {
		return err
	}
	var failures []error
	for name := range s.Sections.Registry() {
		if s.Sections.Serves(name) {
			failures = append(failures, s.leftovers(ctx, name))
		}
	}
	s.Sections.Retain(active, idleFor)
	return errors.Join(append(failures, s.cleanUp(ctx), s.remove(ctx))...)
}

// idleFor is how long a section stays open that nobody needs: longer than a sweep takes,
// since an experiment may have begun meanwhile, and than any try at a platform.
const idleFor = 15 * time.Minute

// cleanUp has what experiments have left on their platforms removed when they are over.
func (s *Sweeper) cleanUp(ctx context.Context) error {
	over, err := s.Record.Leftover(ctx)
	return errors.Join(err, each(over, func(id string) error {
		return activities.CleanUp(ctx, s.Record, s.Sections, id)
	}))
}

// drive sees to it that an active experiment has a workflow, and so has every
// trial of it that was started and is not settled.
func (s *Sweeper) drive(ctx context.Context, id string) error {
	open, err := s.open(ctx, workflows.ExperimentWorkflowID(id))
	if err != nil {
		return err
	}
	if !open {
		return s.restart(ctx, id)
	}
	begun, err := s.begun(ctx, id)
	return errors.Join(err, each(begun, func(n int) error { return s.driveTrial(ctx, id, n) }))
}

// begun are the unsettled trials whose workflow has begun: those with an attempt, and
// of the others those that the experiment itself has seen begin. All the rest wait for
// a slot, or for a busy Temporal, however long: a word about them would be one more
// burden to it.
func (s *Sweeper) begun(ctx context.Context, id string) (begun []int, err error) {
	unsettled, err := s.Record.Unsettled(ctx, id)
	if err != nil {
		return nil, err
	}
	live, err := s.Record.Live(ctx, id)
	if err != nil {
		return nil, err
	}
	if len(live) == len(unsettled) {
		return unsettled, nil
	}
	seen, err := s.seenToBegin(ctx, id)
	return slices.DeleteFunc(unsettled, func(n int) bool { return !live[n] && !seen[n] }), err
}

// answerWithin bounds how long a sweep waits for an experiment's own word, which comes
// after all that the experiment has to do just then.
const answerWithin = 10 * time.Second

// seenToBegin asks an experiment's workflow.
func (s *Sweeper) seenToBegin(ctx context.Context, id string) (map[int]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	overview, err := s.Workflows.Overview(ctx, id)
	seen := map[int]bool{}
	for _, n := range overview.Open {
		seen[n] = true
	}
	for _, n := range overview.Starting {
		delete(seen, n)
	}
	return seen, err
}

// restart starts an experiment's workflow, unless the record, asked last, says
// that the experiment has come to its end meanwhile.
func (s *Sweeper) restart(ctx context.Context, id string) error {
	row, err := s.Record.Experiment(ctx, id)
	if err != nil || !row.Status.Active() {
		return err
	}
	s.Logger.Info("starting the workflow of an active experiment that has none", "experiment", id)
	return s.Workflows.Drive(ctx, id)
}

func (s *Sweeper) driveTrial(ctx context.Context, id string, n int) error {
	open, err := s.open(ctx, workflows.TrialWorkflowID(id, n))
	if err != nil || open {
		return err
	}
	_, err = s.Record.Append(ctx, id, trial.Event{Kind: trial.KindUndriven, Sequence: n})
	if errors.Is(err, record.ErrSettled) {
		return nil
	}
	return err
}

// open tells whether a workflow runs, by Describe: visibility lags.
func (s *Sweeper) open(ctx context.Context, id string) (bool, error) {
	description, err := s.Workflows.Temporal.DescribeWorkflowExecution(ctx, id, "")
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return description.WorkflowExecutionInfo.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
}

// decisions repeats the decisions that nobody has carried out yet.
func (s *Sweeper) decisions(ctx context.Context) error {
	open, err := s.Record.OpenDecisions(ctx)
	if err != nil {
		return err
	}
	return each(open, func(d record.Decision) error { return s.Workflows.EarlyStop(ctx, d.Key, d.Decision) })
}

// leftovers ends what still runs although its attempt is over: superseded, or of
// a trial that was settled or stopped meanwhile.
func (s *Sweeper) leftovers(ctx context.Context, name string) error {
	attempts, err := s.Record.OpenAttempts(ctx, name)
	if err != nil {
		return err
	}
	over := slices.DeleteFunc(attempts, func(a record.Attempt) bool { return a.Outcome == "" })
	return each(over, func(a record.Attempt) error { return s.end(ctx, a) })
}

// atOnce bounds how many things are looked after at the same time: what does not
// answer keeps nobody else's waiting, and all of them would keep the host from work.
const atOnce = 16

// each looks after some things and returns all that failed.
func each[T any](things []T, lookAfter func(T) error) error {
	failures, slots := make([]error, len(things)), make(chan struct{}, atOnce)
	var working sync.WaitGroup
	for i, thing := range things {
		slots <- struct{}{}
		working.Go(func() {
			failures[i] = lookAfter(thing)
			<-slots
		})
	}
	working.Wait()
	return errors.Join(failures...)
}

func (s *Sweeper) end(ctx context.Context, attempt record.Attempt) error {
	platform, err := s.Sections.Of(ctx, attempt.Key.Experiment, attempt.Key.Sequence)
	if err != nil {
		return err
	}
	handle, err := activities.HandleOf(attempt)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, activities.PlatformTimeout)
	defer cancel()
	return platform.Cancel(ctx, handle, trial.Intent{Cause: trial.CauseSuperseded})
}
