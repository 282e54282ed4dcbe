package workflows

import (
	"fmt"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/workflow"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// want queues a trial that was asked, unless it is known already.
func (e *experimentRun) want(n int) {
	if !slices.Contains(e.Waiting, n) && !slices.Contains(e.Open, n) {
		e.Waiting = append(e.Waiting, n)
	}
}

// again starts the workflow of a trial that has none although it should. One
// that still waits for a slot is not missing, nor is one that a stop has
// interrupted already: it has nothing left to tell.
func (e *experimentRun) again(n int) {
	interrupted := e.Status != record.Running && !slices.Contains(e.Open, n)
	if !interrupted && !slices.Contains(e.Waiting, n) {
		e.start(n)
	}
}

// forget drops a trial that needs no workflow any more.
func (e *experimentRun) forget(n int) {
	is := func(other int) bool { return other == n }
	e.Open = slices.DeleteFunc(e.Open, is)
	e.Waiting = slices.DeleteFunc(e.Waiting, is)
}

// startWaiting starts as many trials as there are free slots, in time.
func (e *experimentRun) startWaiting() {
	if e.Paused || e.Late || e.Status != record.Running {
		return
	}
	free := min(e.Concurrency-len(e.Open), len(e.Waiting), maxChildren-e.started)
	if free <= 0 {
		return
	}
	starting := e.Waiting[:free]
	e.Waiting = e.Waiting[free:]
	e.startAll(starting)
}

// startAll starts trials' workflows, some in each workflow task.
func (e *experimentRun) startAll(trials []int) {
	for i, n := range trials {
		if i > 0 && i%maxStarts == 0 {
			_ = e.starting[len(e.starting)-1].future.Get(e.ctx, nil) // which begins another task
		}
		e.start(n)
	}
}

// start starts a trial's workflow as a child that outlives this run. That it
// runs already is as good: its end comes by the log all the same.
func (e *experimentRun) start(n int) {
	if at, found := slices.BinarySearch(e.Open, n); !found {
		e.Open = slices.Insert(e.Open, at, n)
	}
	ctx := workflow.WithChildOptions(e.ctx, e.childStory(workflow.ChildWorkflowOptions{
		WorkflowID:            TrialWorkflowID(e.id, n),
		TaskQueue:             e.Queues[n%len(e.Queues)],
		WorkflowTaskTimeout:   TaskTimeout,
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
	}, n))
	input := TrialInput{
		Experiment: e.id, Sequence: n, Platform: e.Platforms[n%len(e.Platforms)], Searchable: e.Searchable,
	}
	child := workflow.ExecuteChildWorkflow(ctx, TrialType, input)
	e.starting = append(e.starting, beginning{n, child.GetChildWorkflowExecution()})
	e.started++
}

// beginning is the start of a trial's workflow, which Temporal may take its time for.
type beginning struct {
	trial  int
	future workflow.Future
}

// unconfirmed are the trials whose workflow is not known to have begun.
func (e *experimentRun) unconfirmed() (trials []int) {
	for _, start := range e.starting {
		if !start.future.IsReady() {
			trials = append(trials, start.trial)
		}
	}
	return trials
}

// obey applies a command that is on record.
func (e *experimentRun) obey(news activities.News) {
	switch news.Command {
	case trial.SetConcurrency:
		e.Concurrency = news.Count
	case trial.Pause:
		e.Paused = true
	case trial.Resume:
		e.Paused = false
	case trial.Stop:
		e.stop()
	case trial.EarlyStopCommand:
		e.endEarly()
	}
}

// stop tells every open trial to end with its experiment, some at a time. What
// was asked and not started stays for a resume.
func (e *experimentRun) stop() {
	if e.Status != record.Running {
		return
	}
	e.Status, e.Waiting = record.Stopping, nil
	e.tellToStop()
}

func (e *experimentRun) tellToStop() {
	e.tell(slices.Clone(e.Open), SignalCancel, Ending{Cause: trial.CauseStop})
}

// endEarly has every trial that was asked end as EARLY_STOPPED. One that had not
// started is started only to be settled so, which it is told before.
func (e *experimentRun) endEarly() {
	open, waiting := slices.Clone(e.Open), e.Waiting
	e.Waiting = nil
	decision := trial.Decision{
		ID: "early-stop-" + e.id, Cause: trial.CauseEarlyStop,
		Reason: trial.Reason{Code: "early-stopped", Text: "stopped early with its experiment"},
	}
	for _, n := range slices.Concat(open, waiting) {
		_ = workflow.ExecuteLocalActivity(onRecord(e.ctx, fmt.Sprintf("note that trial %d ends early", n)), do.Decide, e.id, n, decision).Get(e.ctx, nil)
	}
	e.startAll(waiting)
	e.tell(open, SignalEarlyStop, Ending{Cause: decision.Cause, Decision: decision.ID})
}

// tell signals trials, some at a time. One that cannot be told has no workflow: a
// new one finds on record what it should do.
func (e *experimentRun) tell(trials []int, signal string, ending Ending) {
	e.confirmStarts() // nobody can be told before
	for some := range slices.Chunk(trials, signalsAtOnce) {
		told := make([]workflow.Future, len(some))
		for i, n := range some {
			told[i] = workflow.SignalExternalWorkflow(e.ctx, TrialWorkflowID(e.id, n), "", signal, ending)
		}
		for i, n := range some {
			if told[i].Get(e.ctx, nil) != nil {
				e.start(n)
			}
		}
	}
}
