// Package local runs trials as processes of this machine, NNI's platform "local".
//
// It is package runs behind the platforms' contract: claims and an index of the
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
	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/runs"
	"github.com/perennial-ml/perennial/trial"
)

// Name is the platform's name in configurations and handles.
const Name = "local"

// handleFormat is the number of Handle.Data, which is a handleData.
const handleFormat = 1

// pollInterval is how often files may be looked at: four system calls a run, so
// 1,000 runs cost some milliseconds.
const pollInterval = 500 * time.Millisecond

// endsKept is how many ends wait to be heard of; whoever does not listen gets no
// more, and finds them by Poll.
const endsKept = 1024

// Options say what the platform stands on.
type Options struct {
	Runner         string // absolute path of the runner's binary
	StateDirectory string // absolute, on a disk of this machine
	// GPUs knows this machine's GPUs; nil: gpu.Text. GPULedger is the directory of
	// their ledger; empty: the host's own.
	GPUs      gpu.Prober
	GPULedger string
}

type platform struct {
	Options
	machine *runs.Machine
	ends    chan trial.Key
}

var (
	_ platforms.WithLogs    = (*platform)(nil)
	_ platforms.WithCleanup = (*platform)(nil)
	_ platforms.WithProbe   = (*platform)(nil)
	_ platforms.WithEnds    = (*platform)(nil)
	_ platforms.WithGPUs    = (*platform)(nil)
)

// New returns the platform. It touches nothing yet.
func New(options Options) platforms.Platform {
	p := &platform{Options: options, ends: make(chan trial.Key, endsKept)}
	p.machine = runs.New(runs.Options{
		Runner: options.Runner, Index: filepath.Join(options.StateDirectory, "platforms", Name),
		Experiments: filepath.Join(options.StateDirectory, "experiments"), NNIPlatform: "local", Ended: p.tellEnd,
		GPUs: options.GPUs, GPULedger: options.GPULedger, GPUPatience: gpuPatience,
	})
	return p
}

// Traits implements platforms.Platform. One look is definite, since a lock of the
// kernel answers it.
func (p *platform) Traits() platforms.Traits {
	return platforms.Traits{Name: Name, NNIPlatform: "local", HostBound: true, PollInterval: pollInterval, Losable: 1}
}

// Ends implements platforms.WithEnds. It tells of the runs whose runner this
// process started.
func (p *platform) Ends() <-chan trial.Key { return p.ends }

func (p *platform) tellEnd(key trial.Key) {
	select {
	case p.ends <- key:
	default:
	}
}

// Close implements platforms.Platform.
func (p *platform) Close() error { return nil }

// handleData lets a run be found even if the index is lost.
type handleData struct {
	Directory string `json:"directory"`
}

func handleOf(ref runs.Ref) platforms.Handle {
	data, _ := json.Marshal(handleData{ref.Directory}) // a string cannot fail
	return platforms.Handle{Format: handleFormat, Platform: Name, Key: ref.Key, Data: data}
}

// refOf is the run of a handle, also of one without Data.
func refOf(handle platforms.Handle) (runs.Ref, error) {
	ref := runs.Ref{Key: handle.Key}
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
	terms, err := termsOf(job)
	if err != nil {
		return platforms.Handle{}, err
	}
	ref, err := p.machine.Submit(ctx, job, terms)
	if err != nil {
		return platforms.Handle{}, err
	}
	return handleOf(ref), nil
}

// Poll implements platforms.Platform.
func (p *platform) Poll(ctx context.Context, handles []platforms.Handle) ([]platforms.Report, error) {
	reports := make([]platforms.Report, len(handles))
	for i, handle := range handles {
		if err := ctx.Err(); err != nil {
			return nil, runs.Fault("poll", err)
		}
		reports[i] = p.report(handle)
	}
	return reports, nil
}

func (p *platform) report(handle platforms.Handle) platforms.Report {
	ref, err := refOf(handle)
	if err != nil {
		reason := trial.Reason{Code: "unreadable", Text: err.Error()}
		return platforms.Report{Key: handle.Key, Phase: platforms.Unreachable, Reason: reason}
	}
	return p.machine.Report(ref)
}

// List implements platforms.Platform.
func (p *platform) List(_ context.Context, experiment string) ([]platforms.Handle, error) {
	refs, err := p.machine.List(experiment)
	if err != nil {
		return nil, err
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
		return runs.Fault("cancel", err)
	}
	return p.machine.Cancel(ctx, ref, intent)
}

// Collect implements platforms.Platform.
func (p *platform) Collect(_ context.Context, handle platforms.Handle, after platforms.Cursor) ([]metrics.Record, platforms.Cursor, error) {
	ref, err := refOf(handle)
	if err != nil {
		return nil, after, runs.Fault("collect", err)
	}
	return p.machine.Collect(ref, after)
}

// Logs implements platforms.WithLogs.
func (p *platform) Logs(_ context.Context, handle platforms.Handle, stream string) (io.ReadCloser, error) {
	ref, err := refOf(handle)
	if err != nil {
		return nil, runs.Fault("logs", err)
	}
	return p.machine.Logs(ref, stream)
}

// Probe implements platforms.WithProbe.
func (p *platform) Probe(context.Context) []trial.Reason { return p.machine.Probe() }
