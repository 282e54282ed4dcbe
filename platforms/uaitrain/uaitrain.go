// Package uaitrain runs trials as jobs of UCloud's UAI-Train. A trial's command, code,
// metrics and logs go through the UFS that the section names, which is mounted here and
// in jobs alike: the runner is what a job runs, behind a Python file, since the service
// starts nothing else. It takes no identity of ours for a job, so jobs are found by
// their memo.
package uaitrain

import (
	"context"
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
	// outputThere is where jobs find their output, for ever.
	outputThere = "/data/output"
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
}

// platform is one section.
type platform struct {
	*verbs.Platform
	*kind
	section platforms.Section
	known   catalogue
	memory  memory
}

// memory spares calls. Without it everything is found again.
type memory struct {
	mutex sync.Mutex
	over  map[string]time.Time // when jobs were first seen to be over
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
	}
	traits := shared.runs.Traits()
	traits.TriedFirst = true
	return platforms.Kind{Traits: traits, Check: check, Open: shared.open}
}

func (k *kind) open(section platforms.Section) platforms.Platform {
	p := &platform{kind: k, section: section, memory: memory{over: map[string]time.Time{}}}
	p.Platform = k.runs.Open(section, p.service)
	return p
}

// service is the section's verbs.Opener.
func (p *platform) service(ctx context.Context, verb string) (verbs.Service, verbs.Nature, error) {
	c, err := p.client(ctx, verb)
	if err != nil {
		return nil, verbs.Nature{}, err
	}
	return cluster{c, p}, verbs.Nature{SharedDirectory: c.mount(), There: outputThere, Interval: p.Interval}, nil
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
	found, err := c.offer(ctx, "try", &p.known)
	if err == nil {
		state.Text = fmt.Sprintf("has %s at a unit price of %d.%02d CNY, for %d to %d hours; code, logs and metrics go through %s",
			c.nodes(), found.price/100, found.price%100, found.least, found.most, c.mount())
		_, err = c.jobs(ctx, "try")
	}
	if err != nil && !errors.As(err, &state.Faults) {
		state.Problems = append(state.Problems, problem(err))
	}
	if err := rundir.MakeDirectory(c.mount()); err != nil {
		state.Problems = append(state.Problems, trial.Reason{Code: "shared-directory", Text: err.Error()})
	}
	return []platforms.HostState{state}, nil
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
