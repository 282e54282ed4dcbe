package sweeper_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/perennial-ml/perennial/activities/poller"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/workers/sweeper"
	"github.com/perennial-ml/perennial/workflows"
)

const (
	id       = "abcdefgh"
	patience = 10 * time.Second
)

var ctx = context.Background()

// engine is as much of Temporal as a sweeper sees.
type engine struct {
	client.Client

	mu      sync.Mutex
	open    map[string]bool // workflows that run
	away    error
	started []string
	told    []string // workflow and signal
	looks   int
	asked   int                // for how an experiment sees itself
	sees    workflows.Overview // and what it answers
}

func (e *engine) QueryWorkflow(_ context.Context, _, _, query string, _ ...any) (converter.EncodedValue, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	if query != workflows.QueryState {
		return nil, serviceerror.NewQueryFailed(query)
	}
	text, err := json.Marshal(e.sees)
	return answer(text), errors.Join(err, e.away)
}

// answer is one of a query.
type answer []byte

func (a answer) HasValue() bool      { return true }
func (a answer) Get(place any) error { return json.Unmarshal(a, place) }

func (e *engine) DescribeWorkflowExecution(_ context.Context, id, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.looks++
	running, known := e.open[id]
	switch {
	case e.away != nil:
		return nil, e.away
	case !known:
		return nil, serviceerror.NewNotFound("no such workflow")
	}
	status := enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
	if running {
		status = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Status: status}}, nil
}

func (e *engine) ExecuteWorkflow(_ context.Context, options client.StartWorkflowOptions, _ any, _ ...any) (client.WorkflowRun, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.started = append(e.started, options.ID)
	return nil, e.away
}

func (e *engine) SignalWorkflow(_ context.Context, workflow, _, signal string, _ any) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.told = append(e.told, workflow+" "+signal)
	if !e.open[workflow] {
		return serviceerror.NewNotFound("no such workflow")
	}
	return nil
}

// place is a platform that notes what it is asked to end.
type place struct {
	platforms.Platform
	broken trial.Key
	hangs  trial.Key // until another one was ended

	mu      sync.Mutex
	cleaned int
	ended   []trial.Key
	other   chan struct{}
}

func (p *place) Close() error { return nil }

func (p *place) CleanUp(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleaned++
	return nil
}

