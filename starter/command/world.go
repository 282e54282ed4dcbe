// Package command is what starter understands: one file for each command. A
// command touches the outside world only through a World, so whole commands run
// in memory in tests, without a server.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/workflows"
)

// World is all of the outside that commands touch. Ctrl-C ends the context that
// is given to Main.
type World struct {
	Args     []string // without the program's name
	Env      []string // NAME=value, as in os.Environ
	Home     string   // the state directory, absolute; it need not exist
	Record   string   // the record's location, to be told to nobody; empty is RecordFile of Home
	Homeless error    // why it cannot be told where the record is
	In       io.Reader
	Out      io.Writer
	Err      io.Writer
	Width    func() int // columns of the terminal that Out is; 0 where it is none
	Now      func() time.Time
	Tick     time.Duration      // how often a follower reads the record
	Patience time.Duration      // how long the engine may take to make a command durable
	Build    experiment.Build   // what this binary can run
	Registry platforms.Registry // its platforms, to be asked about and not opened
	Engine   Engine

	hosting *atomic.Bool // this process is the host
	given   *given       // is read instead of a file, where it is not nil
}

// LookupEnv returns the value of a variable and whether it is set.
func (w World) LookupEnv(name string) (string, bool) {
	for _, variable := range w.Env {
		if value, found := strings.CutPrefix(variable, name+"="); found {
			return value, true
		}
	}
	return "", false
}

// Getenv returns the value of a variable, empty where it is not set.
func (w World) Getenv(name string) string {
	value, _ := w.LookupEnv(name)
	return value
}

// RecordFile is the path of the record below a state directory that has its own.
func RecordFile(home string) string { return filepath.Join(home, "record.sqlite") }

// readRecord opens the record to read it.
func (w World) readRecord() (*record.Store, error) {
	switch {
	case w.Homeless != nil:
		return nil, w.Homeless
	case w.Record != "":
		return record.OpenReadOnly(w.Record)
	}
	return record.OpenReadOnly(RecordFile(w.Home))
}

// recordName is the record's location as it may be shown.
func (w World) recordName() string {
	if w.Record != "" {
		return record.Redacted(w.Record)
	}
	return RecordFile(w.Home)
}

// EnvironmentFile is the path, below a state directory, of the environment of
// whoever ran an experiment.
func EnvironmentFile(home, experiment string) string {
	return filepath.Join(home, "experiments", experiment, "environment")
}

// SecretsFile is the path, below a state directory, of the values that were moved
// out of an experiment's file.
func SecretsFile(home, experiment string) string {
	return filepath.Join(home, "experiments", experiment, "secrets")
}

// ErrNoHost says that no host process serves the state directory; ErrHostDied,
// which is one too, that the last one did not end in order.
var (
	ErrNoHost   = errors.New("no host is running")
	ErrHostDied = fmt.Errorf("%w: the last one died", ErrNoHost)
)

