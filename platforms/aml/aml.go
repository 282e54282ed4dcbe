// Package aml runs trials as command jobs of Azure Machine Learning, by its API v2. Code
// and the runner are an asset of the workspace, named by their content; the runner is
// what a job runs, and what it reports, its end too, comes back in the job's log.
package aml

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	ml "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/machinelearning/armmachinelearning/v4"
	"golang.org/x/sync/errgroup"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/archives"
	"github.com/perennial-ml/perennial/platforms/internal/verbs"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/runner/stream"
	"github.com/perennial-ml/perennial/trial"
)

// Name is the platform's name in configurations and handles.
const Name = "aml"

const (
	// interval is how often jobs are asked about, and atOnce how many at a time.
	interval = 10 * time.Second
	atOnce   = 8
	// behind is how long after a job's end its log may still lack what was printed last.
	behind = time.Minute
	// logFile is where Azure keeps what a job prints.
	logFile = "user_logs/std_log.txt"
	// assetVersion is that of all assets: their names change with what is in them.
	assetVersion = "1"
	archiveName  = "code.tar.gz"
	runnerName   = "perennial-runner"
	// unasked is how long a run's journal is kept that nobody asks about: many times the
	// time between two questions about a run that is not over.
	unasked = time.Hour
	// terminated is the exit code of what TERM ended.
	terminated = 143
)

// Options say what the platform stands on.
type Options struct {
	StateDirectory string // absolute, on a disk of this machine
	// Runner returns the runner's binary for Azure's nodes.
	Runner func(system, processor string) ([]byte, error)
	// Interval, Behind and HTTP are for tests; 0 and nil: every ten seconds, one minute,
	// and as all else.
	Interval, Behind time.Duration
	HTTP             *http.Client
}

// kind is what all sections have in common.
type kind struct {
	Options
	runs *verbs.Kind
}

// platform is one section.
type platform struct {
	*verbs.Platform
	*kind
	section  platforms.Section
	journals journals
	shown    pause

	mutex  sync.Mutex
	opened *client // nil: not yet
}

var _ platforms.WithHosts = (*platform)(nil)

// New returns the kind. What was submitted is written down on this host.
func New(options Options) platforms.Kind {
	if options.Interval == 0 {
		options.Interval = interval
	}
	if options.Behind == 0 {
		options.Behind = behind
	}
	if options.HTTP == nil {
		options.HTTP = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	}
	shared := &kind{options, verbs.New(verbs.Options{Name: Name, StateDirectory: options.StateDirectory})}
	return platforms.Kind{Traits: shared.runs.Traits(), Check: check, Open: shared.open}
}

func (k *kind) open(section platforms.Section) platforms.Platform {
	p := &platform{kind: k, section: section, journals: journals{of: map[trial.Key]*journal{}}}
	p.Platform = k.runs.Open(section, func(ctx context.Context, verb string) (verbs.Service, verbs.Nature, error) {
		c, err := p.client(ctx, verb)
		return workspace{c, p}, verbs.Nature{Interval: p.Interval}, err
	})
	return p
}

// client is made once for a section, and anew where Azure refused a token: it keeps
// tokens, and renews those that have expired.
func (p *platform) client(ctx context.Context, verb string) (*client, error) {
	options, err := p.section.Options(ctx)
	if err != nil {
		return nil, err
	}
	now, err := parse(options)
	if err != nil {
		return nil, platforms.Errorf(platforms.Invalid, verb, "%w", err)
	}
	now = now.completed(p.section.LookupEnv)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.opened == nil || p.opened.settings != now || p.opened.http.refused.Load() {
		if p.opened, err = newClient(now, p.HTTP); err != nil {
			return nil, platforms.Errorf(platforms.Denied, verb, "%w; renew %s", err, renew)
		}
	}
	return p.opened, nil
}

// workspace is Azure ML as a verbs.Service for a section.
type workspace struct {
	*client
	*platform
}

// packed is what Prepare answers, and kept what Submit does.
type packed struct {
	Code string `json:"code"` // the asset's id
	Hash string `json:"hash"`
}

type kept struct {
	Host string `json:"host"` // of the run history
	URL  string `json:"url"`
}

