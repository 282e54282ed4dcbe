// Package runner is the small process that lives beside one attempt of a trial,
// on every platform. It holds the attempt's claim, starts the user's command,
// brings its metrics into the journal, ends it when somebody wants that, and
// writes the exit record when no process of the attempt is left. It needs nobody:
// host, worker and network may be gone all the while. Package rundir is the
// protocol in which it is told what to do and tells what became of it; in a
// container, whose directories nobody outside can read, package stream is.
//
// Linux only. Standard library and golang.org/x/sys only.
package runner

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// ErrBegun is returned where the attempt's command may have been started before:
// it is never started twice.
var ErrBegun = errors.New("this attempt was started before and never starts again")

// Run runs the attempt in directory to its end, with the claim that the submitter
// hands over on descriptor rundir.ClaimDescriptor. It must be called from the main
// goroutine with the main thread locked to it: the command dies with the thread
// that starts it.
//
// An error before the command starts leaves the attempt as if nobody had tried. A
// command that cannot be started, or fails, is no error but an exit record.
func Run(directory string) error {
	run, spec, err := open(directory)
	if err != nil {
		return err
	}
	claim, err := run.InheritedClaim()
	if err != nil {
		return err
	}
	defer claim.Close()
	return live(run, spec)
}

// live runs the attempt, whose claim the caller holds, to its end.
func live(run rundir.Run, spec rundir.Spec) error {
	if err := refuseBegun(run); err != nil {
		return err
	}
	if err := becomeRunner(); err != nil {
		return err
	}
	log := openLog(run)
	if err := newAttempt(run, spec, log).live(); err != nil {
		log.say("ends: %v", err)
		return err
	}
	return nil
}

func open(directory string) (rundir.Run, rundir.Spec, error) {
	directory, err := filepath.Abs(directory)
	if err != nil {
		return rundir.Run{}, rundir.Spec{}, err
	}
	run := rundir.Run{Directory: directory}
	spec, err := run.ReadSpec()
	run.Claim = spec.Claim
	return run, spec, err
}

func refuseBegun(run rundir.Run) error {
	process, err := run.ReadProcess()
	if err != nil {
		return err
	}
	exit, err := run.ReadExit()
	if err == nil && (process != nil || exit != nil) {
		err = fmt.Errorf("%s: %w", run.Directory, ErrBegun)
	}
	return err
}

// becomeRunner makes this process what a runner is: small, the leader of its own
// session, in nobody's way, and the one to whom orphans of the trial come.
func becomeRunner() error {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(24 << 20)
	if _, err := unix.Setsid(); err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("lead a session: %w", err) // EPERM: it does already
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	return os.Chdir("/")
}

// attempt is the one attempt that this process is there for.
type attempt struct {
	run      rundir.Run
	spec     rundir.Spec
	log      *log
	process  rundir.Process
	signals  chan os.Signal
	child    child
	tree     tree
	intent   *trial.Intent // the one acted on
	termed   time.Time     // when this process was told to end, zero if it was not
	killFrom time.Time     // from when on everything is killed, zero while all is well
	contact  contact
	files    []keptFile // to be there again if the trial removes them
	noted    bool       // the end of a command that left processes was written down
	kept     time.Time  // when the claim was last touched
	grant    *gpu.Grant // nil where it asked for no GPU
	output   *output    // nil where nobody is shown what the command prints
}

func newAttempt(run rundir.Run, spec rundir.Spec, log *log) *attempt {
	a := &attempt{run: run, spec: spec, log: log, signals: make(chan os.Signal, 64),
		contact: newContact(run, spec.LostAfter)}
	// Handled and not ignored: what is ignored would be so in the trial, too.
	signal.Notify(a.signals, unix.SIGTERM, unix.SIGCHLD, unix.SIGINT, unix.SIGHUP)
	return a
}

// live runs the attempt from its preparation to its exit record.
func (a *attempt) live() error {
	if err := a.takeGPUs(); err != nil {
		return err
	}
	defer a.grant.Release()
	if err := a.prepare(); err != nil {
		return err
	}
	collector, err := newCollector(a.run, a.spec, a.log)
	if err != nil {
		return err
	}
	if err := a.start(); err != nil {
		return err
	}
	go collector.collect()
	a.output.begin(collector.logs)
	// The thread that started the command must live and is the main one; work
	// that is done elsewhere spares a thousand runners its wake-ups.
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		a.settle(collector)
	}()
	<-settled
	return nil
}

// settle watches over the started command to its end and tells how it was.
func (a *attempt) settle(collector *collector) {
	a.watch(collector)
	a.output.finish()
	a.grant.Release()
	final := collector.finish()
	a.restore(collector)
	exit := a.exit(final)
	rundir.CrashPoint("runner.child-dead-before-exit-record")
	a.log.until("write the exit record", func() error {
		// Somebody may have removed the directory of a trial that still ran.
		if err := a.run.MakeDirectory(); err != nil {
			return err
		}
		return a.run.WriteExit(exit)
	})
	if a.blameOutside(&exit) {
		if err := a.run.WriteExit(exit); err != nil {
			a.log.say("cannot write that the command was ended from outside: %v", err)
		}
	}
}

// prepare makes what the command finds, and takes the room that the exit record
// will need.
func (a *attempt) prepare() error {
	if err := a.prepareDirectories(); err != nil {
		return err
	}
	a.keepFiles()
	return a.run.Reserve()
}

func (a *attempt) prepareDirectories() error {
	metrics := filepath.Join(a.spec.Directories.System, rundir.MetricsFile)
	for _, directory := range []string{filepath.Dir(metrics), a.spec.Directories.Output} {
		if err := os.MkdirAll(directory, 0o777); err != nil {
			return err
		}
	}
	return nil
}
