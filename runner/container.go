package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/runner/stream"
	"github.com/perennial-ml/perennial/trial"
)

// cannotStart is a container's exit code where its job could not be started.
const cannotStart = 126

// Container runs a job as the command of a container, in a directory that nobody
// outside can read, and returns the exit code for the container: the command's own.
// What the command prints and the journal (package stream) go to stdout and stderr,
// how it ended goes into the job's termination message. A container that was
// started again tells what became of the first one. As for Run, it must be called
// from the main goroutine with the main thread locked to it.
func Container(directory, jobFile string) int {
	// A log that nobody takes any more must not kill the runner; handled, since
	// what is ignored would be so in the trial.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	exit, err := contain(directory, jobFile)
	if err != nil {
		fmt.Fprintln(os.Stderr, "perennial-runner:", err)
	}
	if exit == nil {
		return 1
	}
	return exit.Exit.Code
}

func contain(directory, jobFile string) (*rundir.ExitRecord, error) {
	run, err := runIn(directory)
	if err != nil {
		return nil, err
	}
	job, err := stream.ReadJob(jobFile)
	if err != nil {
		exit, giveUpErr := giveUp(run, err)
		return exit, errors.Join(err, giveUpErr)
	}
	c := newContainer(run, job)
	c.printer.begin()
	rundir.CrashPoint("runner.told-before-claim")
	err = c.live()
	exit, readErr := run.ReadExit()
	if err != nil && exit == nil {
		exit, readErr = giveUp(run, err)
	}
	return exit, errors.Join(err, readErr, c.tell(exit))
}

// runIn is the run in a container's directory. Its claim lies beside what the trial
// may remove: by it the other container sees that this one lives.
func runIn(directory string) (rundir.Run, error) {
	directory, err := filepath.Abs(directory)
	return rundir.Run{Directory: filepath.Join(directory, "attempt"), Claim: filepath.Join(directory, rundir.ClaimFile)}, err
}

// giveUp writes down that the command never starts, unless it may have: then nobody
// knows how it ended.
func giveUp(run rundir.Run, cause error) (*rundir.ExitRecord, error) {
	if process, err := run.ReadProcess(); err != nil || process != nil {
		return nil, err
	}
	exit := &rundir.ExitRecord{Ended: time.Now(), Exit: trial.Exit{Code: cannotStart, Text: "cannot start: " + cause.Error()}}
	return exit, errors.Join(run.MakeDirectory(), run.WriteExit(*exit))
}

type container struct {
	run     rundir.Run
	job     stream.Job
	stdout  *lines
	printer *printer
}

func newContainer(run rundir.Run, job stream.Job) *container {
	c := &container{run: run, job: job, stdout: &lines{to: os.Stdout}}
	if c.job.MessageFile == "" {
		c.job.MessageFile = stream.DefaultMessageFile
	}
	var journal io.Writer = c.stdout
	if job.JournalElsewhere {
		journal = io.Discard
	}
	c.printer = newPrinter(run, job.Spec.Key, journal)
	c.printer.message = c.job.MessageFile
	return c
}

// live is Run for a container: nobody else took the claim before, and an attempt
// that was begun is no error.
func (c *container) live() error {
	if err := c.run.MakeDirectory(); err != nil {
		return err
	}
	claim, err := c.claim()
	if err != nil {
		return err
	}
	defer claim.Close()
	if err := refuseBegun(c.run); err != nil {
		if errors.Is(err, ErrBegun) {
			return c.clearUp()
		}
		return err
	}
	if err := c.write(); err != nil {
		return err
	}
	if err := becomeRunner(); err != nil {
		return err
	}
	log := openLog(c.run)
	a := newAttempt(c.run, c.job.Spec, log)
	a.output = newOutput(c.stdout, os.Stderr, log)
	if c.job.IntentFile != "" {
		go c.heed()
	}
	return a.live()
}

// heed notes the intent that somebody outside makes appear in a file.
func (c *container) heed() {
	for ; ; time.Sleep(killInterval) {
		text, _ := os.ReadFile(c.job.IntentFile) // not there: not yet
		var intent trial.Intent
		if json.Unmarshal(text, &intent) != nil || intent.Cause == "" {
			continue
		}
		if _, err := c.run.WriteIntent(intent); err == nil {
			return
		}
	}
}

// clearUp ends what an earlier runner in the same container's place left.
func (c *container) clearUp() error {
	ctx, cancel := context.WithTimeout(context.Background(), sweepPatience)
	defer cancel()
	return c.run.Sweep(ctx, c.job.Spec.Key)
}

// claim waits through the moment for which an observer has it, or another
// container's end.
func (c *container) claim() (*os.File, error) {
	for deadline := time.Now().Add(sweepPatience); ; time.Sleep(killInterval) {
		claim, err := c.run.Acquire()
		if !errors.Is(err, rundir.ErrHeld) || time.Now().After(deadline) {
			return claim, err
		}
	}
}

// write writes what a submitter writes elsewhere.
func (c *container) write() error {
	os.Unsetenv(stream.JobVariable)
	spec := &c.job.Spec
	spec.Claim = c.run.Claim
	directories := &spec.Directories
	if directories.System == "" {
		directories.System, directories.Output = c.run.Directory, c.run.Directory
	}
	if directories.Code == "" {
		working, err := os.Getwd()
		if err != nil {
			return err
		}
		directories.Code = working
	}
	if spec.Shell == "" {
		spec.Shell = rundir.Shell()
	}
	for name, content := range map[string][]byte{trial.ParameterFile: c.job.Parameter, trial.ParametersFile: c.job.Parameters} {
		if err := rundir.ReplaceFile(filepath.Join(directories.System, name), content, 0o644); err != nil {
			return err
		}
	}
	return c.run.WriteSpec(*spec)
}

// tell has the stream and the termination message say all that there is to say.
func (c *container) tell(exit *rundir.ExitRecord) error {
	c.printer.finish(exit)
	if _, err := os.Stat(stream.DefaultMessageFile); err != nil && c.job.MessageFile == stream.DefaultMessageFile {
		return nil // this is no Kubernetes
	}
	teller, err := tellerOf(c.run, c.job.Spec.Key)
	return errors.Join(err, teller.Write(c.job.MessageFile, exit))
}

// End notes that the run of the container whose directory this is shall end; its
// runner does the rest.
func End(directory string, intent trial.Intent) error {
	run, err := runIn(directory)
	if err == nil {
		_, err = run.ReadSpec()
	}
	if err != nil {
		return err
	}
	switch intent.Cause {
	case trial.CauseUser, trial.CauseStop, trial.CauseEarlyStop, trial.CauseSuperseded:
	default:
		return fmt.Errorf("there is no cause %q: use %s, %s, %s or %s", intent.Cause,
			trial.CauseUser, trial.CauseStop, trial.CauseEarlyStop, trial.CauseSuperseded)
	}
	_, err = run.WriteIntent(intent)
	return err
}
