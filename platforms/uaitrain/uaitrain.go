// Package uaitrain runs trials as jobs of UCloud's UAI-Train. The runner is what a job
// runs, behind a Python file, since the service starts nothing else. Command, code,
// metrics and logs go through a UFS, which is mounted here and in jobs alike (cluster), or
// through a bucket of UFile (apart), which a job reads before it starts and writes once
// it is over: then metrics come by its log first. The service takes no identity of ours
// for a job, so jobs are found by their memo.
package uaitrain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/service"
	"github.com/perennial-ml/perennial/platforms/internal/verbs"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// Name is the platform's name in configurations and handles.
const Name = "uai-train"

const (
	// interval is how often jobs are listed.
	interval = 10 * time.Second
	// callsAMinute is how many calls are made at most. UCloud tells no number: this is
	// far from what its console makes.
	callsAMinute = 120
	// jobsShare is the part of them that asks for jobs: the others have to be watched.
	jobsShare = 2
	// outputThere is where jobs find their output, for ever.
	outputThere = "/data/output"
	inputThere  = "/data/data"
)

// Options say what the platform stands on.
type Options struct {
	StateDirectory string // absolute, on a disk of this machine
	// Runner is the absolute path of the runner's binary for this kind of machine,
	// which is the kind of UAI-Train's nodes.
	Runner       string
	Interval     time.Duration // for tests; 0: every ten seconds
	CallsAMinute int           // for tests; 0: 120
}

// kind is what all sections have in common.
type kind struct {
	Options
	runs  *verbs.Kind
	http  *http.Client
	calls *service.Limit
	made  *service.Limit // jobs
}

// platform is one section.
type platform struct {
	*verbs.Platform
	*kind
	section platforms.Section
	known   catalogue
	memory  memory
	open    context.Context // until Close
	close   func()
	slots   chan struct{} // for fetches
	fetches sync.WaitGroup
}

// memory spares calls. Without it everything is found again.
type memory struct {
	mutex sync.Mutex
	over  map[string]time.Time // when jobs were first seen to be over
	logs  map[string]time.Time // when jobs' logs were read
	topic map[string][]string  // of jobs' logs
	runs  map[string]*fetching // by the names of runs
	ended bool                 // nothing is begun any more
}

// fetching returns how far the output of a run is, and begins to bring it where nobody
// did.
func (m *memory) fetching(name string, begin func(*fetching)) *fetching {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.runs[name] != nil {
		return m.runs[name]
	}
	f := &fetching{over: make(chan struct{})}
	if m.ended {
		f.err = errors.New("the section was closed")
		close(f.over)
		return f
	}
	m.runs[name] = f
	begin(f)
	return f
}

// end has nothing begun any more.
func (m *memory) end() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.ended = true
}

func (m *memory) fetched(name string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	delete(m.runs, name)
}

func (m *memory) topicsOf(id string) []string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.topic[id]
}

func (m *memory) knowTopics(id string, names []string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.topic[id] = names
}

// readsLog tells whether it is time to read a job's log, and takes it that it is read
// then.
func (m *memory) readsLog(id string, every time.Duration) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if time.Since(m.logs[id]) < every {
		return false
	}
	m.logs[id] = time.Now()
	return true
}

var _ platforms.WithHosts = (*platform)(nil)

// New returns the kind. What was submitted is written down on this host.
func New(options Options) platforms.Kind {
	if options.Interval == 0 {
		options.Interval = interval
	}
	if options.CallsAMinute == 0 {
		options.CallsAMinute = callsAMinute
	}
	shared := &kind{
		Options: options,
		runs:    verbs.New(verbs.Options{Name: Name, StateDirectory: options.StateDirectory, Runner: options.Runner}),
		http:    &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()},
		calls: &service.Limit{Calls: options.CallsAMinute, Span: time.Minute,
			Of: fmt.Sprintf("UAI-Train is asked at most %d times a minute", options.CallsAMinute)},
		made: &service.Limit{Calls: max(1, options.CallsAMinute/jobsShare), Span: time.Minute,
			Of: fmt.Sprintf("UAI-Train is asked for at most %d jobs a minute", max(1, options.CallsAMinute/jobsShare))},
	}
	traits := shared.runs.Traits()
	traits.TriedFirst = true
	return platforms.Kind{Traits: traits, Check: check, Open: shared.open}
}

