package workflows

import (
	"encoding/json"
	"fmt"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/trial"
)

var do *activities.Activities // only ever to name its methods

// TrialInput says which trial. Its workflow runs on the queue of its platform: so
// the worker that begins an attempt is mostly given it along with the answer.
type TrialInput struct {
	Experiment string `json:"experiment"`
	Sequence   int    `json:"sequence"`
	Platform   string `json:"platform"`             // its name, for people
	Searchable bool   `json:"searchable,omitempty"` // search attributes may be used
}

// Trial runs one trial's attempts until it is settled or interrupted: begin, run,
// and after a platform's fault begin the next attempt. It takes
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
		switch {
		case forgotten(err) && t.current == 0:
			if again, err := t.awaitTakeIn(); err != nil || !again {
				return settlement, err
			}
			continue
		case forgotten(err):
			continue // from what the record, an older one, knows of it
		case err != nil:
			return settlement, err
		}
		if !settlement.Again() {
			if err := t.conclude(settlement); err != nil {
				return settlement, err
			}
			return settlement, workflow.Await(lasting, func() bool { return workflow.AllHandlersFinished(lasting) })
		}
		t.ending = false // whoever wants no other attempt has that on record
	}
}

// awaitTakeIn lets some time pass for a trial that the record does not know: it came
// from a backup, and nobody but its experiment can say whether there shall be such a
// trial. It is false once that had time to: a trial that is known later is started.
func (t *trialRun) awaitTakeIn() (again bool, err error) {
	if t.unknown >= len(takeInPauses) {
		t.describe("the record came from a backup and does not know this trial; its experiment starts it again if it shall run")
		return false, nil
	}
	t.describe("the record came from a backup and does not know this trial yet")
	pause := takeInPauses[t.unknown]
	t.unknown++
	return true, workflow.Sleep(t.ctx, pause)
}

// trialRun is one run of the Trial workflow. Why the trial shall end is on
// record; the run only needs to know that it shall.
type trialRun struct {
	TrialInput
	ctx     workflow.Context
	ending  bool
	words   int  // that the trial shall end, so far
	lost    bool // a person declared the running attempt lost
	unknown int  // how often the record did not know the trial
	under   bool // an attempt is under way

	current    int // the attempt that is driven, 0 before the first
	parameters json.RawMessage
	settlement *activities.Settlement // set when the trial is over
}

// listen takes everybody's word that the trial shall end.
func (t *trialRun) listen(ctx workflow.Context) error {
	cancel := signals(t.ctx, SignalCancel, "end the trial USER_CANCELED")
	early := signals(t.ctx, SignalEarlyStop, "end the trial EARLY_STOPPED; what it reported counts")
	workflow.Go(t.ctx, func(inner workflow.Context) { t.receive(inner, cancel, trial.CauseUser) })
	workflow.Go(t.ctx, func(inner workflow.Context) { t.receive(inner, early, trial.CauseEarlyStop) })
	workflow.Go(t.ctx, func(inner workflow.Context) {
		ctx.Done().Receive(inner, nil)
		_ = t.end(inner, Ending{Cause: trial.CauseUser, Reason: trial.Reason{Code: "canceled", Text: "canceled through Temporal"}})
	})
	if err := answer(ctx, t.overview, "where the trial is: its attempt, parameters, whether it is being ended, and its result"); err != nil {
		return err
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, UpdateEnd, t.update, workflow.UpdateHandlerOptions{
		Validator:   t.validate,
		Description: "end this trial: cause is user or early-stop",
	})
}

// validate refuses what this trial cannot be asked.
func (t *trialRun) validate(ending Ending) error {
	switch {
	case ending.Lost && !t.under:
		return temporal.NewNonRetryableApplicationError("no attempt of this trial runs at present, so none can be lost", activities.ErrorRejected, nil)
	case !ending.Lost && ending.Cause != trial.CauseUser && ending.Cause != trial.CauseEarlyStop:
		return temporal.NewNonRetryableApplicationError(fmt.Sprintf("a trial is ended by the cause %s or %s, not %q",
			trial.CauseUser, trial.CauseEarlyStop, ending.Cause), activities.ErrorRejected, nil)
	}
	return nil
}

func (t *trialRun) update(ctx workflow.Context, ending Ending) error {
	lasting, _ := workflow.NewDisconnectedContext(ctx)
	return t.end(lasting, ending)
}

// receive takes a signal for the wish that its name says. People send it with
// nothing or anything; only what our own programs send along is understood.
func (t *trialRun) receive(ctx workflow.Context, channel workflow.ReceiveChannel, cause trial.Cause) {
	for {
		var input converter.RawValue
		channel.Receive(ctx, &input)
		_ = t.end(ctx, understand(input, cause)) // nobody waits for a signal's answer
	}
}

