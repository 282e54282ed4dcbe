// Package dlts runs trials as jobs of DLTS, Microsoft's DLWorkspace. A trial's command,
// code, metrics and logs go through storage that containers and this machine see alike:
// the runner is what a job's container runs. DLTS takes an id of ours for a job, and none
// of its statuses of HTTP can be believed.
package dlts

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/jobs"
	"github.com/perennial-ml/perennial/platforms/internal/service"
	"github.com/perennial-ml/perennial/platforms/internal/verbs"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// Name is the platform's name in configurations and handles.
const Name = "dlts"

// interval is how often jobs are listed. DLTS sets no limit.
const interval = 5 * time.Second

// Options say what the platform stands on.
type Options struct {
	StateDirectory string // absolute, on a disk of this machine
	// Runner is the absolute path of the runner's binary for this kind of machine,
	// which is the kind of DLTS's nodes.
	Runner   string
	Interval time.Duration // for tests; 0: every five seconds
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
	gpus    sync.Map // kinds of them, by team, cluster and what the section says
	lasts   sync.Map // last lines of jobs' logs, by ids
}

var _ platforms.WithHosts = (*platform)(nil)

// New returns the kind. What was submitted is written down on this host.
func New(options Options) platforms.Kind {
	if options.Interval == 0 {
		options.Interval = interval
	}
	shared := &kind{
		Options: options, http: newHTTP(),
		runs: verbs.New(verbs.Options{Name: Name, StateDirectory: options.StateDirectory, Runner: options.Runner}),
	}
	return platforms.Kind{Traits: shared.runs.Traits(), Check: check, Open: shared.open}
}

func (k *kind) open(section platforms.Section) platforms.Platform {
	p := &platform{kind: k, section: section}
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
	return jobs.One{Service: cluster{c, p}}, nature, nil
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
	return &client{now, p.http}, nil
}

// cluster is DLTS as a jobs.Service for a section.
type cluster struct {
	*client
	*platform
}

// space is the namespace of the ids that jobs have by our names.
var space = uuid.MustParse("8b4f3c6e-7d0f-5a55-9a3b-0a5f2f1d7c11")

// idOf is the id of a job by our name, always the same.
func idOf(name string) string { return uuid.NewSHA1(space, []byte(name)).String() }

// Start implements jobs.Service, as do all that follow.
func (c cluster) Start(ctx context.Context, name string, command []string, gpus *int) error {
	kind, err := c.usualGPUs(ctx)
	if err != nil {
		return err
	}
	return c.submit(ctx, idOf(name), c.request(name, kind, command, gpus))
}

// usualGPUs asks for the team's kind of GPUs once.
func (c cluster) usualGPUs(ctx context.Context) (string, error) {
	of := c.Team + " " + c.cluster() + " " + c.GPUType
	if known, found := c.gpus.Load(of); found {
		return known.(string), nil
	}
	name, err := c.gpuType(ctx)
	if err == nil {
		c.gpus.Store(of, name)
	}
	return name, err
}

func (c cluster) States(ctx context.Context, names []string) ([]jobs.State, error) {
	listed, err := c.list(ctx)
	if err != nil {
		return nil, err
	}
	states := make([]jobs.State, len(names))
	for i, name := range names {
		one, found := listed[idOf(name)]
		if !found { // the list may be behind, and does not go back for ever
			again, err := c.find(ctx, idOf(name))
			if err != nil {
				return nil, err
			}
			if again == nil {
				states[i] = jobs.State{Phase: verbs.Gone, Reason: trial.Reason{Code: "gone", Text: "DLTS does not know its job " + name}}
				continue
			}
			one = *again
		}
		one.ID, one.Name = idOf(name), name
		if states[i], err = c.state(ctx, one); err != nil {
			return nil, err
		}
	}
	return states, nil
}

func (c cluster) Stop(ctx context.Context, name string) error { return c.stop(ctx, idOf(name)) }

