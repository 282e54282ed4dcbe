// Package machine keeps the runs of one machine: it starts each once, finds it again,
// says how it is, brings what it reported, ends it and clears up behind it. The
// local platform does so in its own process; on other hosts package agent does, at
// the far end of a connection.
//
// Each attempt has a directory (package rundir) and a runner that outlives
// whoever started it. Everything asked about a run is answered from its claim and
// its files, so any process with the same Options finds every run again. Claims
// and an index of the attempts' directories lie on a disk of this machine; the
// directories themselves may lie elsewhere.
//
// Errors are *Error, whose code says what to do. Nothing here knows the platforms'
// contract: what travels between both ends of a connection stays as it is when that
// changes.
package machine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// Options say what the runs of a machine stand on.
type Options struct {
	Runner      string // absolute path of the runner's binary
	Index       string // absolute: where attempts are written down
	Claims      string // absolute, on a disk of this machine; empty: Index
	Experiments string // absolute: where experiments have their directories unless a job names one
	NNIPlatform string // NNI_PLATFORM as trials see it

	GPUs      gpu.Prober // nil: gpu.Text
	GPULedger string     // its directory; empty: the host's own, gpu.Shared
	// GPUPatience is how long a Submit that is repeated may wait for a GPU.
	GPUPatience time.Duration

	// Ended is called when a run that was started through this Machine may have
	// just ended; nil where nobody wants to know. It must not block.
	Ended func(trial.Key)
}

// Machine is the runs of this machine as far as one Index knows them. It is safe
// for concurrent use, by any number of processes.
type Machine struct {
	Options
	index  index
	scopes func() bool // whether runners get a systemd scope of their own
	gpus   *gpus

	storages storages
}

// New returns the machine. It touches nothing yet.
func New(options Options) *Machine {
	if options.Claims == "" {
		options.Claims = options.Index
	}
	if options.Ended == nil {
		options.Ended = func(trial.Key) {}
	}
	return &Machine{
		Options: options, index: newIndex(options.Index, options.Claims), scopes: sync.OnceValue(scopesWork), gpus: newGPUs(options),
		storages: storages{turns: map[string]chan struct{}{}, timeout: storageTimeout},
	}
}

// Ref is how a run is found again.
type Ref struct {
	Key trial.Key `json:"key"`
	// Directory is the attempt's own. Empty: the index knows it.
	Directory string `json:"directory,omitempty"`
}

// Terms are what holds for a run beside its job.
type Terms struct {
	// PathPrefix is put in front of the trial's PATH.
	PathPrefix string `json:"pathPrefix,omitempty"`
	// SharedCode has the command run in the workspace itself, also where that is
	// a snapshot, of which it would get a copy of its own.
	SharedCode bool `json:"sharedCode,omitempty"`
	// LostAfter has the runner end the run when nobody asked about it for that
	// long; 0: never.
	LostAfter time.Duration `json:"lostAfter,omitempty"`
	// GPU says how GPUs are shared, where the job asks for some. Its Experiment and
	// Count are the job's.
	GPU gpu.Request `json:"gpu,omitzero"`
}

// List returns every run of an experiment, ended ones too; with keys only those of
// them that there are.
func (m *Machine) List(experiment string, keys ...trial.Key) ([]Ref, error) {
	entries, err := m.index.List(experiment, keys...)
	if err != nil {
		return nil, fault("list", err)
	}
	var refs []Ref
	for _, entry := range entries {
		refs = append(refs, Ref{entry.Key, entry.Directory})
	}
	return refs, nil
}

// find returns the run of a reference; os.ErrNotExist where no such run is known.
func (m *Machine) find(ref Ref) (rundir.Run, error) {
	if ref.Directory == "" {
		return m.index.find(ref.Key)
	}
	return rundir.Run{Directory: ref.Directory, Claim: m.index.claim(ref.Key)}, nil
}

func (m *Machine) directoryOf(job Job) string {
	if job.Directory == "" {
		return m.defaultDirectory(job.Key)
	}
	return attemptDirectory(job.Directory, job.Key)
}

func (m *Machine) defaultDirectory(key trial.Key) string {
	return attemptDirectory(filepath.Join(m.Experiments, key.Experiment), key)
}

func attemptDirectory(experiment string, key trial.Key) string {
	return filepath.Join(experiment, "trials", key.TrialID(), "attempt-"+strconv.Itoa(key.Attempt))
}

// fault gives an error of this machine the code that says what to do about it.
func fault(verb string, err error) error {
	var classified *Error
	switch {
	case err == nil || errors.As(err, &classified):
		return err
	case isFull(err):
		return fullFault(verb, err)
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
		return Errorf(Transient, verb, "make this writable for the user who runs trials, and it goes on: %w", err)
	}
	return Errorf(Transient, verb, "%w", err)
}

// Fault gives an error of this machine, such as a full disk, the code that says
// what to do about it. Nil stays nil, and what has a code keeps it.
func Fault(verb string, err error) error { return fault(verb, err) }

// removeIfThere is os.Remove for what may be gone.
func removeIfThere(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
