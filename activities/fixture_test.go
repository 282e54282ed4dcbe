package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/activities/poller"
	"github.com/perennial-ml/perennial/assessors"
	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
)

const (
	id       = "abcdefgh"
	patience = 20 * time.Second
)

var ctx = context.Background()

// fixture is a record with one experiment, and the activities over it.
type fixture struct {
	*testing.T
	*record.Store
	*activities.Activities
	platform *scripted
	commands int

	mu      sync.Mutex
	started []activities.Start
	signals []trial.Decision
	tuner   *patientTuner // nil: as configured
}

func newFixture(t *testing.T) *fixture { return newFixtureWith(t, func(*experiment.Experiment) {}) }

func newFixtureWith(t *testing.T, change func(*experiment.Experiment)) *fixture {
	t.Helper()
	store, err := record.Open(filepath.Join(t.TempDir(), "record.db"))
	require.NoError(t, err)
	f := &fixture{T: t, Store: store, platform: &scripted{reports: map[trial.Key]platforms.Report{}}}
	f.Activities = f.activities()
	config := experiment.Experiment{
		Format: experiment.Format, Concurrency: 4, MaxTrials: 100, Tuner: experiment.Algorithm{Name: "Random"},
		SearchSpace: json.RawMessage(`{"x": {"_type": "uniform", "_value": [0, 1]}}`),
		Platforms:   []experiment.Platform{{Name: "scripted", Command: "true"}},
	}
	change(&config)
	text, err := json.Marshal(config)
	require.NoError(t, err)
	f.command(trial.Accept, string(text))
	require.NoError(t, f.PrepareCodeDir(ctx, id, 0))
	return f
}

// activities are those of a process that has just begun.
func (f *fixture) activities() *activities.Activities {
	logger := slog.New(slog.DiscardHandler)
	sections := poller.Observe(poller.Options{
		Registry: platforms.Registry{"scripted": f.platform.kind("scripted"), "local": f.platform.kind("local"), "forgetful": f.platform.kind("forgetful"), "hanging": f.platform.hanging()},
		Sections: activities.SectionsOf(f.Store, activities.Secrets{}), Record: f.Store, Logger: logger,
	})
	f.Cleanup(func() {
		sections.Stop()
		f.Store.Close()
	})
	return &activities.Activities{
		Record: f.Store, Sections: sections, StateDirectory: "/state",
		Tuners: f.build, Assessors: assessors.New, Workflows: f, Logger: logger,
		Environment: func(string) string { return "" }, Queue: func(name string) string { return name },
	}
}

func (f *fixture) build(spec tuners.Spec) (tuners.Tuner, error) {
	if f.tuner != nil {
		return f.tuner, nil
	}
	return tuners.New(spec)
}

// Start notes what would be started.
func (f *fixture) Start(_ context.Context, start activities.Start) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started = append(f.started, start)
	return nil
}

// EarlyStop notes what would be signalled.
func (f *fixture) EarlyStop(_ context.Context, _ trial.Key, decision trial.Decision) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.signals = append(f.signals, decision)
	return nil
}

func (f *fixture) signalled() []trial.Decision {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]trial.Decision(nil), f.signals...)
}

func (f *fixture) command(name, value string) int64 {
	f.Helper()
	f.commands++
	command := trial.Command{ID: fmt.Sprint("command-", f.commands), Name: name}
	if value != "" {
		command.Value = json.RawMessage(value)
	}
	number, err := f.Command(ctx, id, command)
	require.NoError(f, err)
	return number
}

// ask puts trials on record up to and without the numbered one.
func (f *fixture) ask(count int) {
	f.Helper()
	for n := range count {
		_, err := f.Ask(ctx, id, []record.Ask{{Sequence: n, Asked: trial.Asked{Parameters: json.RawMessage(`{"x":1}`), Source: trial.SourceAlgorithm}}})
		require.NoError(f, err)
	}
}

func (f *fixture) begin(n int) trial.Key {
	f.Helper()
	attempt, err := f.BeginAttempt(ctx, id, n, "scripted")
	require.NoError(f, err)
	return attempt.Key
}

// handle is the attempt's on record, nil before it is submitted.
func (f *fixture) handle(key trial.Key) json.RawMessage {
	f.Helper()
	attempt, err := f.Attempt(ctx, key)
	require.NoError(f, err)
	return attempt.Handle
}

// report puts metrics of an attempt on record.
func (f *fixture) report(key trial.Key, kind metrics.Kind, values ...string) {
	f.Helper()
	var records []metrics.Record
	for i, value := range values {
		records = append(records, metrics.Record{Number: int64(i + 1), Kind: kind, Step: int64(i), Value: value})
	}
	require.NoError(f, f.Collect(ctx, key, records, fmt.Sprint(len(values))))
}

func (f *fixture) row() record.Experiment {
	f.Helper()
	row, err := f.Experiment(ctx, id)
	require.NoError(f, err)
	return row
}

