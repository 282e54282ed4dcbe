// Package platforms is the contract between trials and the places they run on.
// NNI calls such a place a training service.
//
// A Kind is a platform as this build has it. It is opened for a Section, one entry
// of an experiment's trainingService; what comes of that is a Platform. A Platform
// starts a job, says how it is, brings its metrics, and ends it. Every verb is
// idempotent by the job's Key, which is ours: a known key yields the existing run, a
// half-made run is finished, the cancel of a finished or unknown run succeeds, the
// same cursor gives the same prefix. Nothing is remembered in memory that the Handle
// does not carry: a Platform may be closed and opened again between any two calls.
// testsuite/platformtest holds every platform to this.
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

// Platform is one section of a training platform, opened. Methods are safe for
// concurrent use and return *Error where the platform is at fault; a trial that
// failed is a Report, never an error. What fails because of a Close meanwhile is
// Transient.
type Platform interface {
	// Prepare makes an experiment's code available and returns where it is. The
	// same bundle gives the same workspace, however often, also after a CleanUp.
	Prepare(ctx context.Context, bundle Bundle) (Workspace, error)

	// Submit starts a job, or finds the run that an earlier Submit with the same
	// key started, even half. It never starts a second one, and never starts
	// again what has ended, nor what was cancelled before it was ever submitted. A
	// run that was given other parameters is another job's, since the record came
	// from a backup: it is left as it is, and the error's code is Conflict.
	// What an earlier attempt of the same trial left behind is swept first.
	Submit(ctx context.Context, job Job) (Handle, error)
	// Poll reports on every run that is asked about, in their order. It is the
	// call that is made all the time, one for all runs of the section: a platform
	// whose calls are metered answers it with as few as there can be. An error is
	// about the platform as a whole and says nothing about any job; its After is
	// obeyed before the next Poll.
	Poll(ctx context.Context, questions []Question) ([]Report, error)
	// List returns the handles of every run of the section's experiment that the
	// platform knows, ended ones too, also those whose Submit's answer was lost,
	// but for those that were forgotten. It may return those of the experiment's
	// other sections of the same platform. With keys it returns of all these the ones
	// that were asked for, at the cost of those, however many others there are.
	List(ctx context.Context, keys ...trial.Key) ([]Handle, error)
	// Cancel ends a run: it writes the intent durably, asks politely, then kills
	// after the job's grace time, whole process tree. It returns when the intent
	// is durable and the end is under way; Poll tells the end. The first intent
	// wins. A run that had ended by itself keeps its own end. Of a run that was
	// never submitted it leaves a tombstone: a Submit that comes later starts
	// nothing, and Poll calls the run Exited with that intent. Where Traits say
	// that no intent is kept, both are for the record to see to (see
	// Traits.KeepsIntent).
	Cancel(ctx context.Context, handle Handle, intent trial.Intent) error
	// Collect returns journal records that follow the cursor, and the cursor
	// after them. The zero Cursor is the beginning. It may return fewer than
	// there are; none means there is nothing more at present. It is called for a
	// run whose Report carries no Journal, or one with More.
	Collect(ctx context.Context, handle Handle, after Cursor) ([]metrics.Record, Cursor, error)
	// Close releases what the section holds in this process. Runs go on.
	Close() error
}

// Bundle is the section's code, ready to be prepared.
type Bundle struct {
	CodeDirectory string `json:"codeDirectory"` // absolute, on the machine that runs Prepare
	Snapshot      bool   `json:"snapshot"`      // run from an immutable copy instead of in place
	// Again is what Prepare returned before the experiment was cleaned up and then
	// resumed: the same code is to be there again, whatever became of the directory.
	Again *Workspace `json:"again,omitempty"`
}

// Workspace is where a platform keeps an experiment's code. It is on record for
// ever: a resumed experiment is given the one that it began with.
type Workspace struct {
	Directory string          `json:"directory,omitempty"` // on the platform; empty where that is for each run to say
	Hash      string          `json:"hash,omitempty"`      // content address, empty where code runs in place
	Data      json.RawMessage `json:"data,omitempty"`      // the platform's own; it reads all older forms
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
}

// CheckParameters returns an error with code Conflict if a run under the job's key was
// given other parameters, by its trial.ParameterFile.
func (j Job) CheckParameters(given []byte) error {
	if trial.SameParameters(given, j.Parameter) {
		return nil
	}
	return Errorf(Conflict, "submit", "a run with other parameters has the key %s", j.Key)
}

// Handle is all that is kept of a run: with it, any process finds it again. One with
// a Key and nothing else stands for a run whose Submit was never answered.
type Handle struct {
	Format   int       `json:"format"` // of Data; the platform reads all older ones
	Platform string    `json:"platform"`
	Key      trial.Key `json:"key"`
	// Host is the machine that has the run, as people write it, such as
	// "ada@gpu1:2222"; empty where there is none, or none yet.
	Host string `json:"host,omitempty"`
	// URL is where a person can look at the run, empty if nowhere.
	URL string `json:"url,omitempty"`
	// TensorBoard is the address of the run's TensorBoard while it runs, where the
	// platform has one for each; empty where there is none, or none yet.
	TensorBoard string          `json:"tensorBoard,omitempty"`
	Data        json.RawMessage `json:"data,omitempty"`
}

