// Package dlc runs trials as jobs of PAI-DLC, Alibaba Cloud's Deep Learning Containers.
// A trial's command, code, metrics and logs go through the NAS that the section names,
// which is mounted here and in containers alike: the runner is what a job's container
// runs. DLC takes no identity of ours for a job, so jobs are found by their tags.
package dlc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/jobs"
	"github.com/perennial-ml/perennial/platforms/internal/verbs"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// Name is the platform's name in configurations and handles.
const Name = "dlc"

// interval is how often jobs are listed: NNI's users were told that DLC takes few
// calls.
const interval = 10 * time.Second

// eventInterval is how often one job's events are asked for.
const eventInterval = time.Minute

// Options say what the platform stands on.
type Options struct {
	StateDirectory string // absolute, on a disk of this machine
	// Runner is the absolute path of the runner's binary for this kind of machine,
	// which is the kind of DLC's nodes.
	Runner   string
	Interval time.Duration // for tests; 0: every ten seconds
	// Idle is how long an environment lives on without a trial; 0: ten minutes.
	Idle time.Duration
}

// kind is what all sections have in common.
type kind struct {
	Options
	runs *verbs.Kind
	http *http.Client
}

// platform is one section.
type platform struct {
	*verbs.Platform
	*kind
	section platforms.Section
	memory  memory
	reused  *jobs.Memory
}

// memory spares calls. Without it everything is found again.
type memory struct {
	mutex  sync.Mutex
	ids    map[string]string // of jobs by our names
	events map[string]event  // by ids
}

// event is what DLC said of a job that waits.
type event struct {
	text  string
	asked time.Time
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
		Options: options,
		runs:    verbs.New(verbs.Options{Name: Name, StateDirectory: options.StateDirectory, Runner: options.Runner}),
		http:    &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()},
	}
	return platforms.Kind{Traits: shared.runs.Traits(), Check: check, Open: shared.open}
}

func (k *kind) open(section platforms.Section) platforms.Platform {
	p := &platform{kind: k, section: section, memory: memory{ids: map[string]string{}, events: map[string]event{}}, reused: &jobs.Memory{}}
	p.Platform = k.runs.Open(section, p.service)
	return p
}

// service is the section's verbs.Opener.
func (p *platform) service(ctx context.Context, verb string) (verbs.Service, verbs.Nature, error) {
	c, err := p.client(ctx, verb)
	if err != nil {
		return nil, verbs.Nature{}, err
	}
	nature := verbs.Nature{SharedDirectory: filepath.Join(c.Here, "perennial"), There: filepath.Join(c.There, "perennial"), Interval: p.Interval}
	if !c.Reuse {
		return jobs.One{Service: cluster{c, p}}, nature, nil
	}
	environments := jobs.Environments(p.section, nature, p.StateDirectory)
	environments.Service, environments.Memory, environments.Idle, environments.Doubles = cluster{c, p}, p.reused, p.Idle, true
	return environments, nature, nil
}

// endings is how often CleanUp looks whether environments that were told to end have.
const endings = 3

// CleanUp implements platforms.WithCleanup: environments end, and the experiment's jobs go
// that are over, unless the section keeps them.
func (p *platform) CleanUp(ctx context.Context) error {
	c, err := p.client(ctx, "cleanUp")
	if err == nil {
		err = p.Platform.CleanUp(ctx)
	}
	for range endings {
		if err != nil || c.Keep {
			return err
		}
		living, failed := p.removeOver(ctx, c)
		if failed != nil || living == 0 {
			return failed
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(p.Interval):
		}
	}
	return err
}

// removeOver removes the experiment's jobs that are over, and returns how many are not.
func (p *platform) removeOver(ctx context.Context, c *client) (living int, err error) {
	var over []job
	err = c.jobs(ctx, map[string]string{experimentTag: p.section.Experiment}, func(listed []job) bool {
		for _, one := range listed {
			if one.phase() == verbs.Gone {
				over = append(over, one)
			} else {
				living++
			}
		}
		return true
	})
	for _, one := range over {
		err = errors.Join(err, c.remove(ctx, one.ID))
	}
	return living, err
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
	c, err := newClient(now, p.http)
	if err != nil {
		return nil, platforms.Errorf(platforms.Denied, verb, "accessKeyId and accessKeySecret of the section: %w", err)
	}
	return c, nil
}

// cluster is DLC as a jobs.Service for a section.
type cluster struct {
	*client
	*platform
}

// Start implements jobs.Service, as do all that follow.
func (c cluster) Start(ctx context.Context, name string, command []string, _ *int) error {
	found, err := c.named(ctx, map[string]string{runTag: name}, []string{name})
	if err != nil || found[name] != nil {
		return err
	}
	content, err := c.request(c.section.Experiment, name, command)
	if err != nil {
		return err
	}
	id, err := c.create(ctx, content, c.Interval)
	if err == nil {
		c.memory.know(name, id)
	}
	return err
}

