package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perennial-ml/perennial/assessors"
	"github.com/perennial-ml/perennial/dashboard/views"
	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
	"github.com/perennial-ml/perennial/workflows"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// testdata is absolute, since some tests change the working directory.
var testdata, _ = filepath.Abs("testdata")

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// stage is a World in memory: a state directory of its own, a record that the
// test fills, and an engine that writes commands straight into that record.
type stage struct {
	World
	*engine
	t        *testing.T
	out, err *buffer
	looks    atomic.Int64 // calls of Now, where a test lets time fly
}

func newStage(t *testing.T) *stage {
	s := &stage{t: t, out: &buffer{}, err: &buffer{}}
	s.engine = &engine{home: t.TempDir(), running: true}
	t.Cleanup(func() { s.close() })
	s.World = World{
		Home: s.engine.home, Env: os.Environ(), In: strings.NewReader(""), Out: s.out, Err: s.err,
		Width: func() int { return 0 }, Now: time.Now, Tick: 10 * time.Millisecond, Patience: time.Second,
		Build:    experiment.Build{Tuners: tuners.Names(), Assessors: assessors.Names(), Platforms: []string{"local", "fake"}},
		Registry: platforms.Registry{"local": {Traits: platforms.Traits{RunsHere: true}}, "remote": {Traits: platforms.Traits{CopiesCode: true}}},
		Engine:   s.engine,
	}
	return s
}

// run runs a command and returns its exit code; what it printed is in out and err.
func (s *stage) run(args ...string) int { return s.runIn(s.t.Context(), args...) }

func (s *stage) runIn(ctx context.Context, args ...string) int {
	s.out.Reset()
	s.err.Reset()
	s.World.Args = args
	return Main(ctx, s.World)
}

// engine is an Engine without a server.
type engine struct {
	home     string
	mu       sync.Mutex
	running  bool  // a host can be found
	died     bool  // the last host was killed
	started  int   // hosts that Ensure started
	refuse   error // what Connect returns
	unfit    error // what Check returns
	broken   error // what Ensure returns, once the host died
	other    External
	hosts    []gpu.Host
	machines []platforms.HostState // what Try returns
	rights   map[string]string     // of platforms
	places   map[string]platforms.WithLeftovers
	nni      []NNIPort
	refused  error             // by OpenNNI
	log      []byte            // of every trial whose platform keeps it elsewhere
	replicas map[string]string // what each of several replicas has printed
	lonely   string            // the queue that nobody polls
	mend     string            // what Examine returns
	workers  Workers
	distant  string // the machine whose worker works on the record
	after    func(trial.Command)
	sent     []trial.Command
	ended    []workflows.Ending
	ending   func() error // what End returns
	opened   *record.Store
}

func (e *engine) store() *record.Store {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.opened == nil {
		store, err := record.Open(RecordFile(e.home))
		if err != nil {
			panic(err)
		}
		e.opened = store
	}
	return e.opened
}

func (e *engine) close() {
	if e.opened != nil {
		e.opened.Close()
	}
}

func (e *engine) die() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running = false
}

var aHost = Host{PID: 4711, Version: "v1.0.0", Address: "127.0.0.1:40001", Namespace: "perennial",
	WebUI: "http://127.0.0.1:40002", Dashboard: "http://127.0.0.1:40003", TokenFile: "/state/token", Log: "/state/log/host.log"}

func (e *engine) MoveRecord(context.Context, string, string, func(string, int)) error { return nil }

func (e *engine) Check() error { return errors.Join(e.unfit, os.MkdirAll(e.home, 0o700)) }

func (e *engine) Find(context.Context) (Host, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.running:
		return aHost, nil
	case e.died:
		return Host{}, ErrHostDied
	}
	return Host{}, ErrNoHost
}

func (e *engine) Ensure(context.Context) (Host, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.distant != "" {
		return Host{PID: 7, Machine: e.distant}, nil
	}
	if e.running {
		return aHost, nil
	}
	e.started++
	if e.broken != nil {
		return Host{}, e.broken
	}
	e.running = true
	return aHost, nil
}

func (e *engine) Serve(ctx context.Context, how Serving) error {
	e.mu.Lock()
	e.running = true
	e.mu.Unlock()
	how.Ready(aHost)
	<-ctx.Done()
	e.die()
	return nil
}

func (e *engine) Stop(ctx context.Context) error {
	if _, err := e.Find(ctx); err != nil {
		return err
	}
	e.die()
	return nil
}

