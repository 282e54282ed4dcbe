package workflows_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/activities/poller"
	"github.com/perennial-ml/perennial/assessors"
	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/fake"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
	"github.com/perennial-ml/perennial/workflows"
)

const (
	id = "abcdefgh"
	// patience is how long anything may take on a busy machine.
	patience = 2 * time.Minute
)

var ctx = context.Background()

// bench is a record, a platform without processes and the activities over both,
// all real, for one experiment at a time.
type bench struct {
	*testing.T
	*record.Store
	activities *activities.Activities
	env        atomic.Pointer[testsuite.TestWorkflowEnvironment] // of the run in progress
	open       openTrials
	commands   int
	configure  func(*testsuite.TestWorkflowEnvironment) // of every run that begins; may be nil
	trial      func(workflow.Context, workflows.TrialInput) (activities.Settlement, error)
	runs       int
	kind       platforms.Kind
	deafness   deafness // of the platform
}

// settings are an experiment's.
type settings struct {
	concurrency, trials int
	duration            experiment.Seconds // 0: unlimited
	tuner, assessor     experiment.Algorithm
	space               string
	behaviour           string // of the platform, JSON
}

// newBench accepts an experiment. Tests wait more than they work, so they run
// side by side.
func newBench(t *testing.T, s settings) *bench {
	t.Helper()
	t.Parallel()
	store, err := record.Open(filepath.Join(t.TempDir(), "record.db"))
	require.NoError(t, err)
	b := &bench{T: t, Store: store, trial: workflows.Trial}
	b.open.envs = map[string]*testsuite.TestWorkflowEnvironment{}
	b.serve(fake.New(fake.Options{StateDirectory: t.TempDir()}))
	b.command(trial.Accept, config(t, s))
	return b
}

func (b *bench) serve(kind platforms.Kind) {
	b.kind = kind
	logger := slog.New(slog.DiscardHandler)
	sections := poller.Observe(poller.Options{
		Registry: platforms.Registry{fake.Name: {Traits: kind.Traits, Open: func(section platforms.Section) platforms.Platform {
			return deaf{kind.Open(section), &b.deafness}
		}}},
		Sections: activities.SectionsOf(b.Store, activities.Secrets{}),
		Record:   b.Store, Logger: logger,
	})
	b.activities = &activities.Activities{
		Record: b.Store, Sections: sections,
		Tuners: tuners.New, Assessors: assessors.New, Workflows: b, Logger: logger,
		Environment: func(string) string { return "" },
		Queue:       func(name string) string { return "platform." + name + ".test" },
	}
	b.Cleanup(func() {
		sections.Stop()
		b.open.running.Wait()
		b.Close()
	})
}

func config(t *testing.T, s settings) string {
	if s.tuner.Name == "" {
		s.tuner.Name = "Random"
	}
	if s.space == "" {
		s.space = `{"x": {"_type": "uniform", "_value": [0, 1]}}`
	}
	e := experiment.Experiment{
		Format: experiment.Format, Name: "bench", SearchSpace: json.RawMessage(s.space), Concurrency: s.concurrency, MaxTrials: s.trials, MaxDuration: s.duration,
		Tuner: s.tuner, Platforms: []experiment.Platform{{Name: fake.Name, Command: "true", Options: json.RawMessage(s.behaviour)}},
	}
	if s.assessor.Name != "" {
		e.Assessor = &s.assessor
	}
	text, err := json.Marshal(e)
	require.NoError(t, err)
	return string(text)
}

// command puts a command on record as the update's handler would.
func (b *bench) command(name, value string) {
	b.Helper()
	b.commands++
	command := trial.Command{ID: fmt.Sprint("command-", b.commands), Name: name, Value: json.RawMessage(value)}
	if value == "" {
		command.Value = nil
	}
	_, err := b.Append(ctx, id, record.CommandEvent(command))
	require.NoError(b, err)
}

// openTrials are the trials' workflows that run, each in an environment of its own, as
// they do beside their experiment's.
type openTrials struct {
	mu      sync.Mutex
	envs    map[string]*testsuite.TestWorkflowEnvironment
	running sync.WaitGroup
}

const (
	heldTrial = "HeldTrial"
	// hold is the activity without which the clock of a trial that waits would leap.
	hold = "Hold"
)

// Start runs a trial's workflow, unless it runs.
func (b *bench) Start(_ context.Context, start activities.Start) error {
	b.open.mu.Lock()
	defer b.open.mu.Unlock()
	name := workflows.TrialWorkflowID(start.Experiment, start.Sequence)
	if b.open.envs[name] != nil {
		return nil
	}
	env, began, ended := b.bare(name), make(chan struct{}), make(chan struct{})
	env.RegisterWorkflowWithOptions(func(inner workflow.Context, input workflows.TrialInput) (activities.Settlement, error) {
		holding := workflow.WithActivityOptions(inner, workflow.ActivityOptions{StartToCloseTimeout: time.Hour})
		workflow.ExecuteActivity(holding, hold)
		close(began)
		return b.trial(inner, input)
	}, workflow.RegisterOptions{Name: heldTrial})
	env.RegisterActivityWithOptions(func() error { <-ended; return nil }, activity.RegisterOptions{Name: hold})
	defer func() { <-began }()
	b.open.envs[name] = env
	b.open.running.Go(func() {
		defer close(ended)
		env.ExecuteWorkflow(heldTrial, workflows.TrialInput{Experiment: start.Experiment, Sequence: start.Sequence, Platform: start.Platform})
		b.open.mu.Lock()
		defer b.open.mu.Unlock()
		delete(b.open.envs, name)
	})
	return nil
}

