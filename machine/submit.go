package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

const (
	// startTimeout bounds the wait for a runner that starts: ten times what an
	// overloaded machine took, and below the submit activity's own timeout.
	startTimeout = 30 * time.Second
	// lookInterval is the pause between two looks at a run that starts.
	lookInterval = 5 * time.Millisecond
)

// Submit starts a job's run, or finds the run that an earlier Submit with the same
// key started, even half. It never starts a second one, and never starts again
// what has ended. Parameter files and Spec are durable before the runner starts;
// the runner has written its process record when Submit returns.
func (m *Machine) Submit(ctx context.Context, job Job, terms Terms) (Ref, error) {
	run, err := m.index.add(job.Key, m.directoryOf(job))
	if err != nil {
		return Ref{}, fault("submit", err)
	}
	lease, given, err := m.proposeGPUs(ctx, run, job, terms)
	if err != nil {
		return Ref{}, fault("submit", err)
	}
	defer given()
	ctx, cancel := context.WithTimeout(ctx, startTimeout+job.Grace)
	defer cancel()
	if err := m.start(ctx, run, launching{job, terms, lease}); err != nil {
		return Ref{}, fault("submit", err)
	}
	return Ref{job.Key, run.Directory}, nil
}

// launching is a job with the terms it runs on.
type launching struct {
	Job
	Terms
	lease *rundir.GPULease // nil where it asks for no GPU
}

// start makes sure that the run was begun, once, unless an intent came first.
func (m *Machine) start(ctx context.Context, run rundir.Run, job launching) error {
	claim, err := claimUnlessBegun(ctx, run)
	if err != nil {
		return err
	}
	if claim == nil {
		return checkParameters(run, job.Job)
	}
	defer claim.Close()
	if err := m.makeReady(ctx, run, job); err != nil {
		return err
	}
	rundir.CrashPoint("submit.lock-held-before-exec")
	return m.launch(ctx, run, job.Key, claim)
}

// checkParameters fails where a run that was begun was given other parameters than the
// job has.
func checkParameters(run rundir.Run, job Job) error {
	given, err := os.ReadFile(run.Path(trial.ParameterFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !trial.SameParameters(given, job.Parameter) {
		return Errorf(Conflict, "submit", "a run with other parameters has the key %s", job.Key)
	}
	return nil
}

// claimUnlessBegun returns the claim, or nil if the run was begun or cancelled. It
// waits while another Submit holds the claim, and through the moment for which an
// observer does.
func claimUnlessBegun(ctx context.Context, run rundir.Run) (*os.File, error) {
	for {
		claim, err := run.Acquire()
		if err != nil && !errors.Is(err, rundir.ErrHeld) {
			return nil, err
		}
		settled, lookErr := settled(run)
		if lookErr == nil && !settled && claim != nil {
			return claim, nil
		}
		if claim != nil {
			claim.Close()
		}
		if settled || lookErr != nil {
			return nil, lookErr
		}
		if err := pause(ctx); err != nil {
			return nil, fmt.Errorf("another process has been starting this run in %s and neither ends nor goes on: %w", run.Directory, err)
		}
	}
}

// settled tells whether there is nothing to start any more.
func settled(run rundir.Run) (bool, error) {
	process, err := run.ReadProcess()
	if err != nil || process != nil {
		return process != nil, err
	}
	exit, err := run.ReadExit()
	if err != nil || exit != nil {
		return exit != nil, err
	}
	intent, err := run.ReadIntent()
	return intent != nil, err
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(lookInterval):
		return nil
	}
}

// makeReady does everything that comes before the runner, each step repeatable.
func (m *Machine) makeReady(ctx context.Context, run rundir.Run, job launching) error {
	if err := checkEnvironment(job.EnvironmentFile); err != nil {
		return err
	}
	if err := m.endEarlier(ctx, job.Key); err != nil {
		return err
	}
	if err := run.MakeDirectory(); err != nil {
		return err
	}
	if err := requireRoom(run.Directory); err != nil {
		return err
	}
	shared, err := m.sharedDirectory(ctx, run, job)
	if err != nil {
		return err
	}
	code, err := codeOf(ctx, run, job, shared)
	if err != nil {
		return err
	}
	if err := writeFiles(run, job); err != nil {
		return err
	}
	directories, err := directoriesOf(run, code, shared)
	if err != nil {
		return err
	}
	if err := run.WriteSpec(m.spec(job, run.Claim, directories)); err != nil {
		return err
	}
	return linkNewest(run)
}

// checkEnvironment finds what the runner could only die of.
func checkEnvironment(path string) error {
	if path == "" {
		return nil
	}
	if _, err := rundir.ReadEnvironment(path); err != nil {
		return Errorf(Transient, "submit", "the environment kept for this experiment cannot be read: %w", err)
	}
	return nil
}

// writeFiles leaves it to the Spec, which follows, to make the directory's entries
// durable: each time that is done costs a commit of the file system.
func writeFiles(run rundir.Run, job launching) error {
	if err := rundir.ReplaceFile(run.Path(trial.ParameterFile), job.Parameter, 0o644); err != nil {
		return err
	}
	if err := rundir.ReplaceFile(run.Path(trial.ParametersFile), job.Parameters, 0o644); err != nil {
		return err
	}
	if job.LostAfter == 0 {
		return nil
	}
	return run.ExpectContact()
}

// directoriesOf are where an attempt's process lives. What NNI's SDK writes into an
// output directory on a shared storage is found in the attempt's own as well.
func directoriesOf(run rundir.Run, code, shared string) (trial.Directories, error) {
	directories := trial.Directories{System: run.Directory, Output: run.Directory, Code: code}
	if shared == "" {
		return directories, nil
	}
	directories.Output = filepath.Join(shared, outputFolder)
	return directories, replaceLink(filepath.Join(directories.Output, rundir.TrialLog), run.Path(rundir.TrialLog))
}

func (m *Machine) spec(job launching, claim string, directories trial.Directories) rundir.Spec {
	return rundir.Spec{
		Key: job.Key, Claim: claim, Command: job.Command, Shell: rundir.Shell(), Directories: directories,
		NNIPlatform: m.NNIPlatform, EnvironmentFile: job.EnvironmentFile, PathPrefix: job.PathPrefix,
		MaxDuration: job.MaxDuration, LostAfter: job.LostAfter, Grace: job.Grace, LogLimit: job.LogLimit, GPUs: job.GPUs, Lease: job.lease,
		TrialModule: job.TrialModule,
	}
}

// linkNewest makes the trial's directory show the newest attempt, as NNI's users
// know it: trials/ID/stdout and so on.
func linkNewest(run rundir.Run) error {
	attempt := filepath.Base(run.Directory)
	names := append([]string{trial.ParameterFile, trial.ParametersFile}, streams...)
	for _, name := range names {
		link := filepath.Join(filepath.Dir(run.Directory), name)
		if err := replaceLink(filepath.Join(attempt, name), link); err != nil {
			return err
		}
	}
	return nil
}

func replaceLink(target, link string) error {
	if err := os.Symlink(target, link); !errors.Is(err, fs.ErrExist) {
		return err
	}
	if present, err := os.Readlink(link); err == nil && present == target {
		return nil
	}
	temporary := link + ".new"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(target, temporary); err != nil {
		return err
	}
	return os.Rename(temporary, link)
}
