package verbs

import (
	"context"
	"encoding/json"
	"time"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/trial"
)

// Service starts, watches and ends jobs. Its errors are *platforms.Error. Of what it
// is asked about the runs of one section only Submit of one key is called at a time.
type Service interface {
	// Submit has a run started, or found, never started twice by its name, and returns
	// what is to be kept for the service.
	Submit(context.Context, Submission) (json.RawMessage, error)
	// Poll returns a report for each run, in their order.
	Poll(context.Context, []Question) ([]Report, error)
	// Cancel has a run ended. It succeeds where there is none.
	Cancel(context.Context, Cancellation) error
	// Prepare, Logs and CleanUp may do nothing; of the first two nobody asks where
	// there is a shared directory.
	Prepare(ctx context.Context, codeDirectory string) (json.RawMessage, error)
	Logs(context.Context, LogQuestion) (string, error)
	CleanUp(context.Context) error
}

// Opener returns a section's service with the credentials that it has now, and what it
// is like.
type Opener func(ctx context.Context, verb string) (Service, Nature, error)

// Nature is what a service is like.
type Nature struct {
	// SharedDirectory is a directory, absolute, that this machine and all that run
	// trials have in common. Then code, logs and metrics go through it.
	SharedDirectory string
	There           string        // what it is called where trials run; empty: the same
	Interval        time.Duration // how often the service may be polled
}

// Run names one attempt at a trial.
type Run struct {
	Key  trial.Key `json:"key"`
	Name string    `json:"name"` // of the run, unique for ever: letters, digits and hyphens
	// Directory is the attempt's own: in the shared directory, or else on this
	// machine only.
	Directory string          `json:"directory"`
	Data      json.RawMessage `json:"data"` // what submit answered, null while that is unknown
}

// Submission is what Submit is asked for.
type Submission struct {
	Run
	// Command starts the run, with a shared directory: words, not for a shell. It
	// may be started by whatever is at hand, once; a second start of it does nothing.
	Command []string `json:"command,omitempty"`
	// Job is all of the trial, without a shared directory.
	Job  *Job `json:"job,omitempty"`
	GPUs *int `json:"gpus,omitempty"` // unset is not 0
	// MaxDuration is the trial's limit in seconds, 0 for none. The command keeps it.
	MaxDuration float64 `json:"maxDuration"`
}

// Job is what a service without a shared directory needs to run a trial.
type Job struct {
	CodeDirectory string            `json:"codeDirectory"` // on this machine
	Workspace     json.RawMessage   `json:"workspace"`     // what prepare answered, null if it has no such verb
	Command       string            `json:"command"`       // for a shell, in the code directory
	Parameter     string            `json:"parameter"`     // the content of NNI's parameter.cfg
	Parameters    trial.Parameters  `json:"parameters"`
	Variables     map[string]string `json:"variables"` // the trial's, but for those that name directories
	Grace         float64           `json:"grace"`     // seconds between TERM and KILL
	// LogLimit and TrialModule are for services that have the runner run the trial.
	LogLimit    int64        `json:"-"`
	TrialModule trial.Module `json:"-"`
}

// Question asks how a run is and, without a shared directory, what it has reported
// after a cursor, which is empty at first.
type Question struct {
	Run
	After string `json:"after"`
}

// The phases that a service may report. With a shared directory Gone is the one
// end: how the trial ended lies there.
const (
	Waiting = "waiting"
	Running = "running"
	Exited  = "exited" // with Exit
	Gone    = "gone"   // it is not there any more and never will be
	Unknown = "unknown"
)

// Report is how a run is.
type Report struct {
	Phase  string `json:"phase"`
	Reason Reason `json:"reason"` // why it waits, is gone or unknown
	Host   string `json:"host"`
	URL    string `json:"url"`
	// TensorBoard is where people see that of the run; empty where there is none.
	TensorBoard string `json:"tensorBoard"`
	// Output is the directory of this machine that has what the run left; empty where
	// there is none.
	Output  string          `json:"-"`
	Started time.Time       `json:"started"`
	Ended   time.Time       `json:"ended"`
	Exit    *trial.Exit     `json:"exit"`
	Data    json.RawMessage `json:"data"` // the run's from now on; null: as it was
	// Records follow the question's After; Next is the cursor after them. The records
	// of one that has exited are all there, unless More says that there are others.
	Records []metrics.Record `json:"records"`
	Next    string           `json:"next"`
	More    bool             `json:"more"`
}

// Reason is a trial.Reason, or just its text.
type Reason trial.Reason

// UnmarshalJSON reads both forms.
func (r *Reason) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &r.Text) == nil {
		return nil
	}
	return json.Unmarshal(text, (*trial.Reason)(r))
}

// Cancellation has a run ended. With a shared directory one that runs ends by
// itself, and only what has not started is to be kept from it, unless Force is set.
type Cancellation struct {
	Run
	Intent trial.Intent `json:"intent"`
	Force  bool         `json:"force"`
}

// LogQuestion asks for what a run printed, from a byte on.
type LogQuestion struct {
	Run
	Stream string `json:"stream"`
	From   int64  `json:"from"`
}