func (p *place) Cancel(ctx context.Context, handle platforms.Handle, intent trial.Intent) error {
	if handle.Key == p.broken {
		return errors.New("unreachable")
	}
	if handle.Key == p.hangs {
		select {
		case <-p.other:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if handle.Key != p.hangs && p.other != nil {
		close(p.other)
	}
	if intent.Cause == trial.CauseSuperseded {
		p.ended = append(p.ended, handle.Key)
	}
	return nil
}

// fixture is a record with an experiment of one slot and three trials, a
// Temporal, a platform and a sweeper over them.
type fixture struct {
	*testing.T
	*record.Store
	engine  *engine
	place   *place
	sweeper *sweeper.Sweeper
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	store, err := record.Open(filepath.Join(t.TempDir(), "record.db"))
	require.NoError(t, err)
	t.Cleanup(func() { store.Close() })
	f := &fixture{T: t, Store: store, engine: &engine{open: map[string]bool{}}, place: &place{}}
	kind := platforms.Kind{Traits: platforms.Traits{Name: "place"}, Open: func(platforms.Section) platforms.Platform { return f.place }}
	sections := poller.Observe(poller.Options{
		Registry: platforms.Registry{"place": kind}, Record: store, Logger: slog.New(slog.DiscardHandler),
		Sections: func(_ context.Context, experiment string) ([]platforms.Section, error) {
			return []platforms.Section{{Platform: "place", Experiment: experiment}}, nil
		},
	})
	t.Cleanup(sections.Stop)
	f.sweeper = sweeper.New(sweeper.Sweeper{
		Record: store, Workflows: workflows.Client{Temporal: f.engine}, Logger: slog.New(slog.DiscardHandler),
		Sections: sections,
	})
	f.command(trial.Accept, `{"trialConcurrency":1,"searchSpace":{"x":{}}}`)
	for n := range 3 {
		_, err := f.Ask(ctx, id, []record.Ask{{Sequence: n, Asked: trial.Asked{Parameters: []byte(`{}`)}}})
		require.NoError(t, err)
	}
	return f
}

func (f *fixture) command(name, value string) {
	f.Helper()
	command := trial.Command{ID: name, Name: name}
	if value != "" {
		command.Value = []byte(value)
	}
	_, err := f.Append(ctx, id, record.CommandEvent(command))
	require.NoError(f, err)
}

func (f *fixture) begin(n int) trial.Key {
	f.Helper()
	attempt, err := f.BeginAttempt(ctx, id, n, "place")
	require.NoError(f, err)
	return attempt.Key
}

// undriven are the trials that the log says nobody drives.
func (f *fixture) undriven() (trials []int) {
	events, err := f.Events(ctx, id, 0, 0)
	require.NoError(f, err)
	for _, event := range events {
		if event.Kind == trial.KindUndriven {
			trials = append(trials, event.Sequence)
		}
	}
	return trials
}

func (f *fixture) driven(trials ...int) {
	f.engine.open[workflows.ExperimentWorkflowID(id)] = true
	for _, n := range trials {
		f.engine.open[workflows.TrialWorkflowID(id, n)] = true
	}
}

func TestAnActiveExperimentWithoutAWorkflowIsDriven(t *testing.T) {
	f := newFixture(t)
	require.NoError(t, f.sweeper.Sweep(ctx))
	f.engine.open[workflows.ExperimentWorkflowID(id)] = false // terminated
	require.NoError(t, f.sweeper.Sweep(ctx))
	require.Equal(t, []string{"experiment-" + id, "experiment-" + id}, f.engine.started)

	f.driven()
	require.NoError(t, f.sweeper.Sweep(ctx))
	require.Len(t, f.engine.started, 2)
}

func TestAnExperimentThatHasEndedIsLeftAlone(t *testing.T) {
	f := newFixture(t)
	_, err := f.Finish(ctx, id, record.Done, record.Place{Number: f.row().LastEvent})
	require.NoError(t, err)
	require.NoError(t, f.sweeper.Sweep(ctx))
	require.Empty(t, f.engine.started)
	require.Zero(t, f.engine.looks)
}

func (f *fixture) row() record.Experiment {
	row, err := f.Experiment(ctx, id)
	require.NoError(f, err)
	return row
}

func TestALiveTrialWithoutAWorkflowIsLoggedOnceALook(t *testing.T) {
	f := newFixture(t)
	f.begin(0)
	f.begin(2)
	f.driven(0)
	require.NoError(t, f.sweeper.Sweep(ctx))
	require.Equal(t, []int{2}, f.undriven(), "the second waits for a slot")
	f.driven(2)
	require.NoError(t, f.sweeper.Sweep(ctx))
	require.Equal(t, []int{2}, f.undriven())
}

func TestATrialThatLostItsWorkflowBeforeItBeganIsLogged(t *testing.T) {
	f := newFixture(t)
	f.driven()
	f.engine.sees = workflows.Overview{Open: []int{0}, Waiting: []int{1, 2}}
	require.NoError(t, f.sweeper.Sweep(ctx))
	require.Equal(t, []int{0}, f.undriven(), "the others wait for a slot")
}

func TestNobodyIsMissedWhoWaitsForABusyTemporal(t *testing.T) {
	f := newFixture(t)
	f.driven()
	f.engine.sees = workflows.Overview{Open: []int{0, 1, 2}, Starting: []int{0, 1, 2}}
	require.NoError(t, f.sweeper.Sweep(ctx))
	require.Empty(t, f.undriven())
	require.Equal(t, 1, f.engine.looks, "at the experiment's own workflow")
	require.Equal(t, 1, f.engine.asked)
}

func TestWhatAnExperimentThatIsOverLeftOnItsPlatformIsRemovedOnce(t *testing.T) {
	f := newFixture(t)
	require.NoError(t, f.SetWorkspace(ctx, id, 0, []byte(`{"hash":"h","state":"prepared"}`)))
	_, err := f.Finish(ctx, id, record.Done, record.Place{Number: f.row().LastEvent})
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, f.sweeper.Sweep(ctx))
	}
	require.Equal(t, 1, f.place.cleaned)
}

func TestASweepLooksAtNothingThatHasEnded(t *testing.T) {
	f := newFixture(t)
	_, err := f.Finish(ctx, id, record.Done, record.Place{Number: f.row().LastEvent})
	require.NoError(t, err)
	before := f.Reads()
	require.NoError(t, f.sweeper.Sweep(ctx))
	require.Zero(t, f.Reads().Rows-before.Rows)
}