func understand(input converter.RawValue, cause trial.Cause) Ending {
	var said Ending
	if input.Payload() == nil || converter.GetDefaultDataConverter().FromPayload(input.Payload(), &said) != nil {
		return Ending{Cause: cause}
	}
	understood := Ending{Cause: cause, Decision: said.Decision, Reason: said.Reason}
	if cause == trial.CauseUser && said.Cause == trial.CauseStop {
		understood.Cause = trial.CauseStop
	}
	return understood
}

// end makes it durable that the trial shall end, and only then acts on it. A stop
// needs no decision of its own: that the experiment stops is on record.
func (t *trialRun) end(ctx workflow.Context, ending Ending) error {
	if ending.Lost {
		return t.declareLost(ctx)
	}
	if ending.Cause != trial.CauseStop && ending.Decision == "" {
		if err := t.decide(ctx, ending); err != nil {
			return err
		}
	}
	t.ending = true
	t.words++
	return nil
}

// declareLost gives up the attempt that is under way. The next one begins once
// that is on record.
func (t *trialRun) declareLost(ctx workflow.Context) error {
	key := trial.Key{Experiment: t.Experiment, Sequence: t.Sequence, Attempt: t.current}
	err := workflow.ExecuteLocalActivity(onRecord(ctx, "note that the attempt is lost"), do.DeclareLost, key).Get(ctx, nil)
	if err == nil && t.under && t.current == key.Attempt { // not the next one, which may have begun
		t.lost = true
	}
	return err
}

func (t *trialRun) decide(ctx workflow.Context, ending Ending) error {
	info := workflow.GetInfo(ctx)
	decision := trial.Decision{
		ID:    fmt.Sprintf("%s-%d", info.WorkflowExecution.RunID, info.GetCurrentHistoryLength()),
		Cause: ending.Cause, Reason: ending.Reason,
	}
	summary := "note that the trial shall end: " + string(ending.Cause)
	return workflow.ExecuteLocalActivity(onRecord(ctx, summary), do.Decide, t.Experiment, t.Sequence, decision).Get(ctx, nil)
}

// attempt brings one attempt to its end and has it judged.
func (t *trialRun) attempt() (settlement activities.Settlement, err error) {
	begun, err := t.begin()
	switch {
	case err != nil || begun.Settled != nil:
		return begun.Settlement(), err
	case begun.Attempt == 0:
		err = workflow.ExecuteLocalActivity(onRecord(t.ctx, "note how it ended"), do.Dismiss, t.Experiment, t.Sequence).Get(t.ctx, &settlement)
		return settlement, err
	}
	t.ending = t.ending || begun.Refused
	return t.run(trial.Key{Experiment: t.Experiment, Sequence: t.Sequence, Attempt: begun.Attempt})
}

// begin puts the next attempt on record, or finds the open one.
func (t *trialRun) begin() (begun activities.BeginAnswer, err error) {
	err = workflow.ExecuteLocalActivity(onRecord(t.ctx, "begin an attempt"), do.Begin, t.Experiment, t.Sequence).Get(t.ctx, &begun)
	t.current = begun.Attempt
	if begun.Parameters != nil {
		t.parameters = begun.Parameters
	}
	return begun, err
}

// run has an attempt run to its end, which it brings about where that is wanted,
// and has it judged.
func (t *trialRun) run(key trial.Key) (settlement activities.Settlement, err error) {
	summary := fmt.Sprintf("run attempt %d on %s", key.Attempt, t.Platform)
	ctx, cancel := workflow.WithCancel(forLong(t.ctx, summary))
	t.describe(fmt.Sprintf("attempt %d is with %s", key.Attempt, t.Platform))
	running := workflow.ExecuteActivity(ctx, do.RunAttempt, key)
	t.under = true
	defer func() { t.under, t.lost = false, false }()
	if err := t.await(key, running); err != nil {
		return settlement, err
	}
	if t.lost {
		cancel()
		return settlement, nil
	}
	if err := running.Get(t.ctx, nil); err != nil && !activities.TrialFailed(err) {
		return settlement, err
	}
	err = workflow.ExecuteLocalActivity(onRecord(t.ctx, "judge how it ended"), do.Settle, key).Get(t.ctx, &settlement)
	return settlement, err
}

// await returns when an attempt is over or declared lost. Whenever somebody wants
// the trial to end it has that done, one call at a time: an earlier word may have
// been one that the record did not want.
func (t *trialRun) await(key trial.Key, running workflow.Future) error {
	var ending workflow.Future
	heeded := -1
	due := func() bool { return t.ending && t.words != heeded && (ending == nil || ending.IsReady()) }
	for {
		err := workflow.Await(t.ctx, func() bool { return running.IsReady() || t.lost || due() })
		if err != nil || running.IsReady() || t.lost {
			return err
		}
		heeded = t.words
		t.describe(fmt.Sprintf("attempt %d is being ended", key.Attempt))
		// Its answer does not matter: what ended the run is in its report.
		ending = workflow.ExecuteActivity(onPlatform(t.ctx, fmt.Sprintf("end attempt %d", key.Attempt)), do.CancelTrial, key)
	}
}