func (e *engine) Connect(context.Context, Host) (Client, error) { return e, e.refuse }

func (e *engine) Close() {}

func (e *engine) External() External { return e.other }

func (e *engine) Examine(context.Context) (string, error) { return e.mend, e.refuse }

func (e *engine) Unpolled(context.Context, string, []string) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lonely, nil
}

func (e *engine) Workers(context.Context) (Workers, error) { return e.workers, nil }

func (e *engine) Elsewhere(context.Context, string) (string, error) { return e.distant, nil }

func (e *engine) Deposit(_ context.Context, id string, config *experiment.Experiment) error {
	for _, code := range config.CodeDirectories() {
		*code = "code of " + id
	}
	return nil
}

func (e *engine) Link(host Host, page string) string { return host.WebUI + page + "?token=once" }

func (e *engine) DashboardLink(host Host, page string) string {
	return host.Dashboard + page + "?token=once"
}

func (e *engine) Unit(out io.Writer) error {
	_, err := io.WriteString(out, "[Service]\n")
	return err
}

func (e *engine) Probe(context.Context) map[string][]trial.Reason {
	return map[string][]trial.Reason{"local": nil, "fake": {{Code: "disk-low", Text: "only 3 MiB are free"}}}
}

func (e *engine) Logs(_ context.Context, _ platforms.Handle, wanted platforms.Log) (io.ReadCloser, error) {
	if e.replicas[wanted.Replica] != "" {
		return io.NopCloser(strings.NewReader(e.replicas[wanted.Replica][min(wanted.From, int64(len(e.replicas[wanted.Replica]))):])), nil
	}
	if e.log == nil {
		return nil, errors.New("there is no such platform")
	}
	return io.NopCloser(bytes.NewReader(e.log[min(wanted.From, int64(len(e.log))):])), nil
}

func (e *engine) Replicas(context.Context, platforms.Handle) ([]string, error) {
	return slices.Sorted(maps.Keys(e.replicas)), nil
}

func (e *engine) Try(context.Context, experiment.Platform) ([]platforms.HostState, error) {
	return e.machines, nil
}

func (e *engine) Rights(_ context.Context, platform experiment.Platform) (string, error) {
	return e.rights[platform.Name], nil
}

func (e *engine) OpenNNI(_ context.Context, _ Host, port NNIPort) (string, error) {
	e.nni = append(e.nni, port)
	return fmt.Sprintf("http://127.0.0.1:%d", port.Port), e.refused
}

func (e *engine) Mark() string { return "this-machine.aogzexlj" }

func (e *engine) Place(_ string, platform experiment.Platform, work func(platforms.WithLeftovers) error) error {
	if e.places[platform.Name] == nil {
		return nil
	}
	return work(e.places[platform.Name])
}

func (e *engine) GPUs(_ context.Context, _ string, platform experiment.Platform) ([]gpu.Host, error) {
	if platform.Name != views.ThisMachine.Name {
		return nil, nil
	}
	return e.hosts, nil
}

func (e *engine) Send(ctx context.Context, id string, command trial.Command) (int64, error) {
	data, err := json.Marshal(command)
	if err != nil {
		return 0, err
	}
	event, err := e.store().Append(ctx, id, trial.Event{Kind: trial.KindCommand, Data: data})
	if err != nil {
		return 0, temporal.NewApplicationError(err.Error(), "rejected")
	}
	e.sent = append(e.sent, command)
	if e.after != nil {
		go e.after(command)
	}
	return event.Number, nil
}

func (e *engine) End(_ context.Context, _ string, _ int, ending workflows.Ending) error {
	e.ended = append(e.ended, ending)
	if e.ending != nil {
		return e.ending()
	}
	return nil
}

const anID = "k3v9x2ab"

// accepted puts an experiment on record under a known id.
func (s *stage) accepted(id string) *story { return s.acceptedWith(id, `{"name":"Random"}`) }

// acceptedWith is accepted, with another tuner.
func (s *stage) acceptedWith(id, tuner string) *story {
	config := `{"format":1,"experimentName":"demo","searchSpace":{"x":{"_type":"uniform","_value":[0,1]}},
		"trialConcurrency":2,"maxTrialNumber":4,"maxExperimentDuration":3600,"tuner":` + tuner + `,"trainingService":[]}`
	_, err := s.Send(s.t.Context(), id, trial.Command{ID: "accept-" + id, Name: trial.Accept, Value: json.RawMessage(config)})
	require.NoError(s.t, err)
	s.sent = nil
	return &story{s, id}
}

