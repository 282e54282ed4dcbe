package workflows

import (
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/trial"
)

var do *activities.Activities // only ever to name its methods

// TrialInput says which trial, and where its platform's workers listen.
type TrialInput struct {
	Experiment string `json:"experiment"`
	Sequence   int    `json:"sequence"`
	Queue      string `json:"queue"`
}

// Trial runs one trial's attempts until it is settled or interrupted: submit,
// watch, and after a platform's fault submit again as the next attempt. It takes
// SignalCancel, SignalEarlyStop, UpdateEnd and Temporal's own Cancel, which all
// ask it to end. Started again for a settled trial, it returns its state.
func Trial(ctx workflow.Context, input TrialInput) (activities.Settlement, error) {
	// A cancelled workflow still has to end its run and write that down, so it
	// works on a context that cancellation does not reach.
	lasting, _ := workflow.NewDisconnectedContext(ctx)
	t := &trialRun{TrialInput: input, ctx: lasting}
	if err := t.listen(ctx); err != nil {
		return activities.Settlement{}, err
	}
	for {
		settlement, err := t.attempt()
		if err != nil {
			return settlement, err
		}
		if !settlement.Again() {
			return settlement, workflow.Await(lasting, func() bool { return workflow.AllHandlersFinished(lasting) })
		}
	}
}

// trialRun is one run of the Trial workflow. Why the trial shall end is on
// record; the run only needs to know that it shall.
type trialRun struct {
	TrialInput
	ctx    workflow.Context
	ending bool
	lost   bool // a person declared the running attempt lost
}

// listen takes everybody's word that the trial shall end.
func (t *trialRun) listen(ctx workflow.Context) error {
	workflow.Go(t.ctx, func(inner workflow.Context) { t.receive(inner, SignalCancel, trial.CauseUser) })
	workflow.Go(t.ctx, func(inner workflow.Context) { t.receive(inner, SignalEarlyStop, trial.CauseEarlyStop) })
	workflow.Go(t.ctx, func(inner workflow.Context) {
		ctx.Done().Receive(inner, nil)
		_ = t.end(inner, Ending{Cause: trial.CauseUser, Reason: trial.Reason{Code: "canceled", Text: "canceled through Temporal"}})
	})
	return workflow.SetUpdateHandlerWithOptions(ctx, UpdateEnd, t.update,
		workflow.UpdateHandlerOptions{Description: "end this trial: cause is user or early-stop"})
}

func (t *trialRun) update(ctx workflow.Context, ending Ending) error {
	lasting, _ := workflow.NewDisconnectedContext(ctx)
	return t.end(lasting, ending)
}

func (t *trialRun) receive(ctx workflow.Context, name string, cause trial.Cause) {
	channel := workflow.GetSignalChannel(ctx, name)
	for {
		ending := Ending{}
		channel.Receive(ctx, &ending)
		if ending.Cause == "" {
			ending.Cause = cause
		}
		_ = t.end(ctx, ending) // nobody waits for a signal's answer
	}
}

// end makes it durable that the trial shall end, and only then acts on it. A stop
// needs no decision of its own: that the experiment stops is on record.
func (t *trialRun) end(ctx workflow.Context, ending Ending) error {
	if ending.Lost {
		t.lost = true
		return nil
	}
	if ending.Cause != trial.CauseStop && ending.Decision == "" {
		if err := t.decide(ctx, ending); err != nil {
			return err
		}
	}
	t.ending = true
	return nil
}

func (t *trialRun) decide(ctx workflow.Context, ending Ending) error {
	info := workflow.GetInfo(ctx)
	decision := trial.Decision{
		ID:    fmt.Sprintf("%s-%d", info.WorkflowExecution.RunID, info.GetCurrentHistoryLength()),
		Cause: ending.Cause, Reason: ending.Reason,
	}
	return workflow.ExecuteLocalActivity(onRecord(ctx), do.Decide, t.Experiment, t.Sequence, decision).Get(ctx, nil)
}

// attempt brings one attempt to its end and has it judged.
func (t *trialRun) attempt() (settlement activities.Settlement, err error) {
	submission, err := t.submit()
	switch {
	case err != nil || submission.Settled != nil:
		return submission.Settlement(), err
	case submission.Attempt == 0:
		err = workflow.ExecuteLocalActivity(onRecord(t.ctx), do.Dismiss, t.Experiment, t.Sequence).Get(t.ctx, &settlement)
		return settlement, err
	}
	t.ending = t.ending || submission.Refused
	return t.watch(trial.Key{Experiment: t.Experiment, Sequence: t.Sequence, Attempt: submission.Attempt})
}

// submit starts the next attempt, or finds the open one. Somebody who wants the
// trial to end does not wait for a platform that cannot be reached.
func (t *trialRun) submit() (submission activities.Submission, err error) {
	ctx, cancel := workflow.WithCancel(onPlatform(t.ctx, t.Queue, "submit"))
	future := workflow.ExecuteActivity(ctx, do.SubmitTrial, t.Experiment, t.Sequence)
	if err := workflow.Await(t.ctx, func() bool { return future.IsReady() || t.ending }); err != nil {
		return submission, err
	}
	if !future.IsReady() {
		cancel()
	}
	err = future.Get(t.ctx, &submission)
	if temporal.IsCanceledError(err) {
		err = workflow.ExecuteLocalActivity(onRecord(t.ctx), do.OpenAttempt, t.Experiment, t.Sequence).Get(t.ctx, &submission)
	}
	return submission, err
}

// watch waits for the end of an attempt, brings it about where it is wanted, and
// has the attempt judged.
func (t *trialRun) watch(key trial.Key) (settlement activities.Settlement, err error) {
	ctx, cancel := workflow.WithCancel(forLong(t.ctx, t.Queue, fmt.Sprintf("watch attempt %d", key.Attempt)))
	watching := workflow.ExecuteActivity(ctx, do.WatchTrial, key)
	if err := workflow.Await(t.ctx, func() bool { return watching.IsReady() || t.ending || t.lost }); err != nil {
		return settlement, err
	}
	if t.ending && !watching.IsReady() {
		// Its answer does not matter: what ended the run is in its report.
		workflow.ExecuteActivity(onPlatform(t.ctx, t.Queue, "cancel"), do.CancelTrial, key)
	}
	if err := workflow.Await(t.ctx, func() bool { return watching.IsReady() || t.lost }); err != nil {
		return settlement, err
	}
	if !watching.IsReady() {
		cancel()
		t.lost = false
		return settlement, workflow.ExecuteLocalActivity(onRecord(t.ctx), do.DeclareLost, key).Get(t.ctx, nil)
	}
	if err := watching.Get(t.ctx, nil); err != nil {
		return settlement, err
	}
	err = workflow.ExecuteLocalActivity(onRecord(t.ctx), do.Settle, key).Get(t.ctx, &settlement)
	return settlement, err
}
