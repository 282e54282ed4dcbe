// Package executable is a training platform that its user writes, in any language:
// an executable that is called once for each verb, with JSON on its standard input
// and output. docs/writing-a-platform.md is its contract.
//
// What an executable cannot be trusted with package verbs keeps.
package executable

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/verbs"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// Name is the platform's name in configurations and handles.
const Name = "executable"

// usualInterval is how often an executable is asked that does not say how often it
// may be.
const usualInterval = 5 * time.Second

// checkPatience is what an executable has to look at its options before a run.
const checkPatience = 20 * time.Second

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
	runs *verbs.Kind
}

// platform is one section.
type platform struct {
	*verbs.Platform
	*kind
	section platforms.Section

	asking    singleflight.Group
	described atomic.Pointer[described] // nil until the executable has answered
}

var _ platforms.WithHosts = (*platform)(nil)

// New returns the kind. What was submitted is written down on this host only.
func New(options Options) platforms.Kind {
	shared := &kind{options, verbs.New(verbs.Options{Name: Name, StateDirectory: options.StateDirectory, Runner: options.Runner})}
	return platforms.Kind{
		Traits: shared.runs.Traits(),
		Check:  shared.check,
		Open:   func(section platforms.Section) platforms.Platform { return shared.open(section) },
	}
}

func (k *kind) open(section platforms.Section) *platform {
	p := &platform{kind: k, section: section}
	p.Platform = k.runs.Open(section, func(ctx context.Context, verb string) (verbs.Service, verbs.Nature, error) {
		d, err := p.open(ctx, verb)
		if err != nil {
			return nil, verbs.Nature{}, err
		}
		return d, d.nature(), nil
	})
	return p
}

// described is an executable that has said what it is like.
type described struct {
	*program
	settings
	description
	call call
}

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
	d, err := p.known(ctx, now, secrets)
	if err != nil {
		return nil, err
	}
	current := *d
	current.call.Options, current.program = now.Options, current.program.hiding(secrets)
	return &current, nil
}

// known returns what the executable is like. All who ask at the same time share one
// call, and each waits no longer than it likes.
func (p *platform) known(ctx context.Context, now settings, secrets []string) (*described, error) {
	if d := p.described.Load(); d != nil {
		return d, nil
	}
	asked := p.asking.DoChan("describe", func() (any, error) {
		d, err := p.describe(context.WithoutCancel(ctx), now, secrets)
		if err == nil {
			p.described.Store(d)
		}
		return d, err
	})
	select {
	case answer := <-asked:
		return answer.Val.(*described), answer.Err
	case <-ctx.Done():
		return nil, platforms.Errorf(platforms.Transient, "describe", "%s has not answered yet: %w", now.Executable, ctx.Err())
	}
}

// notes is where the program may keep what it likes about the experiment.
func (p *platform) notes() string {
	return filepath.Join(p.StateDirectory, "platforms", Name, "notes", p.section.Experiment)
}

// Remove implements platforms.WithRemoval.
func (p *platform) Remove(ctx context.Context) error {
	if err := p.Platform.Remove(ctx); err != nil {
		return err
	}
	return os.RemoveAll(p.notes())
}

func (p *platform) describe(ctx context.Context, now settings, secrets []string) (*described, error) {
	state := p.notes()
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
	if err := d.program.call(ctx, "describe", d.call, &d.description); err != nil {
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
	_, err := k.open(platforms.Section{Platform: Name, Resolve: resolve}).open(ctx, "check")
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
	case d.SharedDirectory != "" && !filepath.IsAbs(d.SharedDirectory):
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
	if d.SharedDirectory != "" {
		text = "answers; code, logs and metrics go through " + d.SharedDirectory
	}
	state := platforms.HostState{Name: d.path, Text: text}
	if d.SharedDirectory != "" {
		if err := rundir.MakeDirectory(d.SharedDirectory); err != nil {
			state.Problems = append(state.Problems, trial.Reason{Code: "shared-directory", Text: err.Error()})
		}
	}
	return []platforms.HostState{state}, nil
}
