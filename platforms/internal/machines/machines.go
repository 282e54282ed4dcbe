// Package machines puts what package machine says into the words of the platforms'
// contract, and a job into the machine's: for each platform whose trials run on
// machines of its user's.
package machines

import (
	"errors"

	"github.com/perennial-ml/perennial/machine"
	"github.com/perennial-ml/perennial/platforms"
)

// Job is a job as a machine is told it.
func Job(job platforms.Job) machine.Job {
	return machine.Job{
		Key: job.Key, Workspace: machine.Workspace{Directory: job.Workspace.Directory, Hash: job.Workspace.Hash},
		Command: job.Command, Parameter: job.Parameter, Parameters: job.Parameters, Directory: job.Directory,
		EnvironmentFile: job.EnvironmentFile, MaxDuration: job.MaxDuration, Grace: job.Grace, LogLimit: job.LogLimit,
		GPUs: job.GPUs, Storage: job.Storage, TrialModule: job.TrialModule,
	}
}

// Report is what a machine says about a run.
func Report(said machine.Report) platforms.Report {
	return platforms.Report{
		Key: said.Key, Phase: platforms.Phase(said.Phase), Reason: said.Reason, Started: said.Started, Ended: said.Ended,
		Exit: said.Exit, Intent: said.Intent, Output: said.Output,
	}
}

// Error gives a machine's error its code and its pause in the contract. Any other
// stays as it is.
func Error(err error) error {
	var told *machine.Error
	if !errors.As(err, &told) {
		return err
	}
	cause := err
	if err == error(told) {
		cause = told.Err
	}
	return &platforms.Error{Code: platforms.Code(told.Code), Verb: told.Verb, After: told.After, Err: cause}
}

// Fault gives any error of this machine, such as a full disk, the code that says what
// to do about it. Nil stays nil, and what has a code in the contract keeps it.
func Fault(verb string, err error) error {
	var classified *platforms.Error
	if errors.As(err, &classified) {
		return err
	}
	return Error(machine.Fault(verb, err))
}