func digest(content ...[]byte) string {
	sum := sha256.Sum256(bytes.Join(content, nil))
	return hex.EncodeToString(sum[:])
}

// Prepare implements verbs.Service, as do all that follow. What is there already is not
// uploaded again.
func (w workspace) Prepare(ctx context.Context, codeDirectory string) (json.RawMessage, error) {
	store := archives.Archives{Directory: filepath.Join(w.StateDirectory, "platforms", Name, "code")}
	hash, err := store.Pack(codeDirectory)
	if err != nil {
		return nil, platforms.Errorf(platforms.Invalid, "prepare", "%w", err)
	}
	archive, err := os.ReadFile(store.Path(hash))
	if err != nil {
		return nil, platforms.Errorf(platforms.Transient, "prepare", "%w", err)
	}
	runner, err := w.Runner("linux", "amd64")
	if err != nil {
		return nil, platforms.Errorf(platforms.NotFound, "prepare", "%w", err)
	}
	id, err := w.asset(ctx, "perennial-"+digest([]byte(hash), runner)[:20], func(place *url.URL) error {
		if err := w.put(ctx, *place, runnerName, runner); err != nil {
			return err
		}
		return w.put(ctx, *place, archiveName, archive)
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(packed{id, hash})
}

func (w workspace) Submit(ctx context.Context, wanted verbs.Submission) (json.RawMessage, error) {
	text := wanted.Job.Workspace
	if string(text) == "null" {
		var err error
		if text, err = w.Prepare(ctx, wanted.Job.CodeDirectory); err != nil {
			return nil, err
		}
	}
	var code packed
	if err := json.Unmarshal(text, &code); err != nil {
		return nil, platforms.Errorf(platforms.Invalid, "submit", "%w", err)
	}
	environment, err := w.environment(ctx)
	if err != nil {
		return nil, err
	}
	made, err := w.command(wanted, code, environment)
	if err != nil {
		return nil, err
	}
	found, err := w.submit(ctx, wanted.Name, made)
	if err != nil {
		return nil, err
	}
	return json.Marshal(keptOf(found))
}

// bootstrap starts the runner. All that it needs of an image is sh, cp, chmod and mktemp.
const bootstrap = `d=$(mktemp -d) && cp ` + runnerName + ` "$d" && chmod +x "$d/` + runnerName + `" && ` +
	`"$d/` + runnerName + `" unpack "$d/code" %s ` + archiveName + ` && cd "$d/code" && exec "$d/` + runnerName + `" container "$d/run"`

func (w workspace) command(wanted verbs.Submission, code packed, environment string) (*ml.CommandJob, error) {
	job, err := stream.Job{
		Spec: rundir.Spec{
			Key: wanted.Key, Command: wanted.Job.Command, NNIPlatform: "local",
			MaxDuration: time.Duration(wanted.MaxDuration * float64(time.Second)), Grace: time.Duration(wanted.Job.Grace * float64(time.Second)),
			LogLimit: wanted.Job.LogLimit, TrialModule: wanted.Job.TrialModule,
		},
		Parameter: []byte(wanted.Job.Parameter), Parameters: json.RawMessage(wanted.Job.Parameters),
	}.Encode()
	if err != nil {
		return nil, platforms.Errorf(platforms.Invalid, "submit", "%w", err)
	}
	text := func(value string) *string { return &value }
	one := int32(1)
	made := &ml.CommandJob{
		Command: text(fmt.Sprintf(bootstrap, code.Hash)), CodeID: &code.Code, EnvironmentID: &environment,
		ComputeID:      text(w.path() + "/computes/" + w.Compute),
		ExperimentName: text(w.experiment()), DisplayName: &wanted.Name,
		EnvironmentVariables: map[string]*string{stream.JobVariable: text(string(job))},
		Resources:            &ml.JobResourceConfiguration{InstanceCount: &one},
		Tags:                 map[string]*string{"perennial-experiment": text(wanted.Key.Experiment), "perennial-trial": text(wanted.Key.TrialID())},
	}
	if w.SharedMemory > 0 {
		made.Resources.ShmSize = text(fmt.Sprintf("%dm", w.SharedMemory))
	}
	return made, nil
}

// experiment is what the studio shows all jobs of an experiment under.
func (w workspace) experiment() string { return "perennial-" + w.section.Experiment }

// keptOf is what is kept of a job: where its run history is, and its page.
func keptOf(found *ml.JobBaseProperties) kept {
	endpoint := func(name string) string {
		if s := found.Services[name]; s != nil && s.Endpoint != nil {
			return *s.Endpoint
		}
		return ""
	}
	at, err := url.Parse(endpoint("Tracking"))
	if err != nil || at.Host == "" {
		return kept{URL: endpoint("Studio")}
	}
	return kept{Host: "https://" + at.Host, URL: endpoint("Studio")}
}

// Poll asks about each run alone. That one of them cannot be asked about keeps nothing from
// the others; a refusal of the login and a limit of calls concern all.
func (w workspace) Poll(ctx context.Context, asked []verbs.Question) ([]verbs.Report, error) {
	w.journals.forgetOld(time.Now())
	reports, faults := make([]verbs.Report, len(asked)), make([]error, len(asked))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, question := range asked {
		group.Go(func() error {
			reports[i], faults[i] = w.look(ctx, question)
			return nil
		})
	}
	_ = group.Wait() // each has its own
	failed := 0
	for i, err := range faults {
		if err == nil {
			continue
		}
		failed++
		if code := platforms.CodeOf(err); failed == len(asked) || code == platforms.Denied || code == platforms.Exhausted {
			return nil, err
		}
		reports[i] = verbs.Report{Phase: verbs.Unknown, Next: asked[i].After, Reason: verbs.Reason{Code: "platform", Text: err.Error()}}
	}
	return reports, nil
}

// look tells how a run is and what it has reported.
func (w workspace) look(ctx context.Context, question verbs.Question) (verbs.Report, error) {
	gone := verbs.Report{Phase: verbs.Gone, Reason: verbs.Reason{Code: "gone", Text: "the workspace has no job " + question.Name}}
	known, data, err := w.known(ctx, question.Run)
	if err != nil || known == nil {
		return gone, err
	}
	told, err := w.details(ctx, known.Host, w.experiment(), question.Name)
	if err != nil {
		return verbs.Report{}, err
	}
	report := verbs.Report{Phase: verbs.Waiting, URL: known.URL, Data: data, Next: question.After,
		Reason: verbs.Reason{Code: "starting", Text: "its run history does not show it yet"}}
	if told == nil {
		if found, err := w.find(ctx, "poll", question.Name); err != nil || found == nil {
			return gone, err
		}
		return report, nil
	}
	number, _ := strconv.ParseInt("0"+question.After, 10, 64)
	j := w.journals.from(question.Key, number)
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if err := w.readLog(ctx, told, j); err != nil {
		return verbs.Report{}, err
	}
	told.describe(&report, j, w.Behind)
	w.show(ctx, question.Run, known.Host, &j.studio)
	report.Records, number = j.after(number)
	report.Next = cursorOf(number)
	if j.exit() != nil && report.Phase == verbs.Exited {
		w.journals.forget(question.Key)
	}
	return report, nil
}

// known is what is kept of a run, from a submit whose answer was lost too. data is nil
// where it was kept before.
func (w workspace) known(ctx context.Context, run verbs.Run) (*kept, json.RawMessage, error) {
	var known kept
	if json.Unmarshal(run.Data, &known) == nil && known.Host != "" {
		return &known, run.Data, nil
	}
	found, err := w.find(ctx, "poll", run.Name)
	if err != nil || found == nil {
		return nil, nil, err
	}
	known = keptOf(found)
	data, err := json.Marshal(known)
	return &known, data, err
}

func over(status ml.JobStatus) bool {
	return status == ml.JobStatusCompleted || status == ml.JobStatusFailed || status == ml.JobStatusCanceled
}

// describe puts what Azure and the run's log tell into words of ours. The log's end
// stands before Azure's word, which knows less and, now and then, comes first.
func (d *details) describe(report *verbs.Report, j *journal, behind time.Duration) {
	report.Started, report.Reason = d.Started, verbs.Reason{}
	status := ml.JobStatus(d.Status)
	complete := over(status) && (d.Started.IsZero() || j.complete(behind))
	if complete {
		j.giveUp()
	}
	exit := j.exit()
	switch {
	case exit != nil && j.reader.Whole():
		report.Phase, report.Exit, report.Started, report.Ended = verbs.Exited, &exit.Exit, exit.Started, exit.Ended
	case over(status) && !complete:
		report.Phase = verbs.Running
		report.Reason = verbs.Reason{Code: "log-behind", Text: "its job is " + strings.ToLower(d.Status) + ", and the rest of its log is not there yet"}
	case status == ml.JobStatusCanceled:
		report.Phase, report.Ended = verbs.Exited, d.Ended
		report.Exit = &trial.Exit{Code: terminated, Signal: "SIGTERM", Outside: true, Text: "its job was canceled"}
	case complete:
		report.Phase = verbs.Gone
		report.Reason = verbs.Reason{Code: "job-over", Text: "its job is " + strings.ToLower(d.Status) + d.why() + ", and left no word of its trial's end"}
	default:
		d.describeLiving(report, status)
	}
}

func (d *details) describeLiving(report *verbs.Report, status ml.JobStatus) {
	switch status {
	case ml.JobStatusNotStarted, ml.JobStatusStarting, ml.JobStatusProvisioning, ml.JobStatusPreparing, ml.JobStatusQueued, ml.JobStatusPaused:
		report.Phase, report.Started = verbs.Waiting, time.Time{}
		report.Reason = verbs.Reason{Code: "queued", Text: "Azure ML says that its job is " + strings.ToLower(d.Status) + d.why()}
	case ml.JobStatusRunning, ml.JobStatusFinalizing, ml.JobStatusCancelRequested, ml.JobStatusNotResponding:
		report.Phase = verbs.Running
	default:
		report.Phase = verbs.Unknown
		report.Reason = verbs.Reason{Code: "platform", Text: "Azure ML says that its job is " + d.Status}
	}
}

func (d *details) why() string {
	if d.Error.Error.Message == "" {
		return ""
	}
	return ": " + d.Error.Error.Message
}

func (w workspace) Cancel(ctx context.Context, wanted verbs.Cancellation) error {
	return w.cancel(ctx, wanted.Name)
}

// Logs returns what a run printed. Azure keeps one log for both streams.
func (w workspace) Logs(ctx context.Context, wanted verbs.LogQuestion) (string, error) {
	if wanted.Stream != rundir.Stdout {
		return "", nil
	}
	known, _, err := w.known(ctx, wanted.Run)
	if err != nil || known == nil {
		return "", err
	}
	told, err := w.details(ctx, known.Host, w.experiment(), wanted.Name)
	if err != nil || told == nil || told.Logs[logFile] == "" {
		return "", err
	}
	var all []byte
	for {
		more, err := w.log(ctx, told.Logs[logFile], int64(len(all)))
		if err != nil {
			return "", err
		}
		if len(more) == 0 {
			return from(printed(all), wanted.From), nil
		}
		all = append(all, more...)
	}
}

// printed is what a log holds beside the journal.
func printed(log []byte) string {
	if len(log) == 0 {
		return ""
	}
	return stream.Output(strings.Split(strings.TrimSuffix(string(log), "\n"), "\n"))
}

func from(text string, at int64) string { return text[min(at, int64(len(text))):] }

// CleanUp leaves assets to others: an experiment of the same code uses the same.
func (workspace) CleanUp(context.Context) error { return nil }

// Try implements platforms.WithHosts: it looks for the compute target.
func (p *platform) Try(ctx context.Context) ([]platforms.HostState, error) {
	c, err := p.client(ctx, "try")
	if err != nil {
		return nil, err
	}
	state := platforms.HostState{Name: "workspace " + c.Workspace, Text: "answers, and has the compute target " + c.Compute}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := c.computes.Get(ctx, c.Group, c.Workspace, c.Compute, nil); err != nil {
		state.Problems = []trial.Reason{{Code: "service", Text: c.fault(ctx, "try", err).Error()}}
	}
	return []platforms.HostState{state}, nil
}
