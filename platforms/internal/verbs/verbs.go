// Package verbs keeps, durably, what a Service cannot be trusted with that only
// starts, watches and ends jobs by a name: which attempts were ever submitted, where
// they lie, and who wanted them to end. So the service may forget everything, and need
// only find a job by its name.
//
// Where this machine and those that run trials have a directory in common, an attempt
// has the directory of package rundir there: the service has a command started,
// watched and ended, and knows nothing of metrics, logs and exit codes.
package verbs

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

const (
	handleFormat = 1
	// pollInterval is how often directories are looked at. How often the service may be
	// asked is Nature.Interval.
	pollInterval = time.Second
	// losable is how often a run must be gone: a shared file system may show what was
	// written elsewhere some seconds later.
	losable = 3
)

// Options say what a platform stands on.
type Options struct {
	Name           string // the platform's, in configurations and handles
	StateDirectory string // absolute, on a disk of this machine
	// Runner is the absolute path of the runner's binary for the machines that run
	// trials from a shared directory.
	Runner string
}

// Kind is what all sections of a platform have in common.
type Kind struct {
	Options
	register rundir.Register[entry]
}

// Platform is one section, opened.
type Platform struct {
	*Kind
	section platforms.Section
	opened  Opener
	heard   heard
}

var (
	_ platforms.WithLogs    = (*Platform)(nil)
	_ platforms.WithCleanup = (*Platform)(nil)
	_ platforms.WithRemoval = (*Platform)(nil)
)

// New returns what all sections of a platform have in common. What was submitted is
// written down on this host only.
func New(options Options) *Kind {
	return &Kind{options, rundir.Register[entry]{
		Directory: filepath.Join(options.StateDirectory, "platforms", options.Name), Suffix: ".run", Format: entryFormat,
	}}
}

// Traits are the platform's.
func (k *Kind) Traits() platforms.Traits {
	return platforms.Traits{Name: k.Name, HostBound: true, CopiesCode: true, KeepsIntent: true, PollInterval: pollInterval, Losable: losable}
}

// Open opens a section, whose service the opener returns.
func (k *Kind) Open(section platforms.Section, opener Opener) *Platform {
	return &Platform{Kind: k, section: section, opened: opener}
}

// Close implements platforms.Platform.
func (p *Platform) Close() error { return nil }

// service is a section's service, as it is now.
type service struct {
	Service
	Nature
}

func (p *Platform) open(ctx context.Context, verb string) (*service, error) {
	found, nature, err := p.opened(ctx, verb)
	return &service{found, nature}, err
}

func (n Nature) shared() bool { return n.SharedDirectory != "" }

// there is the name of a path in the shared directory where trials run.
func (n Nature) there(path string) string {
	if n.There == "" {
		return path
	}
	return filepath.Join(n.There, strings.TrimPrefix(path, filepath.Clean(n.SharedDirectory)))
}

// home is an experiment's directory in the shared one.
func (n Nature) home(experiment string) string {
	return filepath.Join(n.SharedDirectory, "experiments", experiment)
}

// fileFault gives an error of this machine's files a code.
func fileFault(verb string, err error) error {
	var classified *platforms.Error
	if err == nil || errors.As(err, &classified) {
		return err
	}
	return platforms.Errorf(platforms.Transient, verb, "%w", err)
}

// entry is what the register keeps of an attempt from before its first submit on.
type entry struct {
	Format    int       `json:"format"`
	Key       trial.Key `json:"key"`
	Directory string    `json:"directory"` // the attempt's own
	Shared    bool      `json:"shared"`    // it is where trials run, too
}

const entryFormat = 1

// Sound implements rundir.Entry.
func (e entry) Sound() bool { return e.Directory != "" }

// attempt is an entry with its files.
type attempt struct {
	entry
	rundir.Run
	answered string // path of what submit answered
	platform string // Options.Name
}

func (k *Kind) attempt(known entry) attempt {
	base := filepath.Join(k.register.Folder(known.Key.Experiment), known.Key.String())
	return attempt{known, rundir.Run{Directory: known.Directory, Claim: base + ".claim"}, base + ".answer", k.Name}
}

// find returns os.ErrNotExist for an attempt that nobody submitted or cancelled.
func (k *Kind) find(key trial.Key) (attempt, error) {
	known, err := k.register.Find(key)
	return k.attempt(known), err
}

// data is what submit answered, nil where no answer has come yet.
func (a attempt) data() (json.RawMessage, error) {
	content, err := os.ReadFile(a.answered)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return content, err
}

func (a attempt) keep(data json.RawMessage) error {
	if len(data) == 0 {
		data = json.RawMessage("null")
	}
	return rundir.WriteFile(a.answered, data, 0o600)
}

// run is the attempt as the service is told of it.
func (a attempt) run(data json.RawMessage) Run {
	if len(data) == 0 {
		data = json.RawMessage("null")
	}
	return Run{Key: a.Key, Name: "perennial-" + a.Key.String(), Directory: a.entry.Directory, Data: data}
}

func (a attempt) handle(data json.RawMessage) platforms.Handle {
	if string(data) == "null" {
		data = nil
	}
	return platforms.Handle{Format: handleFormat, Platform: a.platform, Key: a.Key, Data: data}
}

// List implements platforms.Platform, from what was written down before anything
// was started.
func (p *Platform) List(_ context.Context, keys ...trial.Key) ([]platforms.Handle, error) {
	all, err := p.register.List(p.section.Experiment, keys...)
	if err != nil {
		return nil, fileFault("list", err)
	}
	var handles []platforms.Handle
	for _, known := range all {
		a := p.attempt(known)
		data, err := a.data()
		if err != nil {
			return nil, fileFault("list", err)
		}
		handles = append(handles, a.handle(data))
	}
	return handles, nil
}
