// Package executable is a training platform that its user writes, in any language:
// an executable that is called once for each verb, with JSON on its standard input
// and output. docs/writing-a-platform.md is its contract.
//
// What an executable cannot be trusted with is kept here, durably, before it is
// called: which attempts were ever submitted, where they lie, and who wanted them to
// end. So it may forget everything, and need only find a run by its name.
//
// Where this machine and those that run trials have a directory in common, an
// attempt has the directory of package rundir there: the executable has a command
// started, watched and ended, and knows nothing of metrics, logs and exit codes.
package executable

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// Name is the platform's name in configurations and handles.
const Name = "executable"

const (
	handleFormat = 1
	// pollInterval is how often directories are looked at, and usualInterval how often
	// an executable is asked that does not say how often it may be.
	pollInterval  = time.Second
	usualInterval = 5 * time.Second
	// losable is how often a run must be gone: a shared file system may show what was
	// written elsewhere some seconds later.
	losable = 3
	// checkPatience is what an executable has to look at its options before a run.
	checkPatience = 20 * time.Second
)

// Options say what the platform stands on.
type Options struct {
	StateDirectory string // absolute, on a disk of this machine
	// Runner is the absolute path of the runner's binary for this kind of machine,
	// which is the kind of all that share a directory with it.
	Runner string
	// Environment is what executables find in theirs, NAME=value, where nobody knows
	// that of whoever ran the experiment.
	Environment []string
}

// kind is what all sections have in common.
type kind struct {
	Options
	register rundir.Register[entry]
}

// platform is one section.
type platform struct {
	*kind
	section platforms.Section

	mutex     sync.Mutex
	described *described // nil until the executable has answered
	heard     heard
}

var (
	_ platforms.WithLogs    = (*platform)(nil)
	_ platforms.WithCleanup = (*platform)(nil)
	_ platforms.WithHosts   = (*platform)(nil)
)

// New returns the kind. What was submitted is written down on this host only.
func New(options Options) platforms.Kind {
	shared := &kind{options, rundir.Register[entry]{
		Directory: filepath.Join(options.StateDirectory, "platforms", Name), Suffix: ".run", Format: entryFormat,
	}}
	return platforms.Kind{
		Traits: platforms.Traits{Name: Name, HostBound: true, CopiesCode: true, KeepsIntent: true, PollInterval: pollInterval, Losable: losable},
		Check:  shared.check,
		Open:   func(section platforms.Section) platforms.Platform { return &platform{kind: shared, section: section} },
	}
}

// Close implements platforms.Platform.
func (p *platform) Close() error { return nil }

// described is an executable that has said what it is like.
type described struct {
	*program
	settings
	description
	call call
}

func (d *described) has(verb string) bool { return slices.Contains(d.Verbs, verb) }

func (d *described) shared() bool { return d.SharedDirectory != "" }

// open returns the executable with its options, secrets resolved anew. It is asked
// once what it is like.
func (p *platform) open(ctx context.Context, verb string) (*described, error) {
	text, err := p.section.Options(ctx)
	if err != nil {
		return nil, err
	}
	now, err := parse(text)
	if err != nil {
		return nil, platforms.Errorf(platforms.Invalid, verb, "%w", err)
	}
	secrets := secretsOf(p.section.Written, text)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.described == nil {
		d, err := p.describe(ctx, now, secrets)
		if err != nil {
			return nil, err
		}
		p.described = d
	}
	current := *p.described
	current.call.Options, current.program = now.Options, current.program.hiding(secrets)
	return &current, nil
}

func (p *platform) describe(ctx context.Context, now settings, secrets []string) (*described, error) {
	state := filepath.Join(p.StateDirectory, "platforms", Name, "notes", p.section.Experiment)
	if p.section.Experiment == "" {
		state = "" // it is only tried
	} else if err := rundir.MakeDirectory(state); err != nil {
		return nil, platforms.Errorf(platforms.Transient, "describe", "%w", err)
	}
	environment := p.Environment
	if p.section.Environment != nil {
		environment = p.section.Environment()
	}
	d := &described{
		program: newProgram(now.Executable, environment, now.patience(), now.Concurrency).hiding(secrets), settings: now,
		call: call{Protocol, p.section.Experiment, now.Options, state},
	}
	if err := d.program.call(ctx, "describe", describeRequest{d.call}, &d.description); err != nil {
		return nil, err
	}
	return d, d.check()
}

