package machine

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// neverStarted is the exit code of a run whose intent came before its start.
const neverStarted = -1

// Report says how a run is. Output is its directory.
func (m *Machine) Report(ref Ref) Report {
	run, err := m.find(ref)
	if errors.Is(err, fs.ErrNotExist) {
		return Report{Key: ref.Key, Phase: Absent}
	}
	var seen rundir.Observation
	if err == nil {
		seen, err = m.observe(run, ref.Key)
	}
	report := Report{Key: ref.Key, Output: run.Directory}
	if err != nil {
		report.Phase, report.Reason = Unreachable, trial.Reason{Code: "unreadable", Text: err.Error()}
		return report
	}
	if seen.Held {
		run.Contact()
	}
	describe(&report, seen)
	return report
}

// observe is run.Reconcile, and an error where nothing can be seen since the run's
// directory is away.
func (m *Machine) observe(run rundir.Run, key trial.Key) (rundir.Observation, error) {
	seen, err := run.Reconcile(key)
	if err == nil && seen.Process == nil && !seen.Over() {
		err = m.index.away(key)
		if err != nil && seen.Held {
			err = fmt.Errorf("its directory %s is not there at present, and its runner lives", run.Directory)
		}
	}
	return seen, err
}

// describe is the table in package rundir's comment.
func describe(report *Report, seen rundir.Observation) {
	report.Intent = seen.Intent
	if seen.Process != nil {
		report.Started = seen.Process.Started
	}
	switch {
	case seen.Held && report.Started.IsZero():
		report.Phase, report.Reason = Waiting, trial.Reason{Code: "starting", Text: "its runner is starting"}
	case seen.Frozen:
		report.Phase, report.Reason = Running, trial.Reason{Code: "runner-frozen", Text: fmt.Sprintf(
			"its runner, process %d, has been stopped by a signal and keeps neither metrics nor limits: kill -CONT %[1]d lets it go on", seen.Process.Runner.PID)}
	case seen.Ending():
		report.Phase, report.Reason = Running, trial.Reason{Code: "ending",
			Text: "its command has ended, and what it left running is being ended"}
	case seen.Held && !seen.Process.Removed.IsZero():
		report.Phase, report.Reason = Running, trial.Reason{Code: "directory-removed",
			Text: "it removed its own directory while it runs: its metrics and output are kept, other files that lay there are lost"}
	case seen.Held:
		report.Phase = Running
	case seen.Exit != nil:
		ended(report, *seen.Exit)
	case seen.Process != nil && seen.Process.Elsewhere():
		report.Phase, report.Reason = Unreachable, trial.Reason{Code: "other-machine",
			Text: "it was started on another machine, and only that one can tell what became of it"}
	case seen.Process != nil:
		report.Phase, report.Reason = Lost, lossReason(*seen.Process)
	case seen.Intent != nil:
		report.Phase = Exited
		report.Exit = &trial.Exit{Code: neverStarted, Text: "never started: it was cancelled before"}
	default:
		report.Phase, report.Reason = Absent, trial.Reason{Code: "half-made", Text: "its submission was interrupted"}
	}
}

func ended(report *Report, exit rundir.ExitRecord) {
	report.Phase = Exited
	report.Exit = &exit.Exit
	report.Intent = exit.Intent
	report.Started, report.Ended = exit.Started, exit.Ended
}

func lossReason(process rundir.Process) trial.Reason {
	if process.Rebooted() {
		return trial.Reason{Code: "machine-rebooted", Text: "the machine went down while it ran"}
	}
	return trial.Reason{Code: "runner-died", Text: "its runner died while it ran"}
}

// Live tells whether somebody starts or runs a run, by its claim alone.
func (m *Machine) Live(ref Ref) (bool, error) {
	run, err := m.find(ref)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return run.Held()
}
