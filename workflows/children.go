package workflows

import (
	"math"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/workflow"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// enqueue queues a trial that was asked, unless it is known already.
func (e *experimentRun) enqueue(n int) {
	if !slices.Contains(e.Waiting, n) && !slices.Contains(e.Open, n) {
		e.Waiting = append(e.Waiting, n)
	}
}

// restart starts the workflow of a trial that has none although it should. One
// that still waits for a slot is not missing, nor is one that a stop has
// interrupted already: it has nothing left to tell.
func (e *experimentRun) restart(n int) {
	interrupted := e.Status != record.Running && !slices.Contains(e.Open, n)
	if !interrupted && !slices.Contains(e.Waiting, n) && !slices.Contains(e.Due, n) {
		e.start(n)
	}
}

// forget drops a trial that needs no workflow any more.
func (e *experimentRun) forget(n int) {
	is := func(other int) bool { return other == n }
	e.Open = slices.DeleteFunc(e.Open, is)
	e.Waiting = slices.DeleteFunc(e.Waiting, is)
	e.Due = slices.DeleteFunc(e.Due, is)
	e.Untold = slices.DeleteFunc(e.Untold, is)
}

// owe has trials started whatever the limits are, as many as there are, but for those
// that this run has started already.
func (e *experimentRun) owe(trials []int) {
	for _, n := range trials {
		if !e.began[n] {
			e.Due = append(e.Due, n)
		}
	}
	e.Open = slices.Concat(e.Open, trials)
	slices.Sort(e.Open)
	e.Open = slices.Compact(e.Open)
}

// room is how many more trials this run may start: the next one starts the rest.
func (e *experimentRun) room() int {
	if e.handsOver {
		return math.MaxInt
	}
	return max(maxChildren-e.started, 0)
}

// full tells whether this run has done as much as its history should hold.
func (e *experimentRun) full() bool {
	if e.handsOver {
		return e.rounds >= maxRounds || e.told >= maxSignals
	}
	return e.started >= maxChildren || len(e.Untold) > 0
}

// startDue starts the trials that are to be started whatever the limits are, unless
// the next round does.
func (e *experimentRun) startDue() {
	if e.handsOver {
		return
	}
	count := min(len(e.Due), e.room())
	starting := e.Due[:count]
	e.Due = e.Due[count:]
	e.startAll(starting)
}

// startWaiting starts as many trials as there are free slots, in time.
func (e *experimentRun) startWaiting() {
	if e.Paused || e.Late || e.Status != record.Running {
		return
	}
	free := min(e.Concurrency-len(e.Open), len(e.Waiting), e.room())
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
		if !e.handsOver && i > 0 && i%maxStarts == 0 {
			_ = e.starting[len(e.starting)-1].future.Get(e.ctx, nil) // which begins another task
		}
		e.start(n)
	}
}

// start has a trial's workflow started by the next round. That it runs already is as
// good: its end comes by the log all the same.
func (e *experimentRun) start(n int) {
	if at, found := slices.BinarySearch(e.Open, n); !found {
		e.Open = slices.Insert(e.Open, at, n)
	}
	switch {
	case !e.handsOver:
		e.startChild(n)
	case !slices.Contains(e.Due, n):
		e.Due = append(e.Due, n)
	}
}

// startChild starts a trial's workflow as older versions did, as a child that outlives
// this run.
func (e *experimentRun) startChild(n int) {
	start := activities.Start{
		Experiment: e.id, Sequence: n, Platform: e.Platforms[n%len(e.Platforms)], Queue: e.Queues[n%len(e.Queues)], Searchable: e.Searchable,
	}
	story := storyOf(start)
	ctx := workflow.WithChildOptions(e.ctx, workflow.ChildWorkflowOptions{
		WorkflowID:            TrialWorkflowID(e.id, n),
		TaskQueue:             start.Queue,
		WorkflowTaskTimeout:   TaskTimeout,
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		StaticSummary:         story.summary, StaticDetails: story.details, Memo: story.memo, TypedSearchAttributes: story.attributes,
	})
	child := workflow.ExecuteChildWorkflow(ctx, TrialType, inputOf(start))
	e.starting = append(e.starting, beginning{n, child.GetChildWorkflowExecution()})
	e.started++
	e.began[n] = true
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
	e.Untold, e.Word = slices.Clone(e.Open), SignalCancel
}

// endEarly has every trial that was asked end as EARLY_STOPPED. One that had not
// started is started only to be settled so: that it shall is on record before.
func (e *experimentRun) endEarly() {
	_ = workflow.ExecuteLocalActivity(onRecord(e.ctx, "note that all trials end early"), do.EndEarly, e.id).Get(e.ctx, nil)
	e.Untold, e.Word = slices.Clone(e.Open), SignalEarlyStop
	e.owe(e.Waiting)
	e.Waiting = nil
}

// tell signals trials that they shall end, some at a time. One that cannot be told has
// no workflow: a new one finds on record what it should do.
func (e *experimentRun) tell() {
	count := min(len(e.Untold), maxSignals-e.told)
	if count <= 0 || len(e.Due) > 0 {
		return
	}
	e.confirmStarts() // nobody can be told before
	ending := Ending{Cause: trial.CauseStop}
	if e.Word == SignalEarlyStop {
		ending = Ending{Cause: trial.CauseEarlyStop, Decision: activities.EarlyStopID(e.id)}
	}
	trials := e.Untold[:count]
	e.Untold, e.told = e.Untold[count:], e.told+count
	for some := range slices.Chunk(trials, signalsAtOnce) {
		told := make([]workflow.Future, len(some))
		for i, n := range some {
			told[i] = workflow.SignalExternalWorkflow(e.ctx, TrialWorkflowID(e.id, n), "", e.Word, ending)
		}
		for i, n := range some {
			if told[i].Get(e.ctx, nil) != nil {
				e.start(n)
			}
		}
	}
}