// check is Kind.Check: the executable says what is wrong with its options, as far as
// it can where the references among them are not resolved.
func (k *kind) check(options json.RawMessage) error {
	if err := checkOptions(options); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkPatience)
	defer cancel()
	resolve := func(context.Context) (json.RawMessage, error) { return options, nil }
	_, err := (&platform{kind: k, section: platforms.Section{Platform: Name, Resolve: resolve}}).open(ctx, "check")
	var faults platforms.OptionFaults
	switch {
	case err == nil, platforms.CodeOf(err) == platforms.Denied: // what needs a secret is tried by a start
		return nil
	case errors.As(err, &faults):
		return faults
	}
	return platforms.OptionFaults{{Field: "executable", Message: "does not say what it is like: " + err.Error(),
		Hint: "docs/writing-a-platform.md says what it has to answer"}}
}

// check tells what is wrong with what an executable says of itself.
func (d *described) check() error {
	var faults platforms.OptionFaults
	for _, f := range d.Faults {
		faults = append(faults, platforms.OptionFault{Field: joined("options", f.Field), Message: f.Message, Hint: f.Hint})
	}
	switch {
	case len(faults) > 0:
		return platforms.Errorf(platforms.Invalid, "describe", "%w", faults)
	case d.description.Protocol != Protocol:
		return platforms.Errorf(platforms.Invalid, "describe", "%s speaks protocol %d, and this starter %d", d.path, d.description.Protocol, Protocol)
	case d.shared() && !filepath.IsAbs(d.SharedDirectory):
		return platforms.Errorf(platforms.Invalid, "describe", "%s describes a shared directory that is no absolute path: %s", d.path, d.SharedDirectory)
	}
	return nil
}

func joined(section, field string) string {
	if field == "" {
		return section
	}
	return section + "." + field
}

// Try implements platforms.WithHosts: the executable says what it is like.
func (p *platform) Try(ctx context.Context) ([]platforms.HostState, error) {
	d, err := p.open(ctx, "try")
	if err != nil {
		return nil, err
	}
	text := "answers, and moves all that trials need by itself"
	if d.shared() {
		text = "answers; code, logs and metrics go through " + d.SharedDirectory
	}
	state := platforms.HostState{Name: d.path, Text: text}
	if d.shared() {
		if err := rundir.MakeDirectory(d.SharedDirectory); err != nil {
			state.Problems = append(state.Problems, trial.Reason{Code: "shared-directory", Text: err.Error()})
		}
	}
	return []platforms.HostState{state}, nil
}

// fault gives an error of this machine's files a code.
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
}

func (k *kind) attempt(known entry) attempt {
	base := filepath.Join(k.register.Folder(known.Key.Experiment), known.Key.String())
	return attempt{known, rundir.Run{Directory: known.Directory, Claim: base + ".claim"}, base + ".answer"}
}

// find returns os.ErrNotExist for an attempt that nobody submitted or cancelled.
func (k *kind) find(key trial.Key) (attempt, error) {
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

// run is the attempt as the executable is told of it.
func (a attempt) run(data json.RawMessage) run {
	if len(data) == 0 {
		data = json.RawMessage("null")
	}
	return run{Key: a.Key, Name: "perennial-" + a.Key.String(), Directory: a.entry.Directory, Data: data}
}

func (a attempt) handle(data json.RawMessage) platforms.Handle {
	if string(data) == "null" {
		data = nil
	}
	return platforms.Handle{Format: handleFormat, Platform: Name, Key: a.Key, Data: data}
}

// List implements platforms.Platform, from what was written down before anything
// was started.
func (p *platform) List(_ context.Context, keys ...trial.Key) ([]platforms.Handle, error) {
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
