// Package openpai runs trials on OpenPAI, by its API v2 and job protocol 2. A trial's
// command, code, metrics and logs go through the storage that the section names, which
// is mounted here and in containers alike: the runner is what a job's container runs.
package openpai

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/jobs"
	"github.com/perennial-ml/perennial/platforms/internal/verbs"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// Name is the platform's name in configurations and handles.
const Name = "openpai"

// interval is how often jobs are listed: 12 of the 60 lists that a user has in a
// minute, so that five experiments of one user meet no limit.
const interval = 5 * time.Second

// Options say what the platform stands on.
type Options struct {
	StateDirectory string // absolute, on a disk of this machine
	// Runner is the absolute path of the runner's binary for this kind of machine,
	// which is the kind of OpenPAI's nodes.
	Runner string
	// Now is the clock that limits of calls and pauses go by, and Interval how often jobs are
	// listed; nil and 0: time.Now, and every five seconds.
	Now      func() time.Time
	Interval time.Duration
	// Idle is how long an environment lives on without a trial; 0: ten minutes.
	Idle time.Duration
	// Limitless lifts the limits, for a cluster whose administrators have.
	Limitless bool
}

// kind is what all sections have in common.
type kind struct {
	Options
	runs *verbs.Kind
	http *http.Client

	mutex    sync.Mutex
	accounts map[string]*account // by host and user
}

// platform is one section.
type platform struct {
	*verbs.Platform
	*kind
	section platforms.Section
	memory  *jobs.Memory
}

var _ platforms.WithHosts = (*platform)(nil)

// New returns the kind. What was submitted is written down on this host.
func New(options Options) platforms.Kind {
	if options.Interval == 0 {
		options.Interval = interval
	}
	if options.Idle == 0 {
		options.Idle = jobs.UsualIdle
	}
	shared := &kind{
		Options:  options,
		runs:     verbs.New(verbs.Options{Name: Name, StateDirectory: options.StateDirectory, Runner: options.Runner}),
		http:     &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()},
		accounts: map[string]*account{},
	}
	return platforms.Kind{Traits: shared.runs.Traits(), Check: check, Open: shared.open}
}

func (k *kind) open(section platforms.Section) platforms.Platform {
	p := &platform{kind: k, section: section, memory: &jobs.Memory{Now: k.Now}}
	p.Platform = k.runs.Open(section, p.service)
	return p
}

// Close implements platforms.Platform.
func (p *platform) Close() error {
	p.http.CloseIdleConnections()
	return p.Platform.Close()
}

// service is the section's verbs.Opener.
func (p *platform) service(ctx context.Context, verb string) (verbs.Service, verbs.Nature, error) {
	c, err := p.client(ctx, verb)
	if err != nil {
		return nil, verbs.Nature{}, err
	}
	nature := verbs.Nature{SharedDirectory: filepath.Join(c.Here, "perennial"), There: filepath.Join(c.There, "perennial"), Interval: p.Interval}
	service := cluster{c, p.section.Experiment}
	if !c.reuses() {
		return jobs.One{Service: service}, nature, nil
	}
	environments := jobs.Environments(p.section, nature, p.StateDirectory)
	environments.Service, environments.Memory, environments.Idle = service, p.memory, p.Idle
	return environments, nature, nil
}

// client has the section's credentials of now.
func (p *platform) client(ctx context.Context, verb string) (*client, error) {
	options, err := p.section.Options(ctx)
	if err != nil {
		return nil, err
	}
	now, err := parse(options)
	if err != nil {
		return nil, platforms.Errorf(platforms.Invalid, verb, "%w", err)
	}
	return &client{now, p.account(now), p.http}, nil
}

func (k *kind) account(of settings) *account {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	name := of.Host + " " + of.Username
	if k.accounts[name] == nil {
		file := fmt.Sprintf("%x.json", sha256.Sum256([]byte(name)))
		k.accounts[name] = newAccount(k.Now, k.Limitless, filepath.Join(k.StateDirectory, "platforms", Name, "submissions", file))
	}
	return k.accounts[name]
}

// cluster is OpenPAI as a jobs.Service for an experiment.
type cluster struct {
	*client
	experiment string
}

// Start implements jobs.Service, as do all that follow.
func (c cluster) Start(ctx context.Context, name string, command []string, gpus *int) error {
	content, err := c.job(name, command, gpus)
	if err != nil {
		return err
	}
	return c.submit(ctx, content)
}

func (c cluster) States(ctx context.Context, names []string) ([]jobs.State, error) {
	listed, err := c.list(ctx, "perennial-"+c.experiment)
	if err != nil {
		return nil, err
	}
	states := make([]jobs.State, len(names))
	for i, name := range names {
		one, found := listed[name]
		if !found { // the list may be behind
			again, err := c.find(ctx, name)
			if err != nil {
				return nil, err
			}
			if again == nil {
				states[i] = jobs.State{Phase: verbs.Gone, Reason: trial.Reason{Code: "gone", Text: "OpenPAI does not know its job " + name}}
				continue
			}
			one = *again
		}
		states[i] = c.state(one)
	}
	return states, nil
}

func (c cluster) Stop(ctx context.Context, name string) error { return c.stop(ctx, name) }

// state puts what OpenPAI tells of a job into words of ours.
func (c cluster) state(of job) jobs.State {
	state := jobs.State{URL: c.page(of.Name)}
	switch of.State {
	case "WAITING":
		state.Phase, state.Reason = verbs.Waiting, trial.Reason{Code: "queued", Text: "it waits in " + c.queue()}
	case "RUNNING", "STOPPING":
		state.Phase = verbs.Running
	case "SUCCEEDED", "FAILED", "STOPPED":
		state.Phase, state.Reason = verbs.Gone, trial.Reason{Code: "job-over", Text: of.end()}
	default:
		state.Phase, state.Reason = verbs.Unknown, trial.Reason{Code: "platform", Text: fmt.Sprintf("OpenPAI says that its job is %.40q", of.State)}
	}
	return state
}

func (c cluster) queue() string {
	if c.VirtualCluster == "" {
		return "OpenPAI's default virtual cluster"
	}
	return "OpenPAI's virtual cluster " + c.VirtualCluster
}

// end tells how a job of OpenPAI's ended, of which the runner left no word.
func (j job) end() string {
	text := "OpenPAI's job " + j.Name + " is " + strings.ToLower(j.State)
	if j.Exit != nil {
		text += fmt.Sprintf(", with exit code %d", *j.Exit)
	}
	return text + ", and left no word of its trial's end"
}

// page is where a person can look at a job.
func (c cluster) page(name string) string {
	return c.Host + "/job-detail.html?" + url.Values{"username": {c.Username}, "jobName": {name}}.Encode()
}

// Try implements platforms.WithHosts: it logs in and lists one job.
func (p *platform) Try(ctx context.Context) ([]platforms.HostState, error) {
	c, err := p.client(ctx, "try")
	if err != nil {
		return nil, err
	}
	state := platforms.HostState{Name: c.Host, Text: "answers for the user " + c.Username + "; code, logs and metrics go through " + c.Here}
	if err := c.call(ctx, "try", http.MethodGet, "jobs?"+url.Values{"username": {c.Username}, "limit": {"1"}}.Encode(), nil, nil); err != nil {
		state.Problems = append(state.Problems, trial.Reason{Code: "service", Text: err.Error()})
	}
	if err := rundir.MakeDirectory(filepath.Join(c.Here, "perennial")); err != nil {
		state.Problems = append(state.Problems, trial.Reason{Code: "shared-directory", Text: err.Error()})
	}
	return []platforms.HostState{state}, nil
}
