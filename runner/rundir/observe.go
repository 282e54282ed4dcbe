package rundir

import "github.com/perennial-ml/perennial/trial"

// Observation is what an outsider sees of a run at one moment, consistent by the
// order in which it is read. Nil means that there is none.
type Observation struct {
	Held    bool // somebody starts or runs it
	Frozen  bool // by Reconcile only: see Process.Frozen
	Intent  *trial.Intent
	Process *Process
	Exit    *ExitRecord
}

// Begun tells whether the command may have been started: then it is never started
// again.
func (o Observation) Begun() bool { return o.Process != nil || o.Exit != nil }

// Over tells whether the run has ended for good: by its exit record, by the death
// of its runner, or because an intent came before anybody started it.
func (o Observation) Over() bool { return !o.Held && (o.Begun() || o.Intent != nil) }

// Ending tells whether the command has ended and what it left is still to be ended.
func (o Observation) Ending() bool { return o.Exit != nil && (o.Held || o.Exit.Unread != nil) }

// Observe looks at the run. Intent and Process are read before the claim, Exit
// after it: so a free claim beside a Process means that its runner is gone, and
// beside an Intent without a Process that nobody will start it any more, since
// whoever takes the claim from now on meets the intent.
func (r Run) Observe() (Observation, error) {
	for {
		seen, err := r.look()
		if err != nil || seen.Held || seen.Begun() || seen.Intent == nil {
			return seen, err
		}
		// A runner may have come and gone between Process and the claim.
		if process, err := r.ReadProcess(); err != nil || process == nil {
			return seen, err
		}
	}
}

func (r Run) look() (seen Observation, err error) {
	if seen.Intent, err = r.ReadIntent(); err != nil {
		return seen, err
	}
	if seen.Process, err = r.ReadProcess(); err != nil {
		return seen, err
	}
	if seen.Held, err = r.Held(); err != nil {
		return seen, err
	}
	seen.Exit, err = r.ReadExit()
	return seen, err
}
