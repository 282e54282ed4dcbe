// Package assessors decides which running trials are not worth going on. Like a
// tuner, an assessor is a pure state machine over the experiment's event log.
package assessors

import (
	"encoding/json"
	"fmt"

	"github.com/perennial-ml/perennial/trial"
)

// Assessor judges trials by their intermediate results. It is used by one
// goroutine at a time.
type Assessor interface {
	// Apply takes the next event of the log. After an intermediate it says
	// whether that trial shall be stopped, and why.
	Apply(event trial.Event) (Verdict, error)
}

// Verdict is an assessor's word on one trial; the zero Verdict lets it go on.
type Verdict struct {
	Stop   bool
	Reason trial.Reason
}

// Spec says which assessor to build.
type Spec struct {
	Name      string          // as NNI spells it; case does not matter
	Arguments json.RawMessage // classArgs, an object or nil
}

// Constructor builds an assessor, or says what is wrong with its arguments.
type Constructor func(Spec) (Assessor, error)

// read decodes what an event says happened.
func read[T any](event trial.Event) (T, error) {
	var data T
	if err := json.Unmarshal(event.Data, &data); err != nil {
		return data, fmt.Errorf("read %s event: %w", event.Kind, err)
	}
	return data, nil
}
