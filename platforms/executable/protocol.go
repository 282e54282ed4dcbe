package executable

import (
	"encoding/json"
	"time"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/trial"
)

// Protocol is the number of the protocol that executables are spoken to in.
const Protocol = 1

// call is what every request begins with.
type call struct {
	Protocol   int             `json:"protocol"`
	Experiment string          `json:"experiment"`
	Options    json.RawMessage `json:"options"`
	// State is a directory on this machine in which the executable may keep notes for
	// the experiment. It need not: what it answers to submit is kept for it.
	State string `json:"state"`
}

// run names one attempt at a trial.
type run struct {
	Key  trial.Key `json:"key"`
	Name string    `json:"name"` // of the run, unique for ever: letters, digits and hyphens
	// Directory is the attempt's own: in the shared directory, or else on this
	// machine only.
	Directory string          `json:"directory"`
	Data      json.RawMessage `json:"data"` // what submit answered, null while that is unknown
}

// description is the answer to describe: what the executable is like with these
// options.
type description struct {
	Protocol int `json:"protocol"`
	// SharedDirectory is a directory, absolute, that this machine and all that run
	// trials have in common. Then code, logs and metrics go through it, and the
	// executable has only to start commands, watch and end them.
	SharedDirectory string  `json:"sharedDirectory"`
	PollInterval    float64 `json:"pollInterval"` // seconds; the default is 5
	// Verbs are those of prepare, logs and cleanUp that the executable has.
	Verbs  []string `json:"verbs"`
	Faults []fault  `json:"faults"` // of the options
}

// fault is one thing that is wrong with the options.
type fault struct {
	Field   string `json:"field"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

type describeRequest struct {
	call
}

// submitRequest has a run started, or found, never started twice.
type submitRequest struct {
	call
	run
	// Command starts the run, with a shared directory: words, not for a shell. It
	// may be started by whatever is at hand, once; a second start of it does nothing.
	Command []string `json:"command,omitempty"`
	// Job is all of the trial, without a shared directory.
	Job  *job `json:"job,omitempty"`
	GPUs *int `json:"gpus,omitempty"` // unset is not 0
	// MaxDuration is the trial's limit in seconds, 0 for none. The command keeps it.
	MaxDuration float64 `json:"maxDuration"`
}

// job is what an executable without a shared directory needs to run a trial.
type job struct {
	CodeDirectory string            `json:"codeDirectory"` // on this machine
	Workspace     json.RawMessage   `json:"workspace"`     // what prepare answered, null if it has no such verb
	Command       string            `json:"command"`       // for a shell, in the code directory
	Parameter     string            `json:"parameter"`     // the content of NNI's parameter.cfg
	Parameters    trial.Parameters  `json:"parameters"`
	Variables     map[string]string `json:"variables"` // the trial's, but for those that name directories
	Grace         float64           `json:"grace"`     // seconds between TERM and KILL
}

type submitAnswer struct {
	Data json.RawMessage `json:"data"`
}

type pollRequest struct {
	call
	Runs []question `json:"runs"`
}

// question asks how a run is and, without a shared directory, what it has reported
// after a cursor, which is empty at first.
type question struct {
	run
	After string `json:"after"`
}

type pollAnswer struct {
	Reports []report `json:"reports"` // one for each run, in their order
}

// The phases that an executable may report. With a shared directory gone is the one
// end: how the trial ended lies there.
const (
	waiting = "waiting"
	running = "running"
	exited  = "exited" // with Exit
	gone    = "gone"   // it is not there any more and never will be
	unknown = "unknown"
)

type report struct {
	Phase   string          `json:"phase"`
	Reason  reason          `json:"reason"` // why it waits, is gone or unknown
	Host    string          `json:"host"`
	URL     string          `json:"url"`
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

// reason is a trial.Reason, or just its text.
type reason trial.Reason

// UnmarshalJSON reads both forms.
func (r *reason) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &r.Text) == nil {
		return nil
	}
	return json.Unmarshal(text, (*trial.Reason)(r))
}

// cancelRequest has a run ended. With a shared directory one that runs ends by
// itself, and only what has not started is to be kept from it, unless Force is set.
type cancelRequest struct {
	call
	run
	Intent trial.Intent `json:"intent"`
	Force  bool         `json:"force"`
}

// nothing is the answer of verbs that have nothing to say.
type nothing struct{}

type logsRequest struct {
	call
	run
	Stream string `json:"stream"`
	From   int64  `json:"from"`
}

type logsAnswer struct {
	Text string `json:"text"`
}

type prepareRequest struct {
	call
	CodeDirectory string `json:"codeDirectory"`
}

type prepareAnswer struct {
	Workspace json.RawMessage `json:"workspace"`
}
