package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/perennial-ml/perennial/activities/poller"
	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// PrepareCodeDir makes the experiment's code available on one of its platforms,
// by index, and notes where it is. Asked again it answers from the record, so a
// resumed experiment runs the code it began with; where that was cleaned up it is made
// available again.
func (a *Activities) PrepareCodeDir(ctx context.Context, id string, index int) error {
	lock := preparingOf(id)
	lock.RLock()
	defer lock.RUnlock()
	row, err := a.Record.Experiment(ctx, id)
	if err != nil {
		return err
	}
	config, err := a.config(row)
	if err != nil {
		return err
	}
	known, err := workspaceOn(row, index)
	if err != nil || known != nil && known.there() {
		return err
	}
	bundle := platforms.Bundle{CodeDirectory: config.Platforms[index].CodeDirectory, Snapshot: config.Platforms[index].Snapshot}
	if known != nil {
		bundle.Again = &known.Workspace
	}
	return a.prepare(ctx, id, index, bundle)
}

func (a *Activities) prepare(ctx context.Context, id string, index int, bundle platforms.Bundle) error {
	section, err := a.Sections.Of(ctx, id, index)
	if err != nil {
		return err
	}
	made, err := section.Prepare(ctx, bundle)
	if err != nil {
		reason := trial.Reason{Code: "prepare-" + string(platforms.CodeOf(err)), Text: err.Error()}
		return temporalError(errors.Join(err, a.Record.SetReason(ctx, id, reason)))
	}
	if a.Keep != nil {
		if err := a.Keep(ctx, id); err != nil {
			return err
		}
	}
	known := workspace{Workspace: made}
	if _, can := poller.Optional[platforms.WithCleanup](section.Platform); can {
		known.State = prepared
	}
	return errors.Join(note(ctx, a.Record, id, index, known), a.Record.SetReason(ctx, id, trial.Reason{}))
}

// BeginAnswer is where a trial is that shall have an attempt.
type BeginAnswer struct {
	Settled *Settlement `json:"settled,omitempty"` // the trial has ended; nothing was begun
	// Refused: the experiment stops or its time is over, or it is decided that the
	// trial shall end.
	// Nothing new was begun; Attempt, if not 0, may still run.
	Refused bool `json:"refused,omitempty"`
	Attempt int  `json:"attempt,omitempty"`
	// Parameters are the trial's, for people, where they are small.
	Parameters json.RawMessage `json:"parameters,omitempty"`
}

// Settlement is the settlement of a trial that had ended before, else zero.
func (b BeginAnswer) Settlement() Settlement {
	if b.Settled == nil {
		return Settlement{}
	}
	return *b.Settled
}

// Begin puts the trial's next attempt on record, or finds the open one. It
// touches no platform, so it answers also while nobody reaches that.
func (a *Activities) Begin(ctx context.Context, id string, sequence int) (BeginAnswer, error) {
	row, err := a.Record.Experiment(ctx, id)
	if err != nil {
		return BeginAnswer{}, forgotten(err)
	}
	config, err := a.config(row)
	if err != nil {
		return BeginAnswer{}, err
	}
	attempt, err := a.Record.BeginAttempt(ctx, id, sequence, placement(config, sequence).Name)
	begun := BeginAnswer{Attempt: attempt.Key.Attempt}
	switch {
	case errors.Is(err, record.ErrSettled):
		return a.settled(ctx, id, sequence)
	case errors.Is(err, record.ErrStopping), errors.Is(err, record.ErrDecided), errors.Is(err, record.ErrTimeOver):
		begun.Refused = true
		return begun, nil
	case err != nil:
		return begun, forgotten(err)
	}
	begun.Parameters, err = a.parameters(ctx, id, sequence)
	return begun, err
}

func (a *Activities) settled(ctx context.Context, id string, sequence int) (BeginAnswer, error) {
	row, err := a.Record.Trial(ctx, id, sequence)
	settlement := settlementOf(row)
	return BeginAnswer{Settled: &settlement}, err
}