func TestWhereTemporalCannotBeAskedNothingIsConcluded(t *testing.T) {
	f := newFixture(t)
	f.begin(0)
	f.engine.away = errors.New("connection refused")
	f.engine.open[workflows.ExperimentWorkflowID(id)] = true
	require.ErrorContains(t, f.sweeper.Sweep(ctx), "connection refused")
	require.Empty(t, f.engine.started)
	require.Empty(t, f.undriven())
}

func TestADecisionIsRepeatedUntilItHasAnOutcome(t *testing.T) {
	f := newFixture(t)
	key := f.begin(0)
	f.driven(0)
	_, err := f.Decide(ctx, record.Decision{Key: key, Decision: trial.Decision{ID: "d", Cause: trial.CauseEarlyStop}})
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, f.sweeper.Sweep(ctx))
	}
	require.Equal(t, []string{"experiment-abcdefgh/trial-0 early-stop", "experiment-abcdefgh/trial-0 early-stop"}, f.engine.told)

	f.settle(key)
	require.NoError(t, f.sweeper.Sweep(ctx))
	require.Len(t, f.engine.told, 2)
}

// settle ends a trial whose run is not drained yet.
func (f *fixture) settle(key trial.Key) {
	f.Helper()
	require.NoError(f, f.Settle(ctx, key, record.Settlement{
		Outcome: record.OutcomeEnded, Ended: &trial.Ended{State: trial.UserCanceled}, Decision: record.CarriedOut,
	}))
}

func TestWhatStillRunsAlthoughItIsOverIsEnded(t *testing.T) {
	f := newFixture(t)
	running, broken, over := f.begin(0), f.begin(1), f.begin(2)
	f.driven(0, 1, 2)
	f.settle(broken)
	f.settle(over)
	f.place.broken = broken
	require.ErrorContains(t, f.sweeper.Sweep(ctx), "unreachable")
	require.Equal(t, []trial.Key{over}, f.place.ended, "and trial %d goes on", running.Sequence)

	require.NoError(t, f.Observe(ctx, over, record.Observation{Phase: string(platforms.Exited), Exit: &trial.Exit{}, Drained: true}))
	f.place.broken = trial.Key{}
	require.NoError(t, f.sweeper.Sweep(ctx))
	require.Equal(t, []trial.Key{over, broken}, f.place.ended, "what is drained is over")
}

func TestAPlatformThatHangsOverOneLeftoverKeepsNoOtherWaiting(t *testing.T) {
	f := newFixture(t)
	hanging, other := f.begin(0), f.begin(1)
	f.driven(0, 1)
	f.settle(hanging)
	f.settle(other)
	f.place.hangs, f.place.other = hanging, make(chan struct{})
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	require.NoError(t, f.sweeper.Sweep(limited))
	require.Equal(t, []trial.Key{other, hanging}, f.place.ended)
}

func TestAPlatformThatHangsKeepsNoExperimentWithoutItsWorkflow(t *testing.T) {
	f := newFixture(t)
	hanging := f.begin(0)
	f.settle(hanging)
	f.place.hangs, f.place.other = hanging, make(chan struct{})
	sweeping, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		f.sweeper.Run(sweeping, time.Millisecond)
		close(done)
	}()
	require.Eventually(t, func() bool {
		f.engine.mu.Lock()
		defer f.engine.mu.Unlock()
		return len(f.engine.started) > 1
	}, patience, time.Millisecond, "driven again and again meanwhile")
	stop()
	<-done
	require.Empty(t, f.place.ended)
}

func TestSomebodyWhoCannotWaitHasItSweepSooner(t *testing.T) {
	f := newFixture(t)
	f.driven()
	sweeping, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		f.sweeper.Run(sweeping, time.Hour)
		close(done)
	}()
	looked := func(least int) func() bool {
		return func() bool {
			f.engine.mu.Lock()
			defer f.engine.mu.Unlock()
			return f.engine.looks >= least
		}
	}
	require.Eventually(t, looked(1), patience, time.Millisecond)
	f.sweeper.Soon()
	require.Eventually(t, looked(2), patience, time.Millisecond)
	stop()
	<-done
}