func (f *fixture) row0() record.Trial {
	f.Helper()
	row, err := f.Trial(ctx, id, 0)
	require.NoError(f, err)
	return row
}

// end settles a trial as succeeded.
func (f *fixture) end(n int) {
	f.Helper()
	key := f.begin(n)
	require.NoError(f, f.Observe(ctx, key, record.Observation{Phase: string(platforms.Exited), Exit: &trial.Exit{}, Drained: true}))
	_, err := f.Activities.Settle(ctx, key)
	require.NoError(f, err)
}

// call runs an activity as a worker would, with heartbeats and the rest.
func call[Answer any](f *fixture, activity any, args ...any) (answer Answer, err error) {
	f.Helper()
	suite := testsuite.WorkflowTestSuite{}
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(f.Activities)
	env.SetTestTimeout(patience)
	value, err := env.ExecuteActivity(activity, args...)
	if err == nil && value != nil && value.HasValue() {
		err = value.Get(&answer)
	}
	return answer, err
}

// scripted is a platform that does what its test says.
type scripted struct {
	platforms.Platform // verbs that nobody asks for

	mu      sync.Mutex
	fault   error // of Submit
	submits int
	cancels []trial.Intent
	stuck   error // of Cancel
	// cancelling happens while Cancel is under way.
	cancelling func()
	// submitting happens while Submit is under way.
	submitting func()
	reports    map[trial.Key]platforms.Report
	listed     []platforms.Handle
	prepared   []platforms.Bundle
	// preparing happens while Prepare is under way.
	preparing func(platforms.Bundle)
	cleaned   int
}

func (s *scripted) kind(name string) platforms.Kind {
	return platforms.Kind{
		Traits: platforms.Traits{Name: name, RunsHere: name == "local", KeepsIntent: name != "forgetful", PollInterval: 2 * time.Millisecond, Losable: 1},
		Open:   func(platforms.Section) platforms.Platform { return s },
	}
}

func (s *scripted) Close() error { return nil }

func (s *scripted) Prepare(_ context.Context, bundle platforms.Bundle) (platforms.Workspace, error) {
	if s.preparing != nil {
		s.preparing(bundle)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prepared = append(s.prepared, bundle)
	return platforms.Workspace{Directory: "/", Data: json.RawMessage(`{"blob":"b-1"}`)}, nil
}

func (s *scripted) CleanUp(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleaned++
	return s.stuck
}

func (s *scripted) Submit(_ context.Context, job platforms.Job) (platforms.Handle, error) {
	s.mu.Lock()
	submitting := s.submitting
	s.mu.Unlock()
	if submitting != nil {
		submitting()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.submits++
	return platforms.Handle{Platform: "scripted", Key: job.Key}, s.fault
}

// refuse has every Submit fail from now on; nil has it succeed.
func (s *scripted) refuse(fault error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

func (s *scripted) submitted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.submits
}

func (s *scripted) cancelled() []trial.Intent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.cancels)
}

func (s *scripted) Cancel(_ context.Context, _ platforms.Handle, intent trial.Intent) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancels = append(s.cancels, intent)
	if s.cancelling != nil {
		s.cancelling()
	}
	return s.stuck
}

func (s *scripted) Poll(_ context.Context, questions []platforms.Question) ([]platforms.Report, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]platforms.Report, len(questions))
	for i, asked := range questions {
		all[i] = s.reports[asked.Handle.Key]
		if all[i].Phase == "" {
			all[i].Phase = platforms.Running
		}
	}
	return all, nil
}

func (s *scripted) List(_ context.Context, keys ...trial.Key) (handles []platforms.Handle, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, handle := range s.listed {
		if len(keys) == 0 || slices.Contains(keys, handle.Key) {
			handles = append(handles, handle)
		}
	}
	return handles, nil
}

// list has List answer so.
func (s *scripted) list(handles ...platforms.Handle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed = handles
}

// report has Poll answer so for one run.
func (s *scripted) report(key trial.Key, report platforms.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reports[key] = report
}

func (s *scripted) Collect(_ context.Context, _ platforms.Handle, after platforms.Cursor) ([]metrics.Record, platforms.Cursor, error) {
	return nil, after, nil
}

// patientTuner answers as it is told.
type patientTuner struct {
	mu     sync.Mutex
	answer tuners.Answer
	fault  error
	heard  []trial.Kind
	// meanwhile happens once, before a proposal can be asked for.
	meanwhile func()
}

func (p *patientTuner) Propose(n int) (tuners.Proposal, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.meanwhile != nil {
		p.meanwhile()
		p.meanwhile = nil
	}
	return tuners.Proposal{Answer: p.answer, Parameters: json.RawMessage(fmt.Sprintf(`{"mine":%d}`, n))}, p.fault
}

func (p *patientTuner) Apply(event trial.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = append(p.heard, event.Kind)
	return nil
}

func (p *patientTuner) set(answer tuners.Answer, fault string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer, p.fault = answer, nil
	if fault != "" {
		p.fault = errors.New(fault)
	}
}