// RunAttempt sees to it that an attempt runs, and waits until it is over and
// every metric of it is on record. Its row was written before; its handle is,
// before anybody waits. Repeated, it finds the run and never starts a second one.
// A job that the platform calls invalid fails its trial; one that shall end is
// not started any more.
func (a *Activities) RunAttempt(ctx context.Context, key trial.Key) error {
	if _, err := a.Record.Attempt(ctx, key); err != nil {
		return cmp.Or(a.endStranger(ctx, key, err), forgotten(err))
	}
	platform, err := a.section(ctx, key)
	if err != nil {
		return err
	}
	where := func() any { return whereabouts(platform.Handle(key)) }
	return aliveTelling(ctx, where, func(ctx context.Context) error {
		over, err := a.submit(ctx, platform, key)
		if err == nil && over {
			err = a.watchToEnd(ctx, platform, key)
		}
		if err != nil || over {
			return cmp.Or(err, a.refusal(ctx, key))
		}
		attempt, err := platform.Watch(ctx, key)
		if err != nil || platforms.Phase(attempt.Phase) != platforms.Lost {
			return cmp.Or(err, failure(attempt))
		}
		if err := a.endLeftovers(ctx, platform, attempt); err != nil {
			a.Logger.Warn("what a lost attempt has left cannot be ended now; a next one ends it first", "attempt", key, "error", err)
		}
		return cmp.Or(ctx.Err(), failure(attempt))
	})
}

// failure is how an attempt that is over looks in Temporal: failed where its command
// failed by itself or it was lost, and nil where it succeeded or was ended.
func failure(attempt record.Attempt) error {
	switch {
	case attempt.Outcome != "" || attempt.Intent != nil:
		return nil
	case platforms.Phase(attempt.Phase) == platforms.Lost:
		return trialFailed(faultReason(attempt))
	case attempt.Exit == nil || attempt.Exit.Outside:
		return nil
	}
	if v := byItself(*attempt.Exit); v.state == trial.Failed {
		return trialFailed(v.reason)
	}
	return nil
}

// refusal is the same for a trial that failed before it could run.
func (a *Activities) refusal(ctx context.Context, key trial.Key) error {
	row, err := a.Record.Trial(ctx, key.Experiment, key.Sequence)
	if err != nil || row.State != trial.Failed {
		return err
	}
	return trialFailed(row.Reason)
}

// whereabouts say where a run is, as far as its handle tells; nil: nothing.
func whereabouts(handle platforms.Handle) any {
	told := map[string]string{}
	if handle.Host != "" {
		told["machine"] = handle.Host
	}
	if handle.URL != "" {
		told["page"] = handle.URL
	}
	if len(told) == 0 {
		return nil
	}
	return told
}

// watchToEnd has an attempt observed that is over for its trial until there is nothing
// of it: a Submit may have been accepted whose answer was lost. Until then the
// sweeper ends what there is.
func (a *Activities) watchToEnd(ctx context.Context, platform *poller.Section, key trial.Key) error {
	attempt, err := a.Record.Attempt(ctx, key)
	if err == nil && !attempt.Drained {
		platform.Adopt(attempt)
	}
	return err
}

// submit has an attempt's run under way, with its handle on record, unless the
// attempt is over: given up meanwhile, or refused by the platform, by which its
// trial has FAILED. While there is no room it waits with the others of its section: a
// try of Temporal's each time would be a burden to it.
func (a *Activities) submit(ctx context.Context, section *poller.Section, key trial.Key) (over bool, err error) {
	ticket := section.Room.Ticket(key)
	defer ticket.Close()
	explain := func(denial error) error { return a.explainWait(ctx, key, denial) }
	for denied := false; ; {
		attempt, err := a.Record.Attempt(ctx, key)
		if err != nil || attempt.Outcome != "" || attempt.Handle != nil {
			return attempt.Outcome != "", err
		}
		if !unanswered(attempt) { // else it may run already, and only Submit can tell
			turn, err := ticket.Await(ctx, explain)
			if err != nil {
				return false, err
			}
			if !turn {
				continue
			}
		}
		err = a.submitUnlessUnwanted(ctx, key, denied)
		ticket.Done(err)
		denied = true
		switch code := platforms.CodeOf(err); {
		case err == nil:
			return a.endGivenUp(ctx, key)
		case code == platforms.Invalid:
			return true, a.refuse(ctx, key, err)
		case code == platforms.Conflict:
			return false, a.disown(ctx, section, key)
		case code != platforms.Exhausted:
			return false, temporalError(err)
		}
		if platforms.NoRoom(err) {
			continue // to its place in the order
		}
		if err := rest(ctx, err); err != nil {
			return false, err
		}
	}
}

// explainWait puts on record why an attempt waits that is not tried now. That a Submit
// was never answered must not be forgotten for it.
func (a *Activities) explainWait(ctx context.Context, key trial.Key, denial error) error {
	attempt, err := a.Record.Attempt(ctx, key)
	if err != nil || unanswered(attempt) {
		return err
	}
	return a.Record.SubmitFailed(ctx, key, trial.Reason{Code: submitReason + string(platforms.CodeOf(denial)), Text: denial.Error()})
}