// Question asks how a run is, and what it has reported since.
type Question struct {
	Handle Handle
	// After is how far its journal is on record: what Report.Journal follows.
	After Cursor
}

// Ask asks about runs, from the beginning of their journals on.
func Ask(handles ...Handle) []Question {
	questions := make([]Question, len(handles))
	for i, handle := range handles {
		questions[i].Handle = handle
	}
	return questions
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
	Output  string        `json:"output,omitempty"`  // the attempt's directory where this machine can read it
	Pending bool          `json:"pending,omitempty"` // Exited, but records are still to be collected
	// Handle is the run's from now on, where the platform has learned more of it,
	// such as the machine that was chosen for it; nil: it is as it was.
	Handle *Handle `json:"handle,omitempty"`
	// Journal is what came with the report; nil: Collect is to be asked. A platform
	// whose Collect costs a call, as everywhere that others run, leaves it out of no
	// report.
	Journal *Journal `json:"journal,omitempty"`
}

// Journal is what a run's journal held after Question.After, read after the phase
// was: with a run that has Exited, is not Pending and has no More, it is the rest.
type Journal struct {
	Records []metrics.Record `json:"records,omitempty"`
	Next    Cursor           `json:"next,omitempty"` // the cursor after them
	More    bool             `json:"more,omitempty"` // Collect has what comes after Next
}

// Cursor is a place in a run's journal; opaque, the zero value is its beginning.
type Cursor string

// WithLogs is a Platform that can read what a run printed.
type WithLogs interface {
	// Logs opens what a run printed, or trial.ParameterFile, Job.Parameter as the run
	// was given it: by that a record that has forgotten the trial knows it again. What
	// does not exist is empty.
	Logs(ctx context.Context, handle Handle, wanted Log) (io.ReadCloser, error)
}

// Log is which of the things that a run prints is wanted.
type Log struct {
	Stream string // "stdout", "stderr" or "trial.log"; or trial.ParameterFile
	// Replica names one of several that run a trial together; empty: the one that
	// decides. The error about one that there is not names those that there are.
	Replica string
	From    int64 // the first byte wanted
	// Follow has the stream go on while the run does, where the platform can do
	// that. Elsewhere it ends with what there is, and whoever follows comes again.
	Follow bool
}

// WithReplicas is a Platform that may run a trial by several replicas.
type WithReplicas interface {
	// Replicas returns what Log.Replica may name, the one that decides first. It asks
	// nobody.
	Replicas(ctx context.Context, handle Handle) ([]string, error)
}

// WithCleanup is a Platform that leaves things behind for each experiment.
type WithCleanup interface {
	// CleanUp removes what Prepare made on the platform for the section's
	// experiment, and what was to be forgotten of its runs and is still there. It is
	// called when the experiment is over and all of it is on record, again after a
	// failure, and is harmless when there is nothing left. A resumed experiment is
	// prepared anew.
	CleanUp(ctx context.Context) error
}

// WithRemoval is a Platform that keeps for good what runs have left, such as their
// directories.
type WithRemoval interface {
	// Remove removes all of that of the section's experiment, and what its runs are known
	// by. It is called after CleanUp, again after a failure, and nobody asks about the
	// experiment afterwards. A run that is still alive is an error.
	Remove(ctx context.Context) error
}

// WithForget is a Platform that keeps something for each run which its users would
// see and pay for.
type WithForget interface {
	// Forget removes what the platform keeps of a run that is over and of which
	// everything is on record. It may be called never, where a host dies just then:
	// CleanUp finds what is left. Nobody submits or asks about that run again.
	Forget(ctx context.Context, handle Handle) error
}

// WithEnds is a Platform that can tell of ends without being asked, and whose
// Poll of a single run is cheap.
type WithEnds interface {
	// Ends returns a channel of runs that may have just ended. It is a hint that
	// spares a poll interval: some ends are never told, and none is told twice.
	Ends() <-chan trial.Key
}

// WithGPUs is a Platform that knows the GPUs of its hosts.
type WithGPUs interface {
	// GPUs returns every host that the section names, with its GPUs and who has
	// them. A host that cannot be asked has a Fault.
	GPUs(ctx context.Context) ([]gpu.Host, error)
}

// WithHosts is a Platform whose section names machines, or a service, that can be
// tried.
type WithHosts interface {
	// Try reaches everything that the section names, as a trial's start would, and
	// returns how each is. It starts nothing there.
	Try(ctx context.Context) ([]HostState, error)
}

// HostState is how a machine or a service was found.
type HostState struct {
	Name     string         `json:"name"`
	Text     string         `json:"text"`               // what it is like, for people
	Problems []trial.Reason `json:"problems,omitempty"` // none, and no Faults: trials can run there
	// Faults are what the section says that does not fit what was found there.
	Faults OptionFaults `json:"faults,omitempty"`
}

// Unasked is the code of a Problem that says nothing about the section: what it names
// cannot be reached at present.
const Unasked = "cannot-reach"

// WithRights is a Platform whose service gives rights one by one.
type WithRights interface {
	// Rights is what whoever runs the service applies there so that trials of the
	// section can run, and nothing else: a text of the service's own kind.
	Rights(ctx context.Context) (string, error)
}
