package rundir

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/trial"
)

// forceMargin is how much longer than a trial's grace time its runner may take to
// end it, before others do.
const forceMargin = 5 * time.Second

// Frozen tells whether the runner lives and has been stopped, by SIGSTOP or a
// debugger: it then keeps neither metrics nor limits.
func (p Process) Frozen() bool {
	runner, err := readStatus(p.Runner.PID)
	return err == nil && (runner.state == 'T' || runner.state == 't') && runner.Identity == p.Runner && p.visible()
}

// thaw has a frozen runner do what somebody wants or maxTrialDuration asks for. It
// wakes it, and where that did not help in time ends the trial's processes, then
// the runner: its intent tells then how the run ended.
func (r Run) thaw(key trial.Key, seen *Observation) error {
	spec, err := r.ReadSpec()
	if err != nil {
		return err
	}
	if err := r.demandOverdue(spec, seen); err != nil || seen.Intent == nil {
		return err
	}
	late := r.sinceIntent() - spec.Grace
	if late > forceMargin {
		err = r.killFamily(key)
	}
	if late > 2*forceMargin {
		Kill(seen.Process.Runner)
		return err
	}
	return errors.Join(err, signal(seen.Process.Runner, unix.SIGCONT))
}

// demandOverdue notes the intent that the runner itself would have had by now.
func (r Run) demandOverdue(spec Spec, seen *Observation) error {
	if seen.Intent != nil || spec.MaxDuration == 0 || time.Since(seen.Process.Started) < spec.MaxDuration {
		return nil
	}
	intent, err := r.WriteIntent(trial.Intent{Cause: trial.CauseMaxDuration})
	if err == nil {
		seen.Intent = &intent
	}
	return err
}

// sinceIntent is how long ago somebody first wanted the run to end, by the clock on
// the wall; 0 where nobody does.
func (r Run) sinceIntent() time.Duration {
	info, err := os.Stat(r.Path(IntentFile))
	if err != nil {
		return 0
	}
	return time.Since(info.ModTime())
}

// Neglected tells whether the runner should have acted on the intent long ago, and
// so was frozen until now.
func (r Run) Neglected(grace time.Duration) bool { return r.sinceIntent() > grace+forceMargin }

func (r Run) killFamily(key trial.Key) error {
	family, err := r.Processes(key)
	for _, process := range family {
		Kill(process)
	}
	return err
}