// endGivenUp ends a run that was started although its attempt was given up while
// it waited: its platform knew of none to end then.
func (a *Activities) endGivenUp(ctx context.Context, key trial.Key) (givenUp bool, err error) {
	attempt, err := a.Record.Attempt(ctx, key)
	if err != nil || attempt.Outcome == "" {
		return false, err
	}
	platform, err := a.section(ctx, key)
	if err != nil {
		return true, err
	}
	return true, temporalError(a.endLeftovers(ctx, platform, attempt))
}

// submitUnlessUnwanted makes one try. What shall end is cancelled instead: then
// no late Submit starts it, and the platform can tell that it is over. denied says
// that there was a try before and the platform had no room.
func (a *Activities) submitUnlessUnwanted(ctx context.Context, key trial.Key, denied bool) error {
	_, unwanted, err := a.intent(ctx, key)
	switch {
	case err != nil:
		return err
	case unwanted:
		return a.CancelTrial(ctx, key)
	}
	row, err := a.Record.Experiment(ctx, key.Experiment)
	if err != nil {
		return err
	}
	if late, err := a.late(ctx, row, key, denied); err != nil || late {
		return err
	}
	if err := a.hold(ctx, row, key); err != nil {
		return err
	}
	if err := a.launch(ctx, key); err != nil {
		return err
	}
	// Whoever wanted it to end meanwhile may have found nothing yet to end.
	return a.CancelTrial(ctx, key)
}

// late gives up an attempt that has not begun when its experiment's time is over. Its
// trial waits, and begins with another attempt if the experiment gets more time.
func (a *Activities) late(ctx context.Context, row record.Experiment, key trial.Key, denied bool) (bool, error) {
	if !row.TimeOver() {
		return false, nil
	}
	begun, err := a.mayHaveBegun(ctx, key, denied)
	if err != nil || begun {
		return false, err
	}
	reason := record.TimeOver()
	return true, a.Record.Settle(ctx, key, record.Settlement{
		Outcome: record.OutcomeInterrupted, Reason: reason, Interrupted: &trial.Interrupted{Reason: reason},
	})
}

// mayHaveBegun tells whether an attempt without a handle, or the one that it makes up
// for, may have run: a platform may have accepted it before a crash.
func (a *Activities) mayHaveBegun(ctx context.Context, key trial.Key, denied bool) (bool, error) {
	attempt, err := a.Record.Attempt(ctx, key)
	if err != nil || unanswered(attempt) {
		return true, err
	}
	if before := key; key.Attempt > 1 {
		before.Attempt--
		if last, err := a.Record.Attempt(ctx, before); err != nil || last.Outcome == record.OutcomeFault {
			return true, err
		}
	}
	if denied && attempt.Reason.Code == submitReason+string(platforms.Exhausted) {
		return false, nil
	}
	platform, err := a.section(ctx, key)
	if err != nil {
		return true, err
	}
	known, err := platform.List(ctx, key)
	return len(known) > 0, err
}

// hold has no room for an attempt while its experiment is paused, unless a platform
// may have accepted it already: then only another Submit can tell.
func (a *Activities) hold(ctx context.Context, row record.Experiment, key trial.Key) error {
	if !row.Paused {
		return nil
	}
	attempt, err := a.Record.Attempt(ctx, key)
	if err != nil || unanswered(attempt) {
		return err
	}
	reason := trial.Reason{Code: "paused", Text: "its experiment is paused"}
	return errors.Join(platforms.Errorf(platforms.Exhausted, "submit", "%s", reason.Text), a.Record.SubmitFailed(ctx, key, reason))
}

const (
	// PlatformTimeout bounds one try at a platform's short verbs: a remote host
	// that answers at all answers within it.
	PlatformTimeout = 2 * time.Minute
	// roomInterval is the pause between two looks for room, where the platform
	// does not say when to come again: a slot that is free stays idle so long.
	roomInterval = time.Second
)

// rest waits as long as the platform asks for that has no room for one job.
func rest(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(cmp.Or(platforms.AfterOf(err), roomInterval)):
		return nil
	}
}