// tell signals a trial's workflow, if there is one.
func (b *bench) tell(name, signal string, word any) error {
	b.open.mu.Lock()
	defer b.open.mu.Unlock()
	env := b.open.envs[name]
	if env == nil {
		return serviceerror.NewNotFound("no such workflow")
	}
	return env.SignalWorkflowByID(name, signal, word)
}

// EarlyStop takes a decision to a trial's workflow.
func (b *bench) EarlyStop(_ context.Context, key trial.Key, decision trial.Decision) error {
	ending := workflows.Ending{Cause: decision.Cause, Decision: decision.ID, Reason: decision.Reason}
	_ = b.tell(workflows.TrialWorkflowID(key.Experiment, key.Sequence), workflows.SignalEarlyStop, ending)
	return nil
}

// environment is Temporal's for tests, for a run of the experiment.
func (b *bench) environment(workflowID string) *testsuite.TestWorkflowEnvironment {
	env := b.bare(workflowID)
	env.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).
		Return(func(_, workflowID, _, signal string, word any) error { return b.tell(workflowID, signal, word) }).Maybe()
	if b.configure != nil {
		b.configure(env)
	}
	b.env.Store(env)
	b.runs++
	return env
}

// bare is Temporal's environment for tests, with everything of ours registered.
func (b *bench) bare(workflowID string) *testsuite.TestWorkflowEnvironment {
	suite := testsuite.WorkflowTestSuite{}
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(patience)
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: workflowID, TaskQueue: workflows.Queues{Record: "test"}.Experiment()})
	env.RegisterWorkflowWithOptions(workflows.Experiment, workflow.RegisterOptions{Name: workflows.ExperimentType})
	env.RegisterWorkflowWithOptions(b.trial, workflow.RegisterOptions{Name: workflows.TrialType})
	env.RegisterActivity(b.activities)
	return env
}

// drive runs the experiment's workflow until it completes, run after run.
func (b *bench) drive() record.Experiment {
	b.Helper()
	input := workflows.ExperimentInput{Experiment: id}
	for {
		next, again := b.run(input)
		if !again {
			break
		}
		input = next
	}
	return b.experiment()
}

// run is one run of the experiment's workflow, and what it continues as.
func (b *bench) run(input workflows.ExperimentInput) (next workflows.ExperimentInput, again bool) {
	b.Helper()
	env := b.environment(workflows.ExperimentWorkflowID(id))
	env.ExecuteWorkflow(workflows.ExperimentType, input)
	require.True(b, env.IsWorkflowCompleted())
	err := env.GetWorkflowError()
	if err == nil {
		return next, false
	}
	var anew *workflow.ContinueAsNewError
	require.ErrorAs(b, err, &anew)
	require.NoError(b, converter.GetDefaultDataConverter().FromPayloads(anew.Input, &next))
	return next, true
}

// meanwhile does something while the experiment runs, and fails the test if it
// could not.
func (b *bench) meanwhile(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	b.Cleanup(func() { <-done })
}

func (b *bench) experiment() record.Experiment {
	b.Helper()
	row, err := b.Store.Experiment(ctx, id)
	require.NoError(b, err)
	return row
}

func (b *bench) trials() []record.Trial {
	b.Helper()
	rows, err := b.Store.Trials(ctx, id)
	require.NoError(b, err)
	return rows
}

// states are the trials' by their number.
func (b *bench) states() (states []trial.State) {
	for _, row := range b.trials() {
		states = append(states, row.State)
	}
	return states
}

// await waits until so many trials are in a state.
func (b *bench) await(state trial.State, count int) {
	b.until(func() bool { return b.experiment().Counts[state] >= count })
}

func (b *bench) until(holds func() bool) {
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			b.Errorf("waited in vain: %v", b.experiment().Counts)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// logged counts the events of a kind.
func (b *bench) logged(kind trial.Kind) (count int) {
	events, err := b.Events(ctx, id, 0, 0)
	require.NoError(b, err)
	for _, event := range events {
		if event.Kind == kind {
			count++
		}
	}
	return count
}

// same is n times the same state.
func same(state trial.State, n int) (states []trial.State) {
	for range n {
		states = append(states, state)
	}
	return states
}

// signal sends a signal to the experiment, from whatever goroutine.
func (b *bench) signal(name string) {
	require.NoError(b, b.env.Load().SignalWorkflowByID(workflows.ExperimentWorkflowID(id), name, nil))
}
