package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// PrepareCodeDir makes the experiment's code available on one of its platforms,
// by index, and notes where it is. Asked again it answers from the record, so a
// resumed experiment runs the code it began with.
func (a *Activities) PrepareCodeDir(ctx context.Context, id string, index int) error {
	row, err := a.Record.Experiment(ctx, id)
	if err != nil {
		return err
	}
	config, err := a.config(row)
	if err != nil || index < len(row.Workspaces) && row.Workspaces[index] != nil {
		return err
	}
	return a.prepare(ctx, id, config.Platforms[index], index)
}

func (a *Activities) prepare(ctx context.Context, id string, config experiment.Platform, index int) error {
	platform, err := a.platform(config.Name)
	if err != nil {
		return err
	}
	workspace, err := platform.Prepare(ctx, platforms.Bundle{
		Experiment: id, CodeDirectory: config.CodeDirectory, Snapshot: config.Snapshot,
	})
	if err != nil {
		reason := trial.Reason{Code: "prepare-" + string(platforms.CodeOf(err)), Text: err.Error()}
		return temporalError(errors.Join(err, a.Record.SetReason(ctx, id, reason)))
	}
	text, err := json.Marshal(workspace)
	if err != nil {
		return err
	}
	return errors.Join(a.Record.SetWorkspace(ctx, id, index, text), a.Record.SetReason(ctx, id, trial.Reason{}))
}

// Submission is what became of SubmitTrial.
type Submission struct {
	Settled *Settlement `json:"settled,omitempty"` // the trial has ended; nothing was started
	// Refused: the experiment stops, or it is decided that the trial shall end.
	// Nothing new was started; Attempt, if not 0, may still run.
	Refused bool `json:"refused,omitempty"`
	Attempt int  `json:"attempt,omitempty"`
	// Parameters are the trial's, for people, where they are small.
	Parameters json.RawMessage `json:"parameters,omitempty"`
}

// Settlement is the settlement of a trial that had ended before, else zero.
func (s Submission) Settlement() Settlement {
	if s.Settled == nil {
		return Settlement{}
	}
	return *s.Settled
}

// SubmitTrial sees to it that the trial's open attempt runs: its row is written
// before the launch and its handle before the answer. It is repeated until it
// succeeds, and never starts an attempt twice. A job that the platform calls
// invalid fails its trial.
func (a *Activities) SubmitTrial(ctx context.Context, id string, sequence int) (Submission, error) {
	row, err := a.Record.Experiment(ctx, id)
	if err != nil {
		return Submission{}, err
	}
	config, err := a.config(row)
	if err != nil {
		return Submission{}, err
	}
	attempt, err := a.Record.BeginAttempt(ctx, id, sequence, placement(config, sequence).Name)
	submission := Submission{Attempt: attempt.Key.Attempt}
	switch {
	case errors.Is(err, record.ErrSettled):
		return a.settled(ctx, id, sequence)
	case errors.Is(err, record.ErrStopping), errors.Is(err, record.ErrDecided):
		submission.Refused = true
		return submission, nil
	case err != nil:
		return submission, err
	}
	submission.Parameters, err = a.parameters(ctx, id, sequence)
	if err != nil || attempt.Handle != nil {
		return submission, err
	}
	err = a.launch(ctx, row, config, attempt.Key)
	if err != nil && platforms.CodeOf(err) == platforms.Invalid {
		return a.refuse(ctx, attempt.Key, err)
	}
	return submission, temporalError(err)
}

// OpenAttempt tells, from the record alone, which attempt of a trial that shall
// end is open.
func (a *Activities) OpenAttempt(ctx context.Context, id string, sequence int) (Submission, error) {
	attempts, err := a.Record.Attempts(ctx, id, sequence)
	if err != nil {
		return Submission{}, err
	}
	submission := Submission{Refused: true}
	if last := len(attempts) - 1; last >= 0 && attempts[last].Outcome == "" {
		submission.Attempt = attempts[last].Key.Attempt
	}
	return submission, nil
}

func (a *Activities) settled(ctx context.Context, id string, sequence int) (Submission, error) {
	row, err := a.Record.Trial(ctx, id, sequence)
	settlement := settlementOf(row)
	return Submission{Settled: &settlement}, err
}

// refuse fails a trial whose job the platform would never accept.
func (a *Activities) refuse(ctx context.Context, key trial.Key, cause error) (Submission, error) {
	row, err := a.Record.Trial(ctx, key.Experiment, key.Sequence)
	if err != nil {
		return Submission{}, err
	}
	settlement, err := a.write(ctx, row, key, verdict{
		outcome: record.OutcomeEnded, state: trial.Failed,
		reason: trial.Reason{Code: "refused", Text: cause.Error()},
	})
	return Submission{Settled: &settlement}, err
}

// launch has the platform run an attempt and writes down its handle.
func (a *Activities) launch(ctx context.Context, row record.Experiment, config experiment.Experiment, key trial.Key) error {
	job, err := a.job(ctx, row, config, key)
	if err != nil {
		return errors.Join(err, a.Record.SubmitFailed(ctx, key, trial.Reason{Code: "preparing", Text: err.Error()}))
	}
	platform, err := a.platform(placement(config, key.Sequence).Name)
	if err != nil {
		return err
	}
	handle, err := platform.Submit(ctx, job)
	if err != nil {
		reason := trial.Reason{Code: "submit-" + string(platforms.CodeOf(err)), Text: err.Error()}
		return errors.Join(err, a.Record.SubmitFailed(ctx, key, reason))
	}
	return a.keep(ctx, handle)
}

