// Package platforms is the contract between trials and the places they run on.
// NNI calls such a place a training service.
//
// A Platform starts a job, says how it is, brings its metrics, and ends it. Every
// verb is idempotent by the job's Key, which is ours: a known key yields the
// existing run, a half-made run is finished, the cancel of a finished or unknown
// run succeeds, the same cursor gives the same prefix. Nothing is remembered in
// memory that the Handle does not carry. testsuite/platformtest holds every
// platform to this.
package platforms

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/trial"
)

// Platform is one training platform. Methods are safe for concurrent use and
// return *Error where the platform is at fault; a trial that failed is a Report,
// never an error.
type Platform interface {
	// Prepare makes an experiment's code available and returns where it is. The
	// same bundle gives the same workspace, however often.
	Prepare(ctx context.Context, bundle Bundle) (Workspace, error)

	// Submit starts a job, or finds the run that an earlier Submit with the same
	// key started, even half. It never starts a second one, and never starts
	// again what has ended. What an earlier attempt of the same trial left
	// behind is swept first.
	Submit(ctx context.Context, job Job) (Handle, error)

	// Poll reports on every handle, in their order. An error is about the
	// platform as a whole and says nothing about any job.
	Poll(ctx context.Context, handles []Handle) ([]Report, error)

	// List returns the handles of every run of an experiment that the platform
	// knows, ended ones too, also those whose Submit's answer was lost.
	List(ctx context.Context, experiment string) ([]Handle, error)

	// Cancel ends a run: it writes the intent durably, asks politely, then kills
	// after the job's grace time, whole process tree. It returns when the intent
	// is durable and the end is under way; Poll tells the end. The first intent
	// wins. A run that had ended by itself keeps its own end.
	Cancel(ctx context.Context, handle Handle, intent trial.Intent) error

	// Collect returns journal records that follow the cursor, and the cursor
	// after them. The zero Cursor is the beginning. It may return fewer than
	// there are; none means there is nothing more at present.
	Collect(ctx context.Context, handle Handle, after Cursor) ([]metrics.Record, Cursor, error)

	// Traits says how the platform behaves, as plain data.
	Traits() Traits

	// Close releases what the platform holds in this process. Runs go on.
	Close() error
}

// Bundle is an experiment's code, ready to be prepared.
type Bundle struct {
	Experiment    string `json:"experiment"`
	CodeDirectory string `json:"codeDirectory"` // absolute, on the machine that runs Prepare
	Snapshot      bool   `json:"snapshot"`      // run from an immutable copy instead of in place
}

// Workspace is where a platform keeps an experiment's code.
type Workspace struct {
	Directory string `json:"directory"`      // on the platform
	Hash      string `json:"hash,omitempty"` // content address, empty where code runs in place
}

// Job is one attempt at one trial, complete: nothing else is needed to run it.
type Job struct {
	Key       trial.Key `json:"key"`
	Workspace Workspace `json:"workspace"`
	Command   string    `json:"command"` // run by a shell in the workspace
	// Parameter is the content of NNI's parameter.cfg, byte for byte;
	// Parameters is the object in it, for our own protocol.
	Parameter  []byte           `json:"parameter"`
	Parameters trial.Parameters `json:"parameters"`
	// Directory is the experiment's directory on the platform, below which the
	// attempt's own directory lies. Empty: the platform chooses.
	Directory string `json:"directory,omitempty"`
	// EnvironmentFile holds the caller's environment; local platform only.
	EnvironmentFile string        `json:"environmentFile,omitempty"`
	MaxDuration     time.Duration `json:"maxDuration,omitempty"` // running time, kept by the runner; 0: unlimited
	Grace           time.Duration `json:"grace,omitempty"`       // between TERM and KILL
	LogLimit        int64         `json:"logLimit,omitempty"`    // bytes kept of each of stdout and stderr
	GPUs            *int          `json:"gpus,omitempty"`        // unset is not 0: NNI hides GPUs on 0
	// Storage is where the attempt has its code and its output; nil: with all else.
	Storage     *trial.SharedStorage `json:"storage,omitempty"`
	TrialModule trial.Module         `json:"trialModule,omitempty"` // when the trial imports our nni; empty: trial.ModuleAuto
	Options     json.RawMessage      `json:"options,omitempty"`     // the platform's own section
}

