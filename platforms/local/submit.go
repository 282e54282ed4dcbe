package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/perennial-ml/perennial/platforms"
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

// Submit implements platforms.Platform. Parameter files and Spec are durable
// before the runner starts; the runner has written its process record when Submit
// returns.
func (p *platform) Submit(ctx context.Context, job platforms.Job) (platforms.Handle, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout+job.Grace)
	defer cancel()
	run, err := p.index.add(job.Key, p.directoryOf(job))
	if err != nil {
		return platforms.Handle{}, fault("submit", err)
	}
	if err := p.start(ctx, run, job); err != nil {
		return platforms.Handle{}, fault("submit", err)
	}
	return handleOf(job.Key, run), nil
}

func (p *platform) directoryOf(job platforms.Job) string {
	if job.Directory == "" {
		return p.defaultDirectory(job.Key)
	}
	return attemptDirectory(job.Directory, job.Key)
}

func (p *platform) defaultDirectory(key trial.Key) string {
	return attemptDirectory(filepath.Join(p.StateDirectory, "experiments", key.Experiment), key)
}

func attemptDirectory(experiment string, key trial.Key) string {
	return filepath.Join(experiment, "trials", key.TrialID(), "attempt-"+strconv.Itoa(key.Attempt))
}

// start makes sure that the run was begun, once, unless an intent came first.
func (p *platform) start(ctx context.Context, run rundir.Run, job platforms.Job) error {
	claim, err := claimUnlessBegun(ctx, run)
	if err != nil || claim == nil {
		return err
	}
	defer claim.Close()
	if err := p.makeReady(ctx, run, job); err != nil {
		return err
	}
	rundir.CrashPoint("submit.lock-held-before-exec")
	return p.launch(ctx, run, job.Key, claim)
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
func (p *platform) makeReady(ctx context.Context, run rundir.Run, job platforms.Job) error {
	if err := checkEnvironment(job.EnvironmentFile); err != nil {
		return err
	}
	if err := p.endEarlier(ctx, job); err != nil {
		return err
	}
	if err := run.MakeDirectory(); err != nil {
		return err
	}
	code, err := codeOf(ctx, run, job.Workspace)
	if err != nil {
		return err
	}
	if err := writeParameters(run, job); err != nil {
		return err
	}
	if err := run.WriteSpec(specOf(run, job, code)); err != nil {
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
		return platforms.Errorf(platforms.Transient, "submit", "the environment kept for this experiment cannot be read: %w", err)
	}
	return nil
}

// writeParameters leaves it to the Spec, which follows, to make the directory's
// entries durable: each time that is done costs a commit of the file system.
func writeParameters(run rundir.Run, job platforms.Job) error {
	err := rundir.ReplaceFile(run.Path(trial.ParameterFile), job.Parameter, 0o644)
	if err != nil {
		return err
	}
	return rundir.ReplaceFile(run.Path(trial.ParametersFile), job.Parameters, 0o644)
}

func specOf(run rundir.Run, job platforms.Job, code string) rundir.Spec {
	return rundir.Spec{
		Key: job.Key, Claim: run.Claim, Command: job.Command, Shell: rundir.Shell(),
		Directories: trial.Directories{System: run.Directory, Output: run.Directory, Code: code},
		NNIPlatform: "local", EnvironmentFile: job.EnvironmentFile,
		MaxDuration: job.MaxDuration, Grace: job.Grace, LogLimit: job.LogLimit, GPUs: job.GPUs,
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

// endEarlier makes sure that no earlier attempt of the trial runs, leaves
// processes or is ever started.
func (p *platform) endEarlier(ctx context.Context, job platforms.Job) error {
	for attempt := 1; attempt < job.Key.Attempt; attempt++ {
		key := job.Key
		key.Attempt = attempt
		run, err := p.index.find(key)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = endAttempt(ctx, run, key)
		}
		if err != nil {
			return fmt.Errorf("end attempt %d before attempt %d: %w", attempt, job.Key.Attempt, err)
		}
	}
	return nil
}

func endAttempt(ctx context.Context, run rundir.Run, key trial.Key) error {
	for {
		seen, err := run.Observe()
		if err != nil {
			return err
		}
		if seen.Over() {
			return sweep(ctx, run, key)
		}
		if _, err := run.WriteIntent(trial.Intent{Cause: trial.CauseSuperseded}); err != nil {
			return err
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// sweep clears what a run that is over left behind: processes, and the room its
// runner had reserved.
func sweep(ctx context.Context, run rundir.Run, key trial.Key) error {
	if err := run.Sweep(ctx, key); err != nil {
		return err
	}
	err := os.Remove(run.Path(rundir.ReserveFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