func (a *Activities) keep(ctx context.Context, handle platforms.Handle) error {
	text, err := json.Marshal(handle)
	if err != nil {
		return err
	}
	return a.Record.SetHandle(ctx, handle.Key, text)
}

// job puts together all that an attempt needs to run.
func (a *Activities) job(ctx context.Context, row record.Experiment, config experiment.Experiment, key trial.Key) (platforms.Job, error) {
	asked, err := a.Record.Trial(ctx, key.Experiment, key.Sequence)
	if err != nil {
		return platforms.Job{}, err
	}
	workspace, err := workspaceOf(row, key.Sequence%len(config.Platforms))
	if err != nil {
		return platforms.Job{}, err
	}
	place := placement(config, key.Sequence)
	options, err := a.resolved(key.Experiment, place.Options)
	if err != nil {
		return platforms.Job{}, err
	}
	return platforms.Job{
		Key: key, Workspace: workspace, Command: place.Command,
		Parameter: parameterFile(asked), Parameters: asked.Parameters,
		Directory: directory(config, key.Experiment), EnvironmentFile: a.Environment(key.Experiment),
		MaxDuration: config.MaxTrialTime.Duration(), Grace: place.Grace.Duration(),
		LogLimit: place.LogLimit, GPUs: place.GPUs, Options: options,
	}, nil
}

func (a *Activities) resolved(experiment string, options json.RawMessage) (json.RawMessage, error) {
	if a.Secrets == nil {
		return options, nil
	}
	return a.Secrets(experiment, options)
}

func workspaceOf(row record.Experiment, index int) (platforms.Workspace, error) {
	var workspace platforms.Workspace
	if index >= len(row.Workspaces) || row.Workspaces[index] == nil {
		return workspace, fmt.Errorf("the code of experiment %s is not prepared yet", row.ID)
	}
	return workspace, json.Unmarshal(row.Workspaces[index], &workspace)
}

// directory is where NNI would keep this experiment, empty for our own place.
func directory(config experiment.Experiment, id string) string {
	if config.Directory == "" {
		return ""
	}
	return config.Directory + "/" + id
}

// parameterFile is NNI's parameter.cfg. The parameters go in byte for byte: a
// JSON encoder could respell their numbers.
func parameterFile(row record.Trial) []byte {
	return fmt.Appendf(nil, `{"parameter_id": %s, "parameter_source": %q, "parameters": %s, "parameter_index": 0}`,
		row.ParameterID, row.Source, row.Parameters)
}

// WatchTrial waits until an attempt is over and every metric of it is on record.
func (a *Activities) WatchTrial(ctx context.Context, key trial.Key) error {
	attempt, err := a.Record.Attempt(ctx, key)
	if err != nil {
		return err
	}
	platform, err := a.platform(attempt.Platform)
	if err != nil {
		return err
	}
	err = alive(ctx, func(ctx context.Context) error {
		attempt, err = platform.Poller.Watch(ctx, key)
		return err
	})
	if err != nil || platforms.Phase(attempt.Phase) != platforms.Lost {
		return err
	}
	return a.sweep(ctx, platform, attempt)
}

// sweep clears what a lost attempt may have left running: no next attempt, which
// would do it, need follow.
func (a *Activities) sweep(ctx context.Context, platform Platform, attempt record.Attempt) error {
	handle, err := HandleOf(attempt)
	if err != nil {
		return err
	}
	return temporalError(platform.Cancel(ctx, handle, trial.Intent{Cause: trial.CauseSuperseded}))
}

// CancelTrial has a platform end an attempt on behalf of whoever the record says
// wants that, whether or not Submit's answer ever arrived. What is over or was
// never started is success, and what nobody wants to end goes on: the word may be
// one about an earlier attempt that came late.
func (a *Activities) CancelTrial(ctx context.Context, key trial.Key) error {
	attempt, err := a.Record.Attempt(ctx, key)
	if err != nil {
		return err
	}
	intent, wanted, err := a.intent(ctx, key)
	if err != nil || !wanted {
		return err
	}
	platform, err := a.platform(attempt.Platform)
	if err != nil {
		return err
	}
	handle, err := HandleOf(attempt)
	if err != nil {
		return err
	}
	if err := platform.Cancel(ctx, handle, intent); err != nil || attempt.Handle != nil {
		return temporalError(err)
	}
	// The cancelled run may never have been started: with a handle, the poller
	// can tell.
	return a.keep(ctx, handle)
}

// intent is why an attempt shall end: by its decision, else with its experiment.
func (a *Activities) intent(ctx context.Context, key trial.Key) (intent trial.Intent, wanted bool, err error) {
	decision, decided, err := a.Record.DecisionOn(ctx, key)
	if err != nil || decided {
		return trial.Intent{Cause: decision.Decision.Cause, Decision: decision.Decision.ID}, decided, err
	}
	row, err := a.Record.Experiment(ctx, key.Experiment)
	return trial.Intent{Cause: trial.CauseStop}, row.Status != record.Running, err
}

// HandleOf is an attempt's handle. Where the answer of Submit was lost it is the
// bare key, which every platform must be able to find a run by.
func HandleOf(attempt record.Attempt) (platforms.Handle, error) {
	handle := platforms.Handle{Platform: attempt.Platform, Key: attempt.Key}
	if attempt.Handle == nil {
		return handle, nil
	}
	return handle, json.Unmarshal(attempt.Handle, &handle)
}
