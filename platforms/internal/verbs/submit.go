package verbs

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/perennial-ml/perennial/codedir"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// nniPlatform is NNI_PLATFORM as trials see it: NNI's module refuses names that it
// does not know, and this one has it write its metrics into a file.
const nniPlatform = "local"

const (
	lookInterval = 20 * time.Millisecond
	// endInterval is the pause between two looks at a run that ends, and forcedAfter
	// what it has before it is ended by force.
	endInterval = 200 * time.Millisecond
	forcedAfter = 30 * time.Second
)

// Prepare implements platforms.Platform. In a shared directory code is a snapshot
// named by its content.
func (p *Platform) Prepare(ctx context.Context, bundle platforms.Bundle) (platforms.Workspace, error) {
	d, err := p.open(ctx, "prepare")
	if err != nil {
		return platforms.Workspace{}, err
	}
	if bundle.Again != nil && d.shared() {
		return *bundle.Again, nil // code stays in the shared directory
	}
	if d.shared() {
		workspace, err := snapshot(filepath.Join(d.home(p.section.Experiment), "code"), bundle.CodeDirectory)
		return workspace, codeFault(err)
	}
	workspace := platforms.Workspace{Directory: bundle.CodeDirectory}
	workspace.Data, err = d.Prepare(ctx, bundle.CodeDirectory)
	return workspace, err
}

func snapshot(store, code string) (platforms.Workspace, error) {
	tree, err := codedir.Scan(code, codedir.DefaultLimits())
	if err != nil {
		return platforms.Workspace{}, err
	}
	hash, err := tree.Hash()
	if err != nil {
		return platforms.Workspace{}, err
	}
	if err := rundir.MakeDirectory(store); err != nil {
		return platforms.Workspace{}, err
	}
	directory, err := tree.Snapshot(store)
	return platforms.Workspace{Directory: directory, Hash: hash}, err
}

// codeFault tells what a person must mend in the code from what passes by itself.
func codeFault(err error) error {
	if errors.Is(err, codedir.ErrTooLarge) || errors.Is(err, codedir.ErrLinkLeaves) {
		return platforms.Errorf(platforms.Invalid, "prepare", "%w", err)
	}
	return fileFault("prepare", err)
}

// Submit implements platforms.Platform. The attempt is written down, and laid out
// where there is a shared directory, before the service is called; what it
// answers is written down before anybody hears of it.
func (p *Platform) Submit(ctx context.Context, job platforms.Job) (platforms.Handle, error) {
	d, err := p.open(ctx, "submit")
	if err != nil {
		return platforms.Handle{}, err
	}
	a, err := p.enter(d, job.Key)
	if err != nil {
		return platforms.Handle{}, fileFault("submit", err)
	}
	if err := p.endEarlier(ctx, d, job.Key); err != nil {
		return platforms.Handle{}, fileFault("submit", err)
	}
	data, err := p.start(ctx, d, a, job)
	return a.handle(data), fileFault("submit", err)
}

// enter writes an attempt down.
func (p *Platform) enter(d *service, key trial.Key) (attempt, error) {
	home := filepath.Join(p.StateDirectory, "experiments", key.Experiment)
	if d.shared() {
		home = d.home(key.Experiment)
	}
	directory := filepath.Join(home, "trials", key.TrialID(), "attempt-"+strconv.Itoa(key.Attempt))
	known, err := p.register.Add(key, entry{entryFormat, key, directory, d.shared()})
	a := p.attempt(known)
	if err == nil {
		err = a.MakeDirectory()
	}
	return a, err
}

// start has the service start a run, unless somebody did before or it shall not
// be started any more.
func (p *Platform) start(ctx context.Context, d *service, a attempt, job platforms.Job) (json.RawMessage, error) {
	claim, err := claimed(ctx, a.Run)
	if err != nil {
		return nil, err
	}
	defer claim.Close()
	if err := checkParameters(a, job); err != nil {
		return nil, err
	}
	data, err := a.data()
	if err != nil || data != nil {
		return data, err
	}
	seen, err := a.Observe()
	if err != nil || seen.Intent != nil {
		return nil, err
	}
	request, err := p.request(ctx, d, a, job)
	if err != nil {
		return nil, err
	}
	if data, err = d.Submit(ctx, request); err != nil {
		return nil, err
	}
	if err := a.keep(data); err != nil {
		return nil, err
	}
	p.heard.submitted(a.Key)
	return data, nil
}