func (c cluster) States(ctx context.Context, names []string) ([]jobs.State, error) {
	found, err := c.named(ctx, map[string]string{experimentTag: c.section.Experiment}, names)
	if err != nil {
		return nil, err
	}
	c.askWhy(ctx, found)
	states := make([]jobs.State, len(names))
	for i, name := range names {
		one := found[name]
		if one == nil {
			states[i] = jobs.State{Phase: verbs.Gone, Reason: trial.Reason{Code: "gone", Text: "DLC does not know the job " + name}}
			continue
		}
		states[i] = one.state(c.page(one.ID), c.memory.event(one.ID).text)
	}
	return states, nil
}

func (c cluster) Stop(ctx context.Context, name string) error {
	found, err := c.named(ctx, map[string]string{runTag: name}, []string{name})
	if err != nil || found[name] == nil || found[name].over() {
		return err
	}
	return c.stop(ctx, found[name].ID)
}

// named finds jobs by our names, as far as there are any. Those that were made twice,
// since an answer was lost, are made one.
func (c cluster) named(ctx context.Context, tags map[string]string, names []string) (map[string]*job, error) {
	found, spare := map[string]*job{}, []job{}
	err := c.jobs(ctx, tags, func(listed []job) bool {
		for _, one := range listed {
			if before := found[one.Name]; before != nil {
				if one.decides(*before) {
					one, *before = *before, one
				}
				spare = append(spare, one)
				continue
			}
			found[one.Name] = &one
		}
		return !hasAll(found, names)
	})
	if err != nil {
		return nil, err
	}
	for _, one := range spare {
		if one.phase() == verbs.Waiting {
			_ = c.stop(ctx, one.ID) // what still waits is found again the next time
		}
	}
	return found, c.addMissing(ctx, found, names)
}

func hasAll(found map[string]*job, names []string) bool {
	for _, name := range names {
		if found[name] == nil {
			return false
		}
	}
	return true
}

// addMissing asks for jobs whose ids are known and which no list shows: lists may be
// late.
func (c cluster) addMissing(ctx context.Context, found map[string]*job, names []string) error {
	for _, name := range names {
		if found[name] != nil {
			c.memory.know(name, found[name].ID)
			continue
		}
		if id := c.memory.id(name); id != "" {
			one, err := c.find(ctx, id)
			if err != nil {
				return err
			}
			found[name] = one
		}
	}
	return nil
}

// askWhy asks why a job waits, of one a time: that which was asked about longest ago.
func (c cluster) askWhy(ctx context.Context, found map[string]*job) {
	oldest, at := "", time.Now().Add(-eventInterval)
	for _, one := range found {
		if one == nil || one.phase() != verbs.Waiting || one.Message != "" {
			continue
		}
		if asked := c.memory.event(one.ID).asked; asked.Before(at) {
			oldest, at = one.ID, asked
		}
	}
	if oldest == "" {
		return
	}
	text, _ := c.lastEvent(ctx, oldest) // to know that it waits is enough
	c.memory.note(oldest, event{text, time.Now()})
}

func (m *memory) know(name, id string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.ids[name] = id
}

func (m *memory) id(name string) string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.ids[name]
}

func (m *memory) note(id string, said event) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.events[id] = said
}

func (m *memory) event(id string) event {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.events[id]
}

// page is where a person can look at a job.
func (c *client) page(id string) string {
	return "https://pai-dlc.console.aliyun.com/#/jobs/detail?" + url.Values{"jobId": {id}, "regionId": {c.Region}}.Encode()
}

// Try implements platforms.WithHosts: it lists one job, and looks for the instance type.
func (p *platform) Try(ctx context.Context) ([]platforms.HostState, error) {
	c, err := p.client(ctx, "try")
	if err != nil {
		return nil, err
	}
	_, host := c.address()
	state := platforms.HostState{Name: host, Text: "answers for workspace " + c.Workspace + "; code, logs and metrics go through " + c.Here}
	if wrong := c.wrong(ctx); wrong != nil {
		state.Problems = append(state.Problems, trial.Reason{Code: "service", Text: wrong.Error()})
	}
	if err := rundir.MakeDirectory(filepath.Join(c.Here, "perennial")); err != nil {
		state.Problems = append(state.Problems, trial.Reason{Code: "shared-directory", Text: err.Error()})
	}
	return []platforms.HostState{state}, nil
}

// wrong is what keeps DLC from taking a job, as far as it can be asked.
func (c *client) wrong(ctx context.Context) error {
	if err := c.jobs(ctx, map[string]string{experimentTag: "none"}, func([]job) bool { return false }); err != nil {
		return err
	}
	if dedicated, _ := c.dedicated(); dedicated != nil {
		return nil
	}
	there, err := c.hasSpec(ctx, c.Spec)
	if err != nil || there {
		return nil // who may not ask may still submit
	}
	return fmt.Errorf("the region %s has no instance type %s (ecsSpec)", c.Region, c.Spec)
}
