package runner

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

const (
	killInterval = 10 * time.Millisecond // between two rounds of killing
	// keepInterval is far below the ten days after which the strictest tidy up.
	keepInterval = 12 * time.Hour
	// outsideWindow is how near to the runner's own TERM an end counts as part of
	// the same shutdown.
	outsideWindow = 10 * time.Second
	// shutdownSkew is how long a failure waits for that TERM: who shuts a machine
	// down signals one process after the other. termSkew is the same where it was
	// TERM that ended the command.
	shutdownSkew = 200 * time.Millisecond
	termSkew     = 2 * time.Second
)

// ownTerm is said of a command that TERM ended while nobody told the runner to end.
const ownTerm = "its runner was not told to end, so the TERM is taken for the trial's own, as of kill 0 in a script"

// watch returns when the command has ended and no process of the attempt is left.
// That the kernel knows no child of ours any more proves it: orphans come to us.
func (a *attempt) watch(collector *collector) {
	for !a.reap() {
		a.restore(collector)
		a.noteEnd(collector)
		a.heed()
		if !a.killFrom.IsZero() && !time.Now().Before(a.killFrom) {
			a.killAll()
		}
		a.noteTree()
		a.keepClaim()
		a.pause()
	}
}

// noteEnd writes down, once, how the command ended that left processes behind: it
// takes a while to end those, and the command's own end must survive this process.
func (a *attempt) noteEnd(collector *collector) {
	if a.child.ended.IsZero() || a.noted {
		return
	}
	a.noted = true
	unread, final, err := collector.catchUp()
	if err == nil {
		exit := a.exit(final)
		exit.Unread = &unread
		err = a.run.NoteExit(exit)
	}
	if err != nil {
		a.log.say("cannot note the end of the command before what it left has ended: %v", err)
	}
	rundir.CrashPoint("runner.exit-noted-before-clean-up")
}

// keepClaim touches the claim now and then. It goes by the clock on the wall, which
// also passes while the machine sleeps, and may be set back.
func (a *attempt) keepClaim() {
	now := time.Now().Round(0)
	if since := now.Sub(a.kept); since >= 0 && since < keepInterval {
		return
	}
	a.kept = now
	if err := a.run.KeepClaim(); err != nil {
		a.log.sayOnce("cannot touch the claim: %v", err)
	}
}

// reap takes in all children that have ended, and tells whether none is left.
func (a *attempt) reap() bool {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return true
		case pid == 0:
			return false
		case pid == a.child.pid:
			a.child.ended, a.child.status = time.Now(), status
		}
	}
}

// heed does what was asked for since it last looked.
func (a *attempt) heed() {
	if !a.killFrom.IsZero() {
		return
	}
	if !a.child.ended.IsZero() {
		a.killFrom = time.Now().Add(rundir.LeftoverGrace)
		return
	}
	a.intent = a.wanted()
	switch {
	case a.intent != nil:
		rundir.CrashPoint("cancel.intent-before-TERM")
		a.terminate()
	case !a.termed.IsZero():
		a.terminate()
	}
}

// wanted returns the intent to end the attempt, nil where there is none.
func (a *attempt) wanted() *trial.Intent {
	intent, err := a.run.ReadIntent()
	if cause := a.due(); err == nil && intent == nil && cause != "" {
		intent = &trial.Intent{Cause: cause}
		*intent, err = a.run.WriteIntent(*intent)
	}
	if err != nil {
		a.log.sayOnce("cannot read or write the intent, trying again: %v", err)
		return nil
	}
	return intent
}

// due is why the runner itself ends the attempt, empty while it does not. Where
// nobody asks any more another attempt has taken over, or will.
func (a *attempt) due() trial.Cause {
	switch {
	case a.overdue():
		return trial.CauseMaxDuration
	case a.contact.lost():
		return trial.CauseHostLost
	}
	return ""
}

func (a *attempt) overdue() bool {
	limit := a.spec.MaxDuration
	return limit > 0 && time.Since(a.child.started) >= limit
}

// terminate asks the command's process group to end and gives it the grace time.
func (a *attempt) terminate() {
	unix.Kill(-a.child.pid, unix.SIGTERM)
	a.killFrom = time.Now().Add(a.spec.Grace)
	rundir.CrashPoint("cancel.TERM-before-KILL")
}

// pause waits for a signal, or until it is time to look again.
func (a *attempt) pause() {
	interval := untilBeat(beat)
	if !a.killFrom.IsZero() {
		interval = min(interval, max(killInterval, time.Until(a.killFrom)))
	}
	if limit := a.spec.MaxDuration; limit > 0 && a.killFrom.IsZero() {
		interval = min(interval, max(killInterval, limit-time.Since(a.child.started)))
	}
	a.awaitSignal(interval)
}

func (a *attempt) awaitSignal(timeout time.Duration) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case received := <-a.signals:
		a.received(received)
	case <-timer.C:
	}
}

func (a *attempt) received(received os.Signal) {
	if received == unix.SIGTERM && a.termed.IsZero() {
		a.log.say("told to end by a signal from outside")
		a.termed = time.Now()
	}
}

// overtaken tells whether the command was killed since this process, frozen, did not
// act on an intent in time.
func (a *attempt) overtaken() bool {
	return a.intent == nil && a.child.status.Signaled() && a.child.status.Signal() == unix.SIGKILL && a.run.Neglected(a.spec.Grace)
}

// exit says how the command ended. A FINAL that came before a graceful end shows
// that the command was done, whoever shut down meanwhile.
func (a *attempt) exit(final bool) rundir.ExitRecord {
	if a.overtaken() {
		a.intent = a.wanted()
	}
	record := rundir.ExitRecord{Started: a.child.started, Ended: a.child.ended, Intent: a.intent}
	record.Exit = ending(a.child.status)
	if a.child.started.IsZero() {
		record.Exit = trial.Exit{Code: 128 + int(unix.SIGTERM), Text: "ended before it was started"}
		return record
	}
	record.Exit.Text = a.child.text()
	done := record.Exit.Code == 0 && final
	record.Exit.Outside = a.intent == nil && !done && !a.termed.IsZero()
	if a.intent == nil && !record.Exit.Outside && byTerm(record.Exit) {
		record.Exit.Text = ownTerm
	}
	return record
}

func ending(status unix.WaitStatus) trial.Exit {
	if status.Signaled() {
		return trial.Exit{Code: 128 + int(status.Signal()), Signal: unix.SignalName(status.Signal())}
	}
	return trial.Exit{Code: status.ExitStatus()}
}

// byTerm also knows the code that a shell returns when what it ran died by TERM.
func byTerm(exit trial.Exit) bool { return exit.Code == 128+int(unix.SIGTERM) }

// blameOutside waits a moment for the TERM that would tell that a failure was part
// of a shutdown, and tells whether it came.
func (a *attempt) blameOutside(record *rundir.ExitRecord) bool {
	if record.Intent != nil || record.Exit.Outside || record.Exit.Code == 0 || record.Started.IsZero() {
		return false
	}
	deadline := time.Now().Add(shutdownSkew)
	if byTerm(record.Exit) {
		deadline = time.Now().Add(termSkew)
	}
	for a.termed.IsZero() && time.Now().Before(deadline) {
		a.awaitSignal(time.Until(deadline))
	}
	if a.termed.IsZero() || a.termed.Sub(record.Ended) >= outsideWindow {
		return false
	}
	record.Exit.Outside = true
	if record.Exit.Text == ownTerm {
		record.Exit.Text = ""
	}
	return true
}
