// Package progress shows how an experiment is going: redrawn on a terminal, as
// plain lines in a pipe, or as one JSON event a line for scripts. It is given
// snapshots of the record and prints; it reads nothing itself.
package progress

import (
	"time"

	"github.com/perennial-ml/perennial/record"
)

// Start is what a person is told first.
type Start struct {
	ID   string
	Name string
	// Dashboard is the experiment's page on the dashboard, empty if there is none; WebUI
	// that in Temporal's Web UI.
	Dashboard string
	WebUI     string // the experiment's page, empty if there is none
	Resumed   bool   // false: the experiment is new
	Leaving   bool   // nobody is going to follow it now
}

// Snapshot is how an experiment stands at one moment.
type Snapshot struct {
	Now        time.Time
	Experiment record.Experiment
	Open       []record.Trial // asked and not settled, by sequence
	Changed    []record.Trial // state, reason or attempts differ from the last snapshot
	// Reported is the last intermediate of each of the first Rows of Open that has any,
	// by the trial's number.
	Reported map[int]record.Metric
}

// Rows is how many open trials a Display has room for.
const Rows = 8

// Display shows an experiment from its start to its end. It is used by one
// goroutine, and prints nothing that was not asked of it.
type Display interface {
	// Begin says which experiment it is and how to leave, resume and stop it.
	Begin(start Start)
	// Show shows a snapshot, or leaves it out where it shows fewer.
	Show(now Snapshot)
	// Failure shows the end of what the first failed trial wrote to stderr.
	Failure(failed record.Trial, stderr string)
	// Say tells something that is not about a trial, such as a host that died.
	Say(code, text string)
	// End shows how the experiment finished.
	End(finished record.Experiment)
	// Detach says that the experiment goes on without this program.
	Detach(id string)
}
