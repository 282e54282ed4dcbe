// Package local runs trials as processes of this machine, NNI's platform "local".
//
// It is package machine behind the platforms' contract: claims and an index of the
// attempts' directories lie in the state directory, which is on a disk of this
// machine; the directories themselves may lie elsewhere.
package local

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"time"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/machine"
	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/machines"
	"github.com/perennial-ml/perennial/trial"
)

// Name is the platform's name in configurations and handles.
const Name = "local"

// handleFormat is the number of Handle.Data, which is a handleData.
const handleFormat = 1

// pollInterval is how often files may be looked at: four system calls a run, so
// 1,000 runs cost some milliseconds.
const pollInterval = 500 * time.Millisecond

// Options say what the platform stands on.
type Options struct {
	Runner         string // absolute path of the runner's binary
	StateDirectory string // absolute, on a disk of this machine
	// GPUs knows this machine's GPUs; nil: gpu.Text. GPULedger is the directory of
	// their ledger; empty: the host's own.
	GPUs      gpu.Prober
	GPULedger string
}

// kind is what all sections have in common: the runs of this machine.
type kind struct {
	machine *machine.Machine
	ended   platforms.Ends
}

type platform struct {
	*kind
	section platforms.Section
	ends    <-chan trial.Key
	stop    func()
}

var (
	_ platforms.WithLogs = (*platform)(nil)
	_ platforms.WithEnds = (*platform)(nil)
	_ platforms.WithGPUs = (*platform)(nil)

	_ platforms.WithRemoval = (*platform)(nil)
)

// New returns the kind. It touches nothing yet. One look at a run is definite, since
// a lock of the kernel answers it.
func New(options Options) platforms.Kind {
	k := &kind{}
	k.machine = machine.New(machine.Options{
		Runner: options.Runner, Index: filepath.Join(options.StateDirectory, "platforms", Name),
		Experiments: filepath.Join(options.StateDirectory, "experiments"), NNIPlatform: "local", Ended: k.ended.Tell,
		GPUs: options.GPUs, GPULedger: options.GPULedger, GPUPatience: gpuPatience,
	})
	return platforms.Kind{
		Traits: platforms.Traits{Name: Name, HostBound: true, RunsHere: true, KeepsIntent: true, PollInterval: pollInterval, Losable: 1},
		Open:   k.open,
		Probe:  func(context.Context) []trial.Reason { return k.machine.Probe() },
	}
}

func (k *kind) open(section platforms.Section) platforms.Platform {
	p := &platform{kind: k, section: section}
	p.ends, p.stop = k.ended.Listen(section.Experiment)
	return p
}

// Ends implements platforms.WithEnds. It tells of the runs whose runner this
// process started.
func (p *platform) Ends() <-chan trial.Key { return p.ends }

// Close implements platforms.Platform.
func (p *platform) Close() error {
	p.stop()
	return nil
}

// Remove implements platforms.WithRemoval.
func (p *platform) Remove(context.Context) error {
	return machines.Error(p.machine.Remove(p.section.Experiment))
}

// handleData lets a run be found even if the index is lost.
type handleData struct {
	Directory string `json:"directory"`
}

func handleOf(ref machine.Ref) platforms.Handle {
	data, _ := json.Marshal(handleData{ref.Directory}) // a string cannot fail
	return platforms.Handle{Format: handleFormat, Platform: Name, Key: ref.Key, Data: data}
}

// refOf is the run of a handle, also of one without Data.
func refOf(handle platforms.Handle) (machine.Ref, error) {
	ref := machine.Ref{Key: handle.Key}
	if handle.Format > handleFormat {
		return ref, errors.New("the handle was made by a newer version: use that one")
	}
	if len(handle.Data) == 0 {
		return ref, nil
	}
	var data handleData
	err := json.Unmarshal(handle.Data, &data)
	ref.Directory = data.Directory
	return ref, err
}

// Submit implements platforms.Platform.
func (p *platform) Submit(ctx context.Context, job platforms.Job) (platforms.Handle, error) {
	terms, err := p.terms(ctx, job)
	if err != nil {
		return platforms.Handle{}, err
	}
	ref, err := p.machine.Submit(ctx, machines.Job(job), terms)
	if err != nil {
		return platforms.Handle{}, machines.Error(err)
	}
	return handleOf(ref), nil
}

// Poll implements platforms.Platform.
func (p *platform) Poll(ctx context.Context, questions []platforms.Question) ([]platforms.Report, error) {
	reports := make([]platforms.Report, len(questions))
	for i, asked := range questions {
		if err := ctx.Err(); err != nil {
			return nil, machines.Fault("poll", err)
		}
		reports[i] = p.report(asked.Handle)
	}
	return reports, nil
}

func (p *platform) report(handle platforms.Handle) platforms.Report {
	ref, err := refOf(handle)
	if err != nil {
		reason := trial.Reason{Code: "unreadable", Text: err.Error()}
		return platforms.Report{Key: handle.Key, Phase: platforms.Unreachable, Reason: reason}
	}
	return machines.Report(p.machine.Report(ref))
}

// List implements platforms.Platform.
func (p *platform) List(_ context.Context, keys ...trial.Key) ([]platforms.Handle, error) {
	refs, err := p.machine.List(p.section.Experiment, keys...)
	if err != nil {
		return nil, machines.Error(err)
	}
	var handles []platforms.Handle
	for _, ref := range refs {
		handles = append(handles, handleOf(ref))
	}
	return handles, nil
}

// Cancel implements platforms.Platform. Poll calls an attempt that nobody
// submitted Exited with code -1, never started.
func (p *platform) Cancel(ctx context.Context, handle platforms.Handle, intent trial.Intent) error {
	ref, err := refOf(handle)
	if err != nil {
		return machines.Fault("cancel", err)
	}
	return machines.Error(p.machine.Cancel(ctx, ref, intent))
}

// Collect implements platforms.Platform.
func (p *platform) Collect(_ context.Context, handle platforms.Handle, after platforms.Cursor) ([]metrics.Record, platforms.Cursor, error) {
	ref, err := refOf(handle)
	if err != nil {
		return nil, after, machines.Fault("collect", err)
	}
	records, next, err := p.machine.Collect(ref, machine.Cursor(after))
	return records, platforms.Cursor(next), machines.Error(err)
}

// Logs implements platforms.WithLogs.
func (p *platform) Logs(_ context.Context, handle platforms.Handle, wanted platforms.Log) (io.ReadCloser, error) {
	ref, err := refOf(handle)
	if err != nil {
		return nil, machines.Fault("logs", err)
	}
	if wanted.Replica != "" {
		return nil, platforms.Errorf(platforms.NotFound, "logs", "a trial on platform local has no replicas")
	}
	printed, err := p.machine.Logs(ref, wanted.Stream, wanted.From)
	return printed, machines.Error(err)
}