// checkParameters fails where an attempt was laid out with other parameters: the service
// may run it, whether or not it was heard to.
func checkParameters(a attempt, job platforms.Job) error {
	given, err := os.ReadFile(a.Path(trial.ParameterFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return job.CheckParameters(given)
}

// request makes everything ready that a start needs, and returns what the service is to
// be asked. All of it may be repeated.
func (p *Platform) request(ctx context.Context, d *service, a attempt, job platforms.Job) (Submission, error) {
	request := Submission{Run: a.run(nil), GPUs: job.GPUs, MaxDuration: job.MaxDuration.Seconds()}
	if err := rundir.ReplaceFile(a.Path(trial.ParameterFile), job.Parameter, 0o644); err != nil {
		return request, err
	}
	var err error
	if a.Shared {
		request.Command, err = p.lay(ctx, d, a, job)
	} else {
		request.Job = p.job(a, job)
	}
	return request, err
}

// claimed waits for the right to submit a run, which another process may have.
func claimed(ctx context.Context, run rundir.Run) (*os.File, error) {
	for {
		claim, err := run.Acquire()
		if !errors.Is(err, rundir.ErrHeld) {
			return claim, err
		}
		if err := pause(ctx, lookInterval); err != nil {
			return nil, fmt.Errorf("another process is submitting this run: %w", err)
		}
	}
}

// lay makes everything ready that the runner finds in the shared directory, and
// returns the command that starts it. Each step may be repeated.
func (p *Platform) lay(ctx context.Context, d *service, a attempt, job platforms.Job) ([]string, error) {
	runner, err := d.bringRunner(p.Runner)
	if err != nil {
		return nil, err
	}
	code := filepath.Join(a.entry.Directory, "code")
	if err := codedir.Copy(ctx, job.Workspace.Directory, code); err != nil {
		return nil, err
	}
	if err := rundir.ReplaceFile(a.Path(trial.ParametersFile), job.Parameters, 0o644); err != nil {
		return nil, err
	}
	there := rundir.Run{Directory: d.there(a.entry.Directory)}
	// Which shell there is, is for the runner to find.
	return rundir.OnceCommand(d.there(runner), there), a.WriteSpec(rundir.Spec{
		Key: job.Key, Command: job.Command,
		Directories: trial.Directories{System: there.Directory, Output: there.Directory, Code: d.there(code)},
		NNIPlatform: nniPlatform, MaxDuration: job.MaxDuration, Grace: job.Grace, LogLimit: job.LogLimit, TrialModule: job.TrialModule,
	})
}

// bringRunner puts the runner into the shared directory, under a name that changes
// with it, and returns its path.
func (d *service) bringRunner(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", platforms.Errorf(platforms.NotFound, "submit", "the runner is missing, build it or install starter again: %w", err)
	}
	there := filepath.Join(d.SharedDirectory, "runner", fmt.Sprintf("perennial-runner-%x", sha256.Sum256(content)))
	if info, err := os.Stat(there); err == nil && info.Size() == int64(len(content)) {
		return there, nil
	}
	if err := rundir.MakeDirectory(filepath.Dir(there)); err != nil {
		return "", err
	}
	// A process forked while the file is open for writing would keep it so, and nobody
	// could run it here.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return there, rundir.WriteFile(there, content, 0o755)
}

func (p *Platform) job(a attempt, from platforms.Job) *Job {
	variables := trial.Environment(from.Key, nniPlatform, trial.Directories{})
	for name, value := range variables {
		if value == "" || filepath.IsAbs(value) { // it names a directory, or a file in one
			delete(variables, name)
		}
	}
	return &Job{
		CodeDirectory: from.Workspace.Directory, Workspace: nullable(from.Workspace.Data), Command: from.Command,
		Parameter: string(from.Parameter), Parameters: from.Parameters, Variables: variables, Grace: from.Grace.Seconds(),
		LogLimit: from.LogLimit, TrialModule: from.TrialModule,
	}
}

func nullable(data json.RawMessage) json.RawMessage {
	if len(data) == 0 {
		return json.RawMessage("null")
	}
	return data
}

// endEarlier makes sure that no earlier attempt of a trial runs or is ever started.
func (p *Platform) endEarlier(ctx context.Context, d *service, key trial.Key) error {
	for number := range key.Attempt - 1 {
		earlier := key
		earlier.Attempt = number + 1
		a, err := p.find(earlier)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = p.supersede(ctx, d, a)
		}
		if err != nil {
			return fmt.Errorf("end attempt %d before attempt %d: %w", earlier.Attempt, key.Attempt, err)
		}
	}
	return nil
}

// supersede ends a run and returns when it is over: politely, and by force where
// that takes longer than forcedAfter.
func (p *Platform) supersede(ctx context.Context, d *service, a attempt) error {
	ctx, cancel := context.WithTimeout(ctx, 2*forcedAfter)
	defer cancel()
	for _, force := range []bool{false, true} {
		if err := p.end(ctx, d, a, trial.Intent{Cause: trial.CauseSuperseded}, force); err != nil {
			return err
		}
		for deadline := time.Now().Add(forcedAfter); time.Now().Before(deadline); {
			over, err := p.over(ctx, a)
			if err != nil || over {
				return err
			}
			if err := pause(ctx, endInterval); err != nil {
				return err
			}
		}
	}
	return platforms.Errorf(platforms.Transient, "submit", "it does not end, not even by force")
}

func pause(ctx context.Context, interval time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(interval):
		return nil
	}
}

// over tells whether a run is over, or was never there.
func (p *Platform) over(ctx context.Context, a attempt) (bool, error) {
	reports, err := p.Poll(ctx, platforms.Ask(a.handle(nil)))
	if err != nil {
		return false, err
	}
	return reports[0].Phase.Definite() || reports[0].Phase == platforms.Absent, nil
}