// story makes things happen to one experiment, as the engine would.
type story struct {
	*stage
	id string
}

func (s *story) asks(n int, parameters string) {
	_, err := s.store().Ask(context.Background(), s.id, []record.Ask{{Sequence: n,
		Asked: trial.Asked{Parameters: trial.Parameters(parameters), Source: trial.SourceAlgorithm, ParameterID: json.RawMessage("0")}}})
	require.NoError(s.t, err)
}

// runs starts the next attempt of a trial, in a directory with logs.
func (s *story) runs(n int) trial.Key {
	attempt, err := s.store().BeginAttempt(context.Background(), s.id, n, "local")
	require.NoError(s.t, err)
	output := filepath.Join(s.engine.home, attempt.Key.String())
	require.NoError(s.t, os.MkdirAll(output, 0o700))
	s.observe(attempt.Key, "running", nil)
	return attempt.Key
}

func (s *story) observe(key trial.Key, phase string, exit *trial.Exit) {
	seen := record.Observation{Phase: phase, Exit: exit, Output: filepath.Join(s.engine.home, key.String()), Started: time.Now()}
	if exit != nil {
		seen.Ended = time.Now()
	}
	require.NoError(s.t, s.store().Observe(context.Background(), key, seen))
}

func (s *story) writes(key trial.Key, stream, text string) {
	file, err := os.OpenFile(filepath.Join(s.engine.home, key.String(), stream), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(s.t, err)
	_, err = file.WriteString(text)
	require.NoError(s.t, errors.Join(err, file.Close()))
}

func (s *story) reports(key trial.Key, number int64, kind metrics.Kind, value string) {
	line := metrics.Record{Number: number, Time: time.Now(), Kind: kind, Step: number, Value: value}
	require.NoError(s.t, s.store().Collect(context.Background(), key, []metrics.Record{line}, "c"))
}

func (s *story) ends(key trial.Key, ended trial.Ended) {
	s.observe(key, "exited", &trial.Exit{})
	settlement := record.Settlement{Outcome: record.OutcomeEnded, Ended: &ended}
	require.NoError(s.t, s.store().Settle(context.Background(), key, settlement))
}

func (s *story) finishes(status record.Status) {
	e, err := s.store().Experiment(context.Background(), s.id)
	require.NoError(s.t, err)
	finished, err := s.store().Finish(context.Background(), s.id, status, record.Place{Number: e.LastEvent})
	require.NoError(s.t, err)
	require.True(s.t, finished)
}

func number(x float64) *float64 { return &x }

// told is an experiment with a trial of every kind: succeeded, failed, running
// at its second attempt, waiting.
func (s *stage) told(id string) *story {
	story := s.accepted(id)
	story.asks(0, `{"x": 0.70, "net": {"_name": "cnn", "layers": 2}}`)
	key := story.runs(0)
	story.reports(key, 1, metrics.Periodical, "0.5")
	story.reports(key, 2, metrics.Final, `{"default": 0.70, "acc": 1}`)
	story.ends(key, trial.Ended{State: trial.Succeeded, Value: number(0.7)})
	story.asks(1, `{"x": 5.0, "net": {"_name": "mlp"}}`)
	key = story.runs(1)
	story.writes(key, "stderr", strings.Repeat("noise\n", 30)+"boom\n")
	story.ends(key, trial.Ended{State: trial.Failed, Reason: trial.Reason{Code: "exit-code", Text: "its command ended with exit code 1"}})
	story.asks(2, `{"x": 1, "net": {"_name": "mlp"}}`)
	lost := record.Settlement{Outcome: record.OutcomeFault, Reason: trial.Reason{Code: "runner-died", Text: "its runner died"}}
	require.NoError(s.t, s.store().Settle(s.t.Context(), story.runs(2), lost))
	story.runs(2)
	story.asks(3, `{"x": 2, "net": {"_name": "mlp"}}`)
	return story
}

var (
	times = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	spans = regexp.MustCompile(`\d+s( ago)?\b`)
)

// golden compares what was printed with a file of testdata. Times and spans are
// the only things that differ from run to run.
func golden(t *testing.T, name, got string) {
	t.Helper()
	got = times.ReplaceAllString(got, "<time>")
	got = spans.ReplaceAllString(got, "<span>")
	path := filepath.Join(testdata, name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// buffer is a bytes.Buffer for a command and a test at once.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(text)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (b *buffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b.Reset()
}