// Engine brings up what runs experiments and speaks to it. It is the edge that
// links the server; package main supplies it.
type Engine interface {
	// Check makes the state directory where there is none, and says what makes it
	// unfit: a network file system, a newer version's, no permission, no space.
	Check() error
	// Find returns the host that serves the state directory, or ErrNoHost, or
	// ErrHostDied.
	Find(ctx context.Context) (Host, error)
	// Ensure returns that host, or the one elsewhere that works on the record, and starts
	// one in the background where there is neither.
	Ensure(ctx context.Context) (Host, error)
	// Serve is the host, in this process, until ctx ends.
	Serve(ctx context.Context, how Serving) error
	// Stop ends the host and waits until it is gone. Trials go on. ErrNoHost
	// where there is none.
	Stop(ctx context.Context) error
	// Connect returns a client of that host's Temporal.
	Connect(ctx context.Context, host Host) (Client, error)
	// Probe returns, for each platform of this build, what is not as it should be.
	Probe(ctx context.Context) map[string][]trial.Reason
	// Try reaches the machines that a section of a configuration names and returns
	// how each is; none where the platform has none of its own.
	Try(ctx context.Context, platform experiment.Platform) ([]platforms.HostState, error)
	// Rights is what whoever runs a section's service applies so that its trials can
	// run; empty where the platform's service gives no rights one by one.
	Rights(ctx context.Context, platform experiment.Platform) (string, error)
	// Mark is the platforms.Home of the state directory.
	Mark() string
	// Place hands over where the runs of a section are, for as long as work takes. It is
	// not called where the platform cannot list what it made. The experiment may be
	// empty: then the section refers to no secrets.
	Place(experiment string, platform experiment.Platform, work func(platforms.WithLeftovers) error) error
	// GPUs returns the hosts that a section of an experiment's configuration names,
	// with their GPUs and who has them; none where the platform has no GPUs of its
	// own to tell of. The experiment may be empty: then the section refers to no
	// secrets.
	GPUs(ctx context.Context, experiment string, platform experiment.Platform) ([]gpu.Host, error)
	// Logs opens what a run wrote, where its platform keeps that elsewhere.
	Logs(ctx context.Context, handle platforms.Handle, wanted platforms.Log) (io.ReadCloser, error)
	// Replicas are the names of those that run a trial together, the one that decides
	// first; none where a run is but one.
	Replicas(ctx context.Context, handle platforms.Handle) ([]string, error)
	// Link is an address that opens a page of the host's Web UI, once.
	Link(host Host, page string) string
	// DashboardLink is an address that opens a page of the host's dashboard, once.
	DashboardLink(host Host, page string) string
	// OpenNNI has the host serve an experiment to NNI's clients and returns the address, or
	// a link that opens it once where it is not open to all on this machine.
	OpenNNI(ctx context.Context, host Host, port NNIPort) (link string, err error)
	// External is the Temporal that TEMPORAL_* variables or a profile name, zero
	// where the embedded one is meant.
	External() External
	// Examine tells what is wrong with that Temporal, or by which command it can
	// be mended, empty where all is well.
	Examine(ctx context.Context) (mend string, err error)
	// Unpolled returns a queue at that Temporal that an experiment on these
	// platforms needs and no worker polls; empty where there is none. Without an id it is
	// about one that is yet to be submitted.
	Unpolled(ctx context.Context, experiment string, platforms []string) (queue string, err error)
	// Workers returns who works on the record or waits to.
	Workers(ctx context.Context) (Workers, error)
	// Elsewhere returns the machine whose worker drives an experiment, or without an id one that
	// is yet to be submitted; empty where that is this state directory's, or none.
	Elsewhere(ctx context.Context, experiment string) (machine string, err error)
	// Deposit hands over, to the worker elsewhere, what an experiment needs of this machine:
	// its code, whose places in the configuration change with it, its secrets and the
	// environment that was kept of whoever runs it.
	Deposit(ctx context.Context, id string, config *experiment.Experiment) error
	// MoveRecord carries the record from one place to another, each the word "file" or
	// what PERENNIAL_RECORD may say, and tells of each table how many rows it had.
	MoveRecord(ctx context.Context, from, to string, tell func(table string, rows int)) error
	// Unit writes a systemd user unit that keeps the host running.
	Unit(out io.Writer) error
}

// Serving says how to be the host.
type Serving struct {
	Background bool       // what this process prints goes to the host's log
	Platforms  []string   // to work for; empty means all
	Ready      func(Host) // called once, when the host works
	Listen     Listening  // beyond loopback
	// Waiting, if not nil, has the host wait where another one works on the same record,
	// and is told whose place it waits for.
	Waiting func(holder string)
}

// External is a Temporal that others run.
type External struct {
	Address   string // of its frontend, host:port
	Namespace string
}

// Client asks things of experiments. Both verbs answer when what they ask is durable.
type Client interface {
	// Send appends a command to an experiment's log and returns its event's
	// number. The same Command.ID is the same command.
	Send(ctx context.Context, experiment string, command trial.Command) (int64, error)
	// End asks that one trial shall end.
	End(ctx context.Context, experiment string, sequence int, ending workflows.Ending) error
	Close()
}

// Host is a running host process, as its lock file describes it.
type Host struct {
	PID       int
	Machine   string // where it is, if not on this one's state directory; empty if it is
	Version   string
	Address   string // of Temporal's frontend, host:port
	Namespace string
	WebUI     string // without a slash at the end, and without a one-time token
	Dashboard string // as WebUI, of the dashboard
	TokenFile string // holds the bearer token of Address; empty where there is none
	Log       string // the host's log file
}
