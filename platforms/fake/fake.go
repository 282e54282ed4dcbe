// Package fake is a training platform without processes: what its runs do is
// written in the experiment's configuration, and how far they are follows from the
// clock. It is for trying experiments, for tests and for demonstrations of what
// Perennial does when a platform misbehaves.
//
// A run is one small file, written when it is submitted and complete: its plan.
// Everything asked about it is computed from the plan, its intent and the time,
// so a run goes on while nobody is there and any process finds it again.
package fake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// Name is the platform's name in configurations and handles.
const Name = "fake"

const (
	handleFormat = 1
	// pollInterval is short because a poll costs two small reads a run.
	pollInterval = 200 * time.Millisecond
)

// Options say what the platform stands on.
type Options struct {
	StateDirectory string           // absolute
	Now            func() time.Time // the clock; nil: time.Now
}

// kind is what all sections have in common.
type kind struct {
	directory string
	now       func() time.Time
	writing   sync.Mutex // so that a plan and an intent do not cross in this process
	replies   sync.Mutex // guards the counters of lost replies
}

type platform struct {
	*kind
	section platforms.Section
}

// New returns the kind. Its files are on this host only.
func New(options Options) platforms.Kind {
	shared := &kind{directory: filepath.Join(options.StateDirectory, "platforms", Name), now: options.Now}
	if shared.now == nil {
		shared.now = time.Now
	}
	return platforms.Kind{
		Traits: platforms.Traits{Name: Name, HostBound: true, KeepsIntent: true, PollInterval: pollInterval, Losable: 1},
		Check:  func(options json.RawMessage) error { _, err := ParseOptions(options); return err },
		Open:   func(section platforms.Section) platforms.Platform { return &platform{shared, section} },
	}
}

// Close implements platforms.Platform.
func (p *platform) Close() error { return nil }

// Prepare implements platforms.Platform. No code is ever run, so none is copied.
func (p *platform) Prepare(_ context.Context, bundle platforms.Bundle) (platforms.Workspace, error) {
	return platforms.Workspace{Directory: bundle.CodeDirectory}, nil
}

// Remove implements platforms.WithRemoval.
func (p *platform) Remove(context.Context) error {
	return os.RemoveAll(filepath.Join(p.directory, filepath.Base(p.section.Experiment)))
}

// Submit implements platforms.Platform.
func (p *platform) Submit(ctx context.Context, job platforms.Job) (platforms.Handle, error) {
	options, err := p.options(ctx)
	if err != nil {
		return platforms.Handle{}, err
	}
	if err := options.checkToken(); err != nil {
		return platforms.Handle{}, err
	}
	behaviour := options.behaviourOf(job.Key)
	if err := p.begin(job, behaviour); err != nil {
		return platforms.Handle{}, fault("submit", err)
	}
	lost, err := p.loseReply(job.Key, behaviour.LostReplies)
	if err != nil {
		return platforms.Handle{}, fault("submit", err)
	}
	if lost {
		return platforms.Handle{}, platforms.Errorf(platforms.Transient, "submit", "the answer was lost, as configured")
	}
	return handleOf(job.Key), nil
}

func (p *platform) options(ctx context.Context) (Settings, error) {
	text, err := p.section.Options(ctx)
	if err != nil {
		return Settings{}, err
	}
	options, err := ParseOptions(text)
	if err != nil {
		err = platforms.Errorf(platforms.Invalid, "submit", "%w", err)
	}
	return options, err
}

// begin writes the run's plan unless there is one, or an intent came first.
func (p *platform) begin(job platforms.Job, behaviour Behaviour) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	present, err := p.read(job.Key)
	if err == nil && present.plan != nil {
		return job.CheckParameters([]byte(present.plan.Parameter))
	}
	if err != nil || present.intent != nil {
		return err
	}
	plan, err := newPlan(job, behaviour, p.now())
	if err != nil {
		return platforms.Errorf(platforms.Invalid, "submit", "%w", err)
	}
	if err := p.endEarlier(job.Key); err != nil {
		return err
	}
	return p.create(p.path(job.Key, planSuffix), plan)
}

func (p *platform) endEarlier(key trial.Key) error {
	for key.Attempt--; key.Attempt > 0; key.Attempt-- {
		err := p.end(key, trial.Intent{Cause: trial.CauseSuperseded})
		if err != nil {
			return err
		}
	}
	return nil
}

// loseReply counts the answers that were lost on purpose, durably.
func (p *platform) loseReply(key trial.Key, wanted int) (bool, error) {
	if wanted == 0 {
		return false, nil
	}
	p.replies.Lock()
	defer p.replies.Unlock()
	path := p.path(key, repliesSuffix)
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	lost, _ := strconv.Atoi(string(content)) // nothing is 0
	if lost >= wanted {
		return false, nil
	}
	return true, rundir.WriteFile(path, []byte(strconv.Itoa(lost+1)), 0o600)
}

// Poll implements platforms.Platform.
func (p *platform) Poll(ctx context.Context, questions []platforms.Question) ([]platforms.Report, error) {
	reports := make([]platforms.Report, len(questions))
	for i, asked := range questions {
		if err := ctx.Err(); err != nil {
			return nil, fault("poll", err)
		}
		run, err := p.read(asked.Handle.Key)
		if err != nil {
			return nil, fault("poll", err)
		}
		reports[i] = run.report(asked.Handle.Key, p.now())
	}
	return reports, nil
}

