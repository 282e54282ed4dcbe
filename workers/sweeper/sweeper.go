// Package sweeper mends what Terminate, Reset, retention, a deleted Temporal
// database or a crash between two steps left behind. It compares the record with
// Temporal and with the platforms, looks at the record last, and so needs one
// look only; everything it does is harmless when it was not needed.
package sweeper

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/perennial-ml/perennial/activities"
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
	Platforms map[string]activities.Platform
	Logger    *slog.Logger

	soon chan struct{}
}

// New returns a sweeper; Run makes it work.
func New(parts Sweeper) *Sweeper {
	parts.soon = make(chan struct{}, 1)
	return &parts
}

// Soon has Run look without waiting for the interval's end.
func (s *Sweeper) Soon() {
	select {
	case s.soon <- struct{}{}:
	default:
	}
}

// Run sweeps at once, then every interval and when Soon is called, until ctx
// ends.
func (s *Sweeper) Run(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.Logger.Warn("sweep", "error", err)
		}
		select {
		case <-ticker.C:
		case <-s.soon:
		case <-ctx.Done():
			return
		}
	}
}

// Sweep looks once at everything. What it could not look at is in the error; the
// rest was swept all the same.
func (s *Sweeper) Sweep(ctx context.Context) error {
	rows, err := s.Record.Experiments(ctx)
	if err != nil {
		return err
	}
	var failures []error
	for _, row := range rows {
		if row.Status.Active() {
			failures = append(failures, s.drive(ctx, row))
		}
	}
	failures = append(failures, s.decisions(ctx))
	for name, platform := range s.Platforms {
		failures = append(failures, s.leftovers(ctx, name, platform))
	}
	return errors.Join(failures...)
}

// drive sees to it that an active experiment has a workflow, and so has every
// trial of it that was started and is not settled.
func (s *Sweeper) drive(ctx context.Context, row record.Experiment) error {
	open, err := s.open(ctx, workflows.ExperimentWorkflowID(row.ID))
	if err != nil {
		return err
	}
	if !open {
		return s.restart(ctx, row.ID)
	}
	live, err := s.Record.Live(ctx, row.ID)
	if err != nil {
		return err
	}
	waiting, err := s.Record.Unsettled(ctx, row.ID)
	if err != nil {
		return err
	}
	// Those without an attempt wait for a slot, most of them, for a resume or for time;
	// the oldest may have lost their workflow before they were submitted.
	for i, n := range waiting {
		if !live[n] && (i >= row.Concurrency || row.Paused || row.TimeOver()) {
			continue
		}
		if err := s.driveTrial(ctx, row, n); err != nil {
			return err
		}
	}
	return nil
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

func (s *Sweeper) driveTrial(ctx context.Context, row record.Experiment, n int) error {
	open, err := s.open(ctx, workflows.TrialWorkflowID(row.ID, n))
	if err != nil || open {
		return err
	}
	_, err = s.Record.Append(ctx, row.ID, trial.Event{Kind: trial.KindUndriven, Sequence: n})
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
	var failures []error
	for _, decision := range open {
		failures = append(failures, s.Workflows.EarlyStop(ctx, decision.Key, decision.Decision))
	}
	return errors.Join(failures...)
}

// leftovers ends what still runs although its attempt is over: superseded, or of
// a trial that was settled or stopped meanwhile.
func (s *Sweeper) leftovers(ctx context.Context, name string, platform activities.Platform) error {
	attempts, err := s.Record.OpenAttempts(ctx, name)
	if err != nil {
		return err
	}
	failures, slots := make([]error, len(attempts)), make(chan struct{}, endings)
	var ending sync.WaitGroup
	for i, attempt := range attempts {
		if attempt.Outcome == "" {
			continue
		}
		slots <- struct{}{}
		ending.Go(func() {
			failures[i] = end(ctx, platform, attempt)
			<-slots
		})
	}
	ending.Wait()
	return errors.Join(failures...)
}

// endings bounds how many leftovers are ended at once: a host that does not answer
// keeps nobody else's waiting.
const endings = 16

func end(ctx context.Context, platform activities.Platform, attempt record.Attempt) error {
	handle, err := activities.HandleOf(attempt)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, activities.PlatformTimeout)
	defer cancel()
	return platform.Cancel(ctx, handle, trial.Intent{Cause: trial.CauseSuperseded})
}