func (k *kind) open(section platforms.Section) platforms.Platform {
	p := &platform{kind: k, section: section, slots: make(chan struct{}, fetchesAtOnce),
		memory: memory{over: map[string]time.Time{}, logs: map[string]time.Time{}, topic: map[string][]string{}, runs: map[string]*fetching{}}}
	p.open, p.close = context.WithCancel(context.Background())
	p.Platform = k.runs.Open(section, p.service)
	return p
}

// service is the section's verbs.Opener.
func (p *platform) service(ctx context.Context, verb string) (verbs.Service, verbs.Nature, error) {
	c, err := p.client(ctx, verb)
	if err != nil {
		return nil, verbs.Nature{}, err
	}
	if c.UFile != "" {
		return apart{cluster{c, p}}, verbs.Nature{Interval: p.Interval}, nil
	}
	return cluster{c, p}, verbs.Nature{SharedDirectory: c.mount(), There: outputThere, Interval: p.Interval}, nil
}

// Close implements platforms.Platform: output that is being fetched is left to whoever
// polls next.
func (p *platform) Close() error {
	p.close()
	p.memory.end()
	p.fetches.Wait()
	return p.Platform.Close()
}

// Prepare implements platforms.Platform. What went with a clean-up comes back from the
// archive that was packed at first.
func (p *platform) Prepare(ctx context.Context, bundle platforms.Bundle) (platforms.Workspace, error) {
	c, err := p.client(ctx, "prepare")
	if err != nil || c.UFile == "" || bundle.Again == nil {
		return p.again(ctx, bundle, err)
	}
	var in input
	if err := json.Unmarshal(bundle.Again.Data, &in); err != nil {
		return platforms.Workspace{}, platforms.Errorf(platforms.Invalid, "prepare", "the experiment's code: %w", err)
	}
	again := *bundle.Again
	again.Data, err = apart{cluster{c, p}}.upload(ctx, in.Hash)
	return again, err
}

func (p *platform) again(ctx context.Context, bundle platforms.Bundle, err error) (platforms.Workspace, error) {
	if err != nil {
		return platforms.Workspace{}, err
	}
	return p.Platform.Prepare(ctx, bundle)
}

// client has the section's keys of now.
func (p *platform) client(ctx context.Context, verb string) (*client, error) {
	options, err := p.section.Options(ctx)
	if err != nil {
		return nil, err
	}
	now, err := parse(options)
	if err != nil {
		return nil, platforms.Errorf(platforms.Invalid, verb, "%w", err)
	}
	return &client{now, p.http, p.calls}, nil
}

// Try implements platforms.WithHosts: it looks up all that the section names, and lists
// the project's jobs.
func (p *platform) Try(ctx context.Context) ([]platforms.HostState, error) {
	c, err := p.client(ctx, "try")
	if err != nil {
		return nil, err
	}
	state := platforms.HostState{Name: "UAI-Train in " + c.Zone}
	through := c.UFile
	if c.UFile == "" {
		through = c.mount()
	}
	found, err := c.offer(ctx, "try", &p.known)
	if err == nil {
		state.Text = fmt.Sprintf("has %s at a unit price of %d.%02d CNY, for %d to %d hours; code, logs and metrics go through %s",
			c.nodes(), found.price/100, found.price%100, found.least, found.most, through)
		_, err = c.jobs(ctx, "try")
	}
	if err == nil && c.UFile != "" {
		_, err = bucket{c}.list(ctx, "try", c.key(directory(c.UFile)+root+"/none"))
	}
	if err != nil && !errors.As(err, &state.Faults) {
		state.Problems = append(state.Problems, problem(err))
	}
	if err := c.mounted(); err != nil {
		state.Problems = append(state.Problems, trial.Reason{Code: "shared-directory", Text: err.Error()})
	}
	return []platforms.HostState{state}, nil
}

// mounted makes sure that the directory of ours can be written to, where there is one.
func (s settings) mounted() error {
	if s.UFS == "" {
		return nil
	}
	return rundir.MakeDirectory(s.mount())
}

// problem is what keeps trials from running, or the service from being asked.
func problem(err error) trial.Reason {
	switch platforms.CodeOf(err) {
	case platforms.Transient, platforms.Exhausted:
		return trial.Reason{Code: platforms.Unasked, Text: err.Error()}
	}
	return trial.Reason{Code: "service", Text: err.Error()}
}

// page is where a person can look at a job.
func page(id string) string { return "https://console.ucloud.cn/uaitrain/manage#" + id }

// noted is the path in a run's directory of the note that its job may have been asked
// for: without it there is none to be found.
func noted(directory string) string { return filepath.Join(directory, "asked") }
