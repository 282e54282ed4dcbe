package executable

import (
	"context"
	"time"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/verbs"
)

// Rule is how an executable was found to keep one rule of its contract.
type Rule = verbs.Rule

const describing = "describe says what the executable is like"

// Examine tries an executable against every rule of its contract that concerns it, by
// real trials of a moment's length, and returns how each was kept, in their order.
// The section's experiment should be one that nobody has, and options.StateDirectory
// one that is removed afterwards. A run may take patience to start and to end, queues
// included. tell, which may be nil, is called as each rule was tried, by one at a time,
// with how many there are. The error is platforms.OptionFaults where there is no such
// program.
func Examine(ctx context.Context, options Options, section platforms.Section, patience time.Duration, tell func(Rule, int)) ([]Rule, error) {
	if err := checkOptions(section.Written); err != nil {
		return nil, err
	}
	return examine(ctx, options, section, verbs.Examination{Patience: patience, Tell: tell})
}

func examine(ctx context.Context, options Options, section platforms.Section, examination verbs.Examination) ([]Rule, error) {
	shared := &kind{options, verbs.New(verbs.Options{Name: Name, StateDirectory: options.StateDirectory, Runner: options.Runner})}
	p := shared.open(section)
	d, err := p.open(ctx, "describe")
	if err != nil {
		return []Rule{{Rule: describing, Broken: err.Error()}}, nil
	}
	examination.Platform, examination.Service, examination.Verbs = p.Platform, d.noting, d.Verbs
	found, err := examination.Run(ctx)
	return append([]Rule{{Rule: describing, Kept: true}}, found...), err
}

// noting is the same executable, whose calls are told to note.
func (d *described) noting(note func(verbs.Call)) verbs.Service {
	noting, program := *d, *d.program
	program.note = func(verb string, sent []byte, answered []byte, err error) {
		call := verbs.Call{Verb: verb, Sent: program.secrets.Replace(string(sent)), Answered: program.secrets.Replace(string(answered))}
		if err != nil {
			call.Failed = err.Error()
		}
		note(call)
	}
	noting.program = &program
	return &noting
}
