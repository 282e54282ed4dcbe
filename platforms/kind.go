package platforms

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/trial"
)

// Kind is a training platform as this build has it, a row of the Registry. What the
// sections of a platform share in a process, such as connections or the limits that
// a service sets to its callers, they share by having been opened from one Kind.
type Kind struct {
	Traits Traits
	// Check tells whether a section's own keys make sense, before anything is
	// accepted. References in them are not resolved yet. Its error is OptionFaults
	// where the places of the faults are known. Nil: nothing can be wrong.
	Check func(options json.RawMessage) error
	// Open opens a section. It reaches nobody yet and cannot fail: what is wrong
	// with the section is the error of the verbs that need it.
	Open func(Section) Platform
	// Probe returns a reason for everything of this machine that is not as it should
	// be, whatever the section. Nil: there is nothing to look at.
	Probe func(context.Context) []trial.Reason
}

// Registry is the platforms of a build, by their names in configurations.
type Registry map[string]Kind

// Check tells whether the named platform takes these options.
func (r Registry) Check(name string, options json.RawMessage) error {
	if check := r[name].Check; check != nil {
		return check(options)
	}
	return nil
}

// Section is what a platform is opened for: one entry of an experiment's
// trainingService. It is named by its experiment and its place there, so two
// experiments have two sections, however much alike.
type Section struct {
	Platform   string
	Experiment string // empty where a section is only tried, before it is run
	Index      int
	// Written is the section's own keys as they are on record: references stand for
	// secrets. What Resolve returns otherwise must get into no word of the platform's.
	Written json.RawMessage
	// Resolve returns the section's own keys with what the references among them
	// refer to, anew each time; nil: there are none.
	Resolve func(context.Context) (json.RawMessage, error)
	// Environment returns the variables of whoever ran the experiment, NAME=value; nil:
	// nobody knows them.
	Environment func() []string
}

// Options returns the section's own keys, secrets resolved. Every call resolves them
// anew: whoever asks again before he logs in again has the credentials that a person
// has renewed meanwhile. They are kept in memory only. An error, such as that of a
// secret that is missing, is Denied: it waits for a person, like a refusal.
func (s Section) Options(ctx context.Context) (json.RawMessage, error) {
	if s.Resolve == nil {
		return nil, nil
	}
	options, err := s.Resolve(ctx)
	if err != nil {
		return nil, Errorf(Denied, "open", "the section of platform %s: %w", s.Platform, err)
	}
	return options, nil
}

// LookupEnv finds a variable of whoever ran the experiment.
func (s Section) LookupEnv(name string) (string, bool) {
	if s.Environment == nil {
		return "", false
	}
	all := s.Environment()
	for _, variable := range slices.Backward(all) { // the last one counts
		if value, found := strings.CutPrefix(variable, name+"="); found {
			return value, true
		}
	}
	return "", false
}

// Traits are a platform's ways, on which callers decide instead of on its name.
type Traits struct {
	Name      string `json:"name"`
	HostBound bool   `json:"hostBound"` // only workers on this very host can act
	// RunsHere says that commands run on this very machine: as its user knows it,
	// with his programs, and with directories that all trials reach.
	RunsHere   bool `json:"runsHere"`
	CopiesCode bool `json:"copiesCode"` // codeDir is copied, so its limits apply
	// TriedFirst says that Try takes seconds and finds what would keep every trial from
	// running: it is asked before a run of the section is accepted.
	TriedFirst bool `json:"triedFirst,omitempty"`
	// KeepsIntent says that a Cancel is written down beside the run, durably, and
	// comes back in its Reports, and that a run which was cancelled first is never
	// started. A service that keeps nothing for us cannot promise that: there the
	// decision on record stands for the intent. Such a platform reports a run that
	// somebody ended as Exited with Exit.Outside, and whoever submits asks the record
	// once more when it has done so.
	KeepsIntent  bool          `json:"keepsIntent"`
	PollInterval time.Duration `json:"pollInterval"` // how often Poll may be called
	Losable      int           `json:"losable"`      // definite observations before a run counts as lost, ≥ 1
}
