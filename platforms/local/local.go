// Package local runs trials as processes of this machine, NNI's platform "local".
//
// Each attempt has a directory (package rundir) and a runner that outlives this
// process. Everything asked about a run is answered from its claim and its files,
// so any process with the same state directory finds every run again. Claims and
// an index of the attempts' directories lie in the state directory, which is on a
// disk of this machine; the directories themselves may lie elsewhere.
package local

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/rundir"
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
}

type platform struct {
	Options
	index  index
	scopes func() bool // whether runners get a systemd scope of their own
	ends   chan trial.Key
}

var (
	_ platforms.WithLogs    = (*platform)(nil)
	_ platforms.WithCleanup = (*platform)(nil)
	_ platforms.WithProbe   = (*platform)(nil)
	_ platforms.WithEnds    = (*platform)(nil)
)

// New returns the platform. It touches nothing yet.
func New(options Options) platforms.Platform {
	return &platform{
		Options: options, index: newIndex(options.StateDirectory), scopes: sync.OnceValue(scopesWork),
		ends: make(chan trial.Key, endsKept),
	}
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

func handleOf(key trial.Key, run rundir.Run) platforms.Handle {
	data, _ := json.Marshal(handleData{run.Directory}) // a string cannot fail
	return platforms.Handle{Format: handleFormat, Platform: Name, Key: key, Data: data}
}

// find returns the run of a handle, also of one without Data; os.ErrNotExist
// where no such run is known.
func (p *platform) find(handle platforms.Handle) (rundir.Run, error) {
	if handle.Format > handleFormat {
		return rundir.Run{}, errors.New("the handle was made by a newer version: use that one")
	}
	if len(handle.Data) == 0 {
		return p.index.find(handle.Key)
	}
	var data handleData
	if err := json.Unmarshal(handle.Data, &data); err != nil {
		return rundir.Run{}, err
	}
	return rundir.Run{Directory: data.Directory, Claim: p.index.claim(handle.Key)}, nil
}

// List implements platforms.Platform.
func (p *platform) List(_ context.Context, experiment string) ([]platforms.Handle, error) {
	entries, err := p.index.list(experiment)
	if err != nil {
		return nil, fault("list", err)
	}
	var handles []platforms.Handle
	for _, entry := range entries {
		handles = append(handles, handleOf(entry.Key, p.index.run(entry)))
	}
	return handles, nil
}

// Cancel implements platforms.Platform. The runner finds the intent by itself. An
// attempt that nobody submitted gets a directory and the intent, so that no later
// Submit starts it: Poll then calls it Exited with code -1, never started.
func (p *platform) Cancel(ctx context.Context, handle platforms.Handle, intent trial.Intent) error {
	run, err := p.find(handle)
	if errors.Is(err, fs.ErrNotExist) {
		run, err = p.index.add(handle.Key, p.defaultDirectory(handle.Key))
	}
	if err != nil {
		return fault("cancel", err)
	}
	seen, err := run.Observe()
	if err != nil {
		return fault("cancel", err)
	}
	if seen.Exit != nil {
		return nil
	}
	if seen.Over() {
		// Its runner died; what it left behind must not outlive the cancel.
		return fault("cancel", sweep(ctx, run, handle.Key))
	}
	_, err = run.WriteIntent(intent)
	return fault("cancel", err)
}

// Collect implements platforms.Platform. The cursor is a byte offset of the
// journal.
func (p *platform) Collect(_ context.Context, handle platforms.Handle, after platforms.Cursor) ([]metrics.Record, platforms.Cursor, error) {
	run, err := p.find(handle)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, after, nil
	}
	if err != nil {
		return nil, after, fault("collect", err)
	}
	offset, err := offsetOf(after)
	if err != nil {
		return nil, after, err
	}
	records, next, err := metrics.ReadJournal(run.Path(rundir.JournalFile), offset)
	if errors.Is(err, metrics.ErrNoJournal) {
		// Whatever spoiled it, such as a power cut: trying again mends nothing.
		return nil, after, platforms.Errorf(platforms.NotFound, "collect", "%w", err)
	}
	if err != nil || len(records) == 0 {
		return nil, after, fault("collect", err)
	}
	return records, platforms.Cursor(strconv.FormatInt(next, 10)), nil
}

func offsetOf(cursor platforms.Cursor) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	offset, err := strconv.ParseInt(string(cursor), 10, 64)
	if err != nil || offset < 0 {
		return 0, platforms.Errorf(platforms.Invalid, "collect", "%q is no cursor of platform local", cursor)
	}
	return offset, nil
}

var streams = []string{rundir.Stdout, rundir.Stderr, rundir.TrialLog}

// Logs implements platforms.WithLogs.
func (p *platform) Logs(_ context.Context, handle platforms.Handle, stream string) (io.ReadCloser, error) {
	if !slices.Contains(streams, stream) {
		return nil, platforms.Errorf(platforms.NotFound, "logs", "there is no stream %q, only %v", stream, streams)
	}
	run, err := p.find(handle)
	if err == nil {
		var file *os.File
		if file, err = os.Open(run.Path(stream)); err == nil {
			return file, nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return io.NopCloser(eof{}), nil
	}
	return nil, fault("logs", err)
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// fault gives an error of this machine the code that says what to do about it.
func fault(verb string, err error) error {
	var classified *platforms.Error
	switch {
	case err == nil || errors.As(err, &classified):
		return err
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return platforms.Errorf(platforms.Exhausted, verb, "the disk is full, free some space and it goes on: %w", err)
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
		return platforms.Errorf(platforms.Transient, verb, "make this writable for the user who runs trials, and it goes on: %w", err)
	}
	return platforms.Errorf(platforms.Transient, verb, "%w", err)
}