// state puts what DLTS tells of a job into words of ours. A job that somebody pauses has
// lost its container: it is ended, as NNI did, so that nobody lets it go on beside the
// trial's next attempt.
func (c cluster) state(ctx context.Context, of job) (jobs.State, error) {
	state := jobs.State{URL: c.client.page(of.ID)}
	switch of.Status {
	case "unapproved", "queued", "scheduling":
		state.Phase, state.Reason = verbs.Waiting, trial.Reason{Code: "queued", Text: of.wait() + because(c.words, of.Error)}
	case "running", "pausing", "killing":
		state.Phase = verbs.Running
	case "finished", "failed", "error", "killed":
		state.Phase, state.Reason = verbs.Gone, trial.Reason{Code: "job-over", Text: "DLTS's job " + of.ID + " is " + of.Status +
			because(c.words, of.Error, c.lastWord(ctx, of)) + ", and left no word of its trial's end"}
	case "paused":
		state.Phase, state.Reason = verbs.Unknown, trial.Reason{Code: "platform", Text: "somebody has paused DLTS's job " + of.ID + ", which ends it"}
		return state, c.stop(ctx, of.ID)
	default:
		state.Phase, state.Reason = verbs.Unknown, trial.Reason{Code: "platform", Text: "DLTS says of its job " + of.ID + " that it is " + service.Words(of.Status)}
	}
	return state, nil
}

// wait is why a job has not started.
func (j job) wait() string {
	if j.Status == "unapproved" {
		return "DLTS's job " + j.ID + " waits to be approved"
	}
	return "DLTS's job " + j.ID + " is " + j.Status
}

// ending tells whether a job is over, or will be by itself.
func (j job) ending() bool {
	switch j.Status {
	case "finished", "failed", "error", "killed", "killing":
		return true
	}
	return false
}

// because is the first text that says anything, as the service's words are to be told.
func because(words func(string) string, texts ...string) string {
	for _, text := range texts {
		if strings.TrimSpace(text) != "" {
			return ": " + words(text)
		}
	}
	return ""
}

// lastWord is the last line that a job printed which went wrong, asked for once.
func (c cluster) lastWord(ctx context.Context, of job) string {
	if of.Status == "finished" || of.Status == "killed" {
		return ""
	}
	if last, known := c.lasts.Load(of.ID); known {
		return last.(string)
	}
	last := c.log(ctx, of.ID)
	c.lasts.Store(of.ID, last)
	return last
}

// request is what DLTS is to run for a name: NNI's job, with an id of ours.
func (s settings) request(name, kind string, command []string, gpus *int) map[string]any {
	count := 0
	if gpus != nil {
		count = *gpus
	}
	wanted := map[string]any{
		"jobId": idOf(name), "jobName": name, "team": s.Team, "vcName": s.Team, "userName": s.Email,
		"gpuType": kind, "resourcegpu": count, "image": s.Image, "cmd": jobs.Line(command),
		"jobType": "training", "jobtrainingtype": "RegularJob", "preemptionAllowed": "False",
		"ssh": false, "ipython": false, "tensorboard": false, "interactivePorts": []int{},
		"workPath": "", "enableworkpath": true, "dataPath": "", "enabledatapath": false, "jobPath": "", "enablejobpath": true,
		"mountpoints": []any{}, "env": []any{}, "hostNetwork": false, "hostIPC": false, "isPrivileged": false, "useGPUTopology": false,
	}
	if s.Priority != 0 {
		wanted["jobPriority"] = s.Priority
	}
	return wanted
}

// Try implements platforms.WithHosts: it lists jobs, asks for the team's kind of GPU and
// writes to the storage.
func (p *platform) Try(ctx context.Context) ([]platforms.HostState, error) {
	c, err := p.client(ctx, "try")
	if err != nil {
		return nil, err
	}
	state := platforms.HostState{Name: c.Dashboard, Text: "answers for " + c.Email + " in team " + c.Team + "; code, logs and metrics go through " + c.Here}
	_, wrong := c.list(ctx)
	if wrong == nil {
		_, wrong = c.gpuType(ctx)
	}
	if wrong != nil {
		state.Problems = append(state.Problems, trial.Reason{Code: "service", Text: wrong.Error()})
	}
	if err := rundir.MakeDirectory(filepath.Join(c.Here, "perennial")); err != nil {
		state.Problems = append(state.Problems, trial.Reason{Code: "shared-directory", Text: err.Error()})
	}
	return []platforms.HostState{state}, nil
}