// refuse fails a trial whose job the platform would never accept.
func (a *Activities) refuse(ctx context.Context, key trial.Key, cause error) error {
	row, err := a.Record.Trial(ctx, key.Experiment, key.Sequence)
	if err != nil {
		return err
	}
	_, err = a.write(ctx, row, key, verdict{
		outcome: record.OutcomeEnded, state: trial.Failed,
		reason: trial.Reason{Code: "refused", Text: cause.Error()},
	})
	return err
}

// submitReason begins the code of the reason for which an attempt is not submitted
// yet; the platform's own code follows.
const submitReason = "submit-"

// launch has the platform run an attempt and writes down its handle.
func (a *Activities) launch(ctx context.Context, key trial.Key) error {
	row, err := a.Record.Experiment(ctx, key.Experiment)
	if err != nil {
		return err
	}
	config, err := a.config(row)
	if err != nil {
		return err
	}
	job, err := a.job(ctx, row, config, key)
	if err != nil {
		return errors.Join(err, a.Record.SubmitFailed(ctx, key, trial.Reason{Code: "preparing", Text: err.Error()}))
	}
	platform, err := a.section(ctx, key)
	if err != nil {
		return err
	}
	handle, err := submitInTime(ctx, platform, job)
	if platforms.CodeOf(err) == platforms.Conflict {
		return err // which is no reason to wait
	}
	if err != nil {
		reason := trial.Reason{Code: submitReason + string(platforms.CodeOf(err)), Text: err.Error()}
		return errors.Join(err, a.Record.SubmitFailed(ctx, key, reason))
	}
	return a.keep(ctx, handle)
}

// submitInTime bounds the platform's work alone: that it took too long is a reason
// to wait, which is still to be written down.
func submitInTime(ctx context.Context, platform platforms.Platform, job platforms.Job) (platforms.Handle, error) {
	ctx, cancel := context.WithTimeout(ctx, PlatformTimeout)
	defer cancel()
	return platform.Submit(ctx, job)
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
	return platforms.Job{
		Key: key, Workspace: workspace, Command: place.Command,
		Parameter: parameterFile(asked), Parameters: asked.Parameters,
		Directory: directory(config, key.Experiment), EnvironmentFile: a.Environment(key.Experiment),
		MaxDuration: config.MaxTrialTime.Duration(), Grace: place.Grace.Duration(),
		LogLimit: place.LogLimit, TrialModule: trial.Module(config.TrialModule), GPUs: place.GPUs, Storage: place.Storage,
	}, nil
}

func workspaceOf(row record.Experiment, index int) (platforms.Workspace, error) {
	known, err := workspaceOn(row, index)
	if err == nil && (known == nil || !known.there()) {
		err = fmt.Errorf("the code of experiment %s is not prepared yet", row.ID)
	}
	if err != nil {
		return platforms.Workspace{}, err
	}
	return known.Workspace, nil
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

// endLeftovers ends what an attempt that was lost or given up may have left running.
func (a *Activities) endLeftovers(ctx context.Context, platform platforms.Platform, attempt record.Attempt) error {
	handle, err := HandleOf(attempt)
	if err != nil {
		return err
	}
	return cancelInTime(ctx, platform, handle, trial.Intent{Cause: trial.CauseSuperseded})
}

// CancelTrial has a platform end an attempt on behalf of whoever the record says
// wants that, whether or not Submit's answer ever arrived. What is over or was
// never started is success, and what nobody wants to end goes on: the word may be
// one about an earlier attempt that came late.
func (a *Activities) CancelTrial(ctx context.Context, key trial.Key) error {
	attempt, err := a.Record.Attempt(ctx, key)
	if err != nil {
		return forgotten(err)
	}
	intent, wanted, err := a.intent(ctx, key)
	if err != nil || !wanted {
		return err
	}
	platform, err := a.section(ctx, key)
	if err != nil {
		return err
	}
	handle, err := HandleOf(attempt)
	if err != nil {
		return err
	}
	if err := cancelInTime(ctx, platform, handle, intent); err != nil {
		return temporalError(err)
	}
	// The cancelled run may never have been started: with a handle, the poller can
	// tell. One that a Submit has brought meanwhile says more.
	if attempt, err = a.Record.Attempt(ctx, key); err != nil || attempt.Handle != nil {
		return err
	}
	if err := a.keep(ctx, handle); err != nil {
		return err
	}
	platform.Room.Wake(key)
	return nil
}

func cancelInTime(ctx context.Context, platform platforms.Platform, handle platforms.Handle, intent trial.Intent) error {
	ctx, cancel := context.WithTimeout(ctx, PlatformTimeout)
	defer cancel()
	return platform.Cancel(ctx, handle, intent)
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