// Handle is all that is kept of a run: with it, any process finds it again.
type Handle struct {
	Format   int             `json:"format"` // of Data; the platform reads all older ones
	Platform string          `json:"platform"`
	Key      trial.Key       `json:"key"`
	Data     json.RawMessage `json:"data,omitempty"`
}

// Phase is how far a run has come.
type Phase string

// The phases of a run. Exited and Lost are definite: they never change again.
const (
	Absent      Phase = "absent"      // no such run: it was never started
	Waiting     Phase = "waiting"     // accepted, not yet running; Report.Reason says why
	Running     Phase = "running"     //
	Exited      Phase = "exited"      // the command ended; Report.Exit says how
	Lost        Phase = "lost"        // it is definitely over and nobody knows how
	Unreachable Phase = "unreachable" // cannot be asked; never means that it is dead
)

// Definite tells whether a run in this phase is over for good.
func (p Phase) Definite() bool { return p == Exited || p == Lost }

// Report is what a platform knows about one run.
type Report struct {
	Key     trial.Key     `json:"key"`
	Phase   Phase         `json:"phase"`
	Reason  trial.Reason  `json:"reason"`            // why it waits, was lost or cannot be reached
	Started time.Time     `json:"started,omitzero"`  // of the command
	Ended   time.Time     `json:"ended,omitzero"`    // of the command
	Exit    *trial.Exit   `json:"exit,omitempty"`    // with Exited
	Intent  *trial.Intent `json:"intent,omitempty"`  // the first one, if it came before the end
	URL     string        `json:"url,omitempty"`     // where a person can look, empty if nowhere
	Output  string        `json:"output,omitempty"`  // the attempt's directory where this machine can read it
	Pending bool          `json:"pending,omitempty"` // Exited, but records are still to be collected
}

// Cursor is a place in a run's journal; opaque, the zero value is its beginning.
type Cursor string

// Traits are a platform's ways, on which callers decide instead of on its name.
type Traits struct {
	Name         string        `json:"name"`
	NNIPlatform  string        `json:"nniPlatform"`  // NNI_PLATFORM as trials see it
	HostBound    bool          `json:"hostBound"`    // only workers on this very host can act
	CopiesCode   bool          `json:"copiesCode"`   // codeDir is copied, so its limits apply
	PollInterval time.Duration `json:"pollInterval"` // how often Poll may be called
	Losable      int           `json:"losable"`      // definite observations before a run counts as lost, ≥ 1
}

// WithLogs is a Platform that can read what a run printed.
type WithLogs interface {
	// Logs opens a stream ("stdout", "stderr" or "trial.log") from the start, or
	// trial.ParameterFile, Job.Parameter as the run was given it: by that a record
	// that has forgotten the trial knows it again. What does not exist is empty.
	Logs(ctx context.Context, handle Handle, stream string) (io.ReadCloser, error)
}

// WithCleanup is a Platform that leaves things behind for each experiment.
type WithCleanup interface {
	// CleanUp removes what Prepare made for the experiment; runs stay.
	CleanUp(ctx context.Context, experiment string) error
}

// WithEnds is a Platform that can tell of ends without being asked, and whose
// Poll of a single run is cheap.
type WithEnds interface {
	// Ends returns a channel of runs that may have just ended. It is a hint that
	// spares a poll interval: some ends are never told, and none is told twice.
	Ends() <-chan trial.Key
}

// WithProbe is a Platform that can say whether it is fit to run trials.
type WithProbe interface {
	// Probe returns a reason for every thing that is not as it should be.
	Probe(ctx context.Context) []trial.Reason
}

// WithGPUs is a Platform that knows the GPUs of its hosts.
type WithGPUs interface {
	// GPUs returns every host that this section of a configuration names, with its
	// GPUs and who has them. A host that cannot be asked has a Fault.
	GPUs(ctx context.Context, options json.RawMessage) ([]gpu.Host, error)
}

// WithHosts is a Platform whose section of a configuration names machines.
type WithHosts interface {
	// Try reaches every machine that the section names, as a trial's start would,
	// and returns how each is. It starts nothing there.
	Try(ctx context.Context, options json.RawMessage) ([]HostState, error)
}

// HostState is how a machine was found.
type HostState struct {
	Name     string         `json:"name"`
	Text     string         `json:"text"`               // what it is like, for people
	Problems []trial.Reason `json:"problems,omitempty"` // none: trials can run there
}