// List implements platforms.Platform.
func (p *platform) List(_ context.Context, keys ...trial.Key) ([]platforms.Handle, error) {
	if len(keys) > 0 {
		return p.those(keys)
	}
	experiment := p.section.Experiment
	files, err := os.ReadDir(p.experiment(experiment))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault("list", err)
	}
	var handles []platforms.Handle
	known := map[trial.Key]bool{}
	for _, file := range files {
		key, err := keyOf(experiment, file.Name())
		if err != nil || known[key] {
			continue
		}
		known[key] = true
		handles = append(handles, handleOf(key))
	}
	return handles, nil
}

// those are the runs among some.
func (p *platform) those(keys []trial.Key) (handles []platforms.Handle, err error) {
	for _, key := range keys {
		run, err := p.read(key)
		if err != nil {
			return nil, fault("list", err)
		}
		if run.plan != nil || run.intent != nil {
			handles = append(handles, handleOf(key))
		}
	}
	return handles, nil
}

func handleOf(key trial.Key) platforms.Handle {
	return platforms.Handle{Format: handleFormat, Platform: Name, Key: key}
}

// Cancel implements platforms.Platform. The run ends at once, by TERM.
func (p *platform) Cancel(_ context.Context, handle platforms.Handle, intent trial.Intent) error {
	run, err := p.read(handle.Key)
	if err != nil {
		return fault("cancel", err)
	}
	if run.unreachable(p.now()) {
		return platforms.Errorf(platforms.Transient, "cancel", "unreachable, as configured")
	}
	return fault("cancel", p.cancel(handle.Key, intent))
}

func (p *platform) cancel(key trial.Key, intent trial.Intent) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	return p.end(key, intent)
}

// end notes an intent for a run that has not ended, the first one only.
func (p *platform) end(key trial.Key, intent trial.Intent) error {
	run, err := p.read(key)
	now := p.now()
	if err != nil || run.report(key, now).Phase.Definite() {
		return err
	}
	return p.create(p.path(key, intentSuffix), noted{Format: planFormat, Intent: intent, Time: now})
}

// Collect implements platforms.Platform. The cursor is a record's number.
func (p *platform) Collect(_ context.Context, handle platforms.Handle, after platforms.Cursor) ([]metrics.Record, platforms.Cursor, error) {
	run, err := p.read(handle.Key)
	if err != nil {
		return nil, after, fault("collect", err)
	}
	if run.unreachable(p.now()) {
		return nil, after, platforms.Errorf(platforms.Transient, "collect", "unreachable, as configured")
	}
	seen, err := strconv.Atoi("0" + string(after))
	if err != nil {
		return nil, after, platforms.Errorf(platforms.Invalid, "collect", "%q is no cursor of platform fake", after)
	}
	records := run.records(p.now())
	if seen >= len(records) {
		return nil, after, nil
	}
	return records[seen:], platforms.Cursor(strconv.Itoa(len(records))), nil
}

// Logs implements platforms.WithLogs. Nothing is ever printed.
func (p *platform) Logs(_ context.Context, handle platforms.Handle, wanted platforms.Log) (io.ReadCloser, error) {
	run, err := p.read(handle.Key)
	if err != nil {
		return nil, fault("logs", err)
	}
	if run.unreachable(p.now()) {
		return nil, platforms.Errorf(platforms.Transient, "logs", "unreachable, as configured")
	}
	content := ""
	if run.plan != nil && wanted.Stream == trial.ParameterFile {
		content = run.plan.Parameter
	}
	return io.NopCloser(strings.NewReader(content[min(int(wanted.From), len(content)):])), nil
}

// Suffixes of the files of a run, whose names begin with sequence and attempt.
const (
	planSuffix    = ".plan"
	intentSuffix  = ".intent"
	repliesSuffix = ".replies"
)

func (p *platform) experiment(id string) string {
	return filepath.Join(p.directory, filepath.Base(id))
}

func (p *platform) path(key trial.Key, suffix string) string {
	return filepath.Join(p.experiment(key.Experiment), fmt.Sprintf("%d-%d%s", key.Sequence, key.Attempt, suffix))
}

func keyOf(experiment, name string) (trial.Key, error) {
	if strings.HasPrefix(name, ".") {
		return trial.Key{}, errors.New("a file that is still being written")
	}
	key := trial.Key{Experiment: experiment}
	stem := strings.TrimSuffix(name, filepath.Ext(name))
	_, err := fmt.Sscanf(stem, "%d-%d", &key.Sequence, &key.Attempt)
	return key, err
}

func (p *platform) create(path string, value any) error {
	content, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if err := rundir.MakeDirectory(filepath.Dir(path)); err != nil {
		return err
	}
	err = rundir.CreateFile(path, content, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

func (p *platform) read(key trial.Key) (run, error) {
	var found run
	// The intent is read first: one that is older than the plan forbids the plan.
	err := readFile(p.path(key, intentSuffix), &found.intent)
	return found, errors.Join(err, readFile(p.path(key, planSuffix), &found.plan))
}

// readFile leaves into nil where there is no file.
func readFile[T any](path string, into **T) error {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("%s is damaged: %w", path, err)
	}
	return nil
}

func fault(verb string, err error) error {
	var classified *platforms.Error
	if err == nil || errors.As(err, &classified) {
		return err
	}
	return platforms.Errorf(platforms.Transient, verb, "%w", err)
}
