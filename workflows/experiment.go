package workflows

import (
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

const (
	// maxRounds bounds the rounds of one run, and so its history, at six events each
	// and as much again for what people say meanwhile.
	maxRounds = 300
	// maxStarts bounds the trials that one round starts, which keep it from the news,
	// and the children started in one workflow task: more would strain the size of
	// its answer.
	maxStarts = 100
	// maxChildren bounds the children that a run of an older version starts, and so
	// its history, at some five events each. A worker that has lost the run replays all of it within
	// ExperimentTaskTimeout or never: 5,000 events took longer on a busy machine.
	maxChildren = 250
	// maxSignals bounds the trials that one run tells something, at three events each.
	maxSignals = 250
	// signalsAtOnce bounds the trials told to stop at the same time.
	signalsAtOnce = 50
	// acceptance is how long a run without an accepted experiment waits for one:
	// the update that started it follows at once, or its sender is gone.
	acceptance = time.Minute
	// lastCall is how long a run that has nothing to do waits for a command.
	lastCall = time.Second
)

// ExperimentInput says which experiment; State is what an earlier run of the same
// workflow knew, nil to begin from the record.
type ExperimentInput struct {
	Experiment string `json:"experiment"`
	State      *State `json:"state,omitempty"`
}

// State is all an experiment's workflow remembers. Everything in it can be had
// from the record again.
type State struct {
	Format      int           `json:"format"`
	Status      record.Status `json:"status"`
	Paused      bool          `json:"paused,omitempty"`
	Resumed     bool          `json:"resumed,omitempty"` // while stopping: it goes on once it has stopped
	NoMore      bool          `json:"noMore,omitempty"`  // no further trials will be asked
	Late        bool          `json:"late,omitempty"`    // the experiment's time is over: what waits does not begin
	Concurrency int           `json:"concurrency"`
	Cursor      int64         `json:"cursor"`           // events read
	Stamp       int64         `json:"stamp,omitempty"`  // when the last of them was written
	Known       int64         `json:"known"`            // events up to here were known from the record before they were read
	Open        []int         `json:"open"`             // trials with a workflow, ascending
	Due         []int         `json:"due,omitempty"`    // those of them whose workflow is still to be started
	Untold      []int         `json:"untold,omitempty"` // those of them that are still to be told Word, a signal
	Word        string        `json:"word,omitempty"`
	Waiting     []int         `json:"waiting"` // trials asked and not started, in the order to start them
	Queues      []string      `json:"queues"`
	Platforms   []string      `json:"platforms"`            // their names
	Searchable  bool          `json:"searchable,omitempty"` // search attributes may be used
	// Unread says that runs which the record has forgotten are still to be taken in.
	Unread bool `json:"unread,omitempty"`
	// Progress is for people who look, as new as the last round.
	Progress activities.Progress `json:"standing"`
}

// StateFormat is the number of the current State. Older ones are read: what they lack
// is zero. A newer one is refused.
const StateFormat = 2

// Experiment drives one experiment: it reads the event log round by round, starts
// what was asked, and ends when there is nothing left to do. It takes
// UpdateCommand, SignalCancel (stop), SignalEarlyStop and Temporal's own Cancel
// (stop), all of which become events of the log before anything acts on them.
// What it returns is for people: how the experiment stands, in words.
func Experiment(ctx workflow.Context, input ExperimentInput) (string, error) {
	// Cancel is a command like any other: the trials are stopped in order, which
	// takes a context that cancellation does not reach.
	lasting, _ := workflow.NewDisconnectedContext(ctx)
	e := &experimentRun{id: input.Experiment, ctx: lasting, began: map[int]bool{}}
	if err := e.listen(ctx); err != nil {
		return "", err
	}
	e.assess()
	e.handsOver = workflow.GetVersion(e.ctx, "rounds start trials", workflow.DefaultVersion, 1) > workflow.DefaultVersion
	if input.State != nil {
		e.refuseNewer(input.State.Format)
		e.State, e.introduced = *input.State, true
		if err := e.driveOn(); err != nil {
			return "", err
		}
	}
	if err := e.fromRecord(); err != nil {
		return "", err
	}
	return e.words(), nil
}

// driveOn drives the experiment from what this run knows. Where the record comes from
// a backup that is older, that is no error: the run has to begin from the record.
func (e *experimentRun) driveOn() error {
	err := e.drive()
	e.began = map[int]bool{} // of those some may have come to their end since
	if !forgotten(err) {
		return err
	}
	e.behind, e.taken, e.knew = true, false, e.Progress.Asked
	return nil
}

// forgotten tells whether an activity ended because the record does not know what it
// was about.
func forgotten(err error) bool {
	var failure *temporal.ApplicationError
	return errors.As(err, &failure) && failure.Type() == activities.ErrorForgotten
}

// refuseNewer fails the workflow's task where a newer version of starter wrote its
// state, so that Temporal tries it again until one that reads it works here.
func (e *experimentRun) refuseNewer(format int) {
	if format <= StateFormat {
		return
	}
	reason := activities.NewerState(format, StateFormat)
	_ = workflow.ExecuteLocalActivity(onRecord(e.ctx, "say why nothing goes on"), do.Explain, e.id, reason).Get(e.ctx, nil)
	panic(reason.Text)
}

// experimentRun is one run of the Experiment workflow.
type experimentRun struct {
	State
	id       string
	ctx      workflow.Context
	commands int // handled by this run
	// handsOver has rounds start the trials that are due. It is false for a run of an
	// older version, which starts them as its children.
	handsOver bool
	rounds    int          // of this run
	handed    int          // of the trials that are due, those that the round under way starts
	saying    int          // commands of our own making that are not on record yet
	started   int          // children of this run
	told      int          // trials that this run told something
	began     map[int]bool // trials that this run started
	starting  []beginning  // of children of this run

	introduced bool // Temporal was told what this is
	accepted   bool // by this run: no trial of it can have been forgotten
	behind     bool // the record came from a backup
	knew       int  // trials asked before that was noticed
	taken      bool // in is what the record had forgotten, as far as it can be had
}

// fromRecord drives the experiment for as long as the record says that there is
// something to drive. Somebody's command may say so again at any time.
func (e *experimentRun) fromRecord() error {
	for {
		seen := e.commands
		opened, err := e.open()
		switch {
		case err != nil:
			return err
		case opened.Known && e.mayHaveForgotten(opened.Status):
			err = e.takeIn(seen)
		case opened.Status.Active():
			err = e.driveOn()
		default:
			err = e.idle(seen, opened.Known || e.behind)
		}
		if err != nil {
			if errors.Is(err, errNothingToDo) {
				return e.conclude()
			}
			return err
		}
	}
}

var errNothingToDo = errors.New("nothing to do")

// idle waits a moment for a command: the one that started this run may still be
// on its way. It returns errNothingToDo if none came.
func (e *experimentRun) idle(seen int, known bool) error {
	patience := acceptance
	if known {
		patience = lastCall
	}
	came, err := e.await(patience, "wait for a command", func() bool { return e.commands > seen && e.quiet() })
	if err == nil && !came {
		err = e.hear()
		came = e.commands > seen
	}
	if err == nil && !came {
		return errNothingToDo
	}
	return err
}

// await waits for a condition with a timer that says what for.
func (e *experimentRun) await(patience time.Duration, summary string, holds func() bool) (bool, error) {
	ctx, cancel := workflow.WithCancel(e.ctx)
	defer cancel() // of the timer: firing late it would wake the workflow for nothing
	options := workflow.AwaitOptions{Timeout: patience, TimerOptions: workflow.TimerOptions{Summary: summary}}
	return workflow.AwaitWithOptions(ctx, options, holds)
}

// quiet tells whether all that this run has heard is on record.
func (e *experimentRun) quiet() bool { return e.saying == 0 && workflow.AllHandlersFinished(e.ctx) }

// hear has everybody heard who sent something up to now: what came with the very
// task that ends a run is lost otherwise.
func (e *experimentRun) hear() error {
	heard := false
	workflow.Go(e.ctx, func(workflow.Context) { heard = true }) // after those who wait for messages
	return workflow.Await(e.ctx, func() bool { return heard && e.quiet() })
}

// open takes the record's word for everything. What has an open attempt may be
// running now, so it is driven whatever the limits say.
func (e *experimentRun) open() (opened activities.OpenAnswer, err error) {
	err = workflow.ExecuteLocalActivity(onRecord(e.ctx, "read how far the experiment has come"), do.Open, e.id).Get(e.ctx, &opened)
	if err != nil {
		return opened, err
	}
	e.State = State{
		Format: StateFormat, Status: opened.Status, Paused: opened.Paused, Resumed: opened.Resumed, Late: opened.Late, Concurrency: opened.Concurrency,
		Cursor: opened.Cursor, Stamp: opened.Stamp, Known: opened.LastEvent, Queues: opened.Queues, Unread: e.Unread,
		Platforms: opened.Platforms, Searchable: opened.Searchable, Progress: opened.Progress,
	}
	e.describe()
	if err := e.introduce(opened); err != nil {
		return opened, err
	}
	e.owe(opened.Live)
	switch opened.Status {
	case record.Running:
		e.Waiting = opened.Waiting
	case record.Stopping:
		e.tellToStop() // who told them may not have come to the end
	}
	if opened.Ending {
		e.endEarly()
	}
	e.startDue()
	e.tell()
	return opened, nil
}

// drive is the one loop: see what is to be started, have a round start it and wait for
// news, apply those.
func (e *experimentRun) drive() error {
	e.prepare()
	e.takeInLate()
	for {
		e.startDue()
		e.tell()
		e.startWaiting()
		e.describe()
		if finished, err := e.finish(); err != nil || finished {
			return err
		}
		if workflow.GetInfo(e.ctx).GetContinueAsNewSuggested() || e.full() {
			return e.continueAsNew()
		}
		answer, err := e.round()
		if err != nil {
			return err
		}
		e.apply(answer)
	}
}

// prepare has the code made ready on every platform. Trials of a platform that
// takes long meanwhile wait in their submit, with that as their reason.
func (e *experimentRun) prepare() {
	ready := 0
	for index, queue := range e.Queues {
		workflow.Go(e.ctx, func(ctx workflow.Context) {
			_ = workflow.ExecuteActivity(forPreparing(ctx, queue), do.PrepareCodeDir, e.id, index).Get(ctx, nil)
			ready++
		})
	}
	_, _ = e.await(time.Second, "let the code be prepared", func() bool { return ready == len(e.Queues) })
}

// assess keeps the assessor, if there is one, at work as long as this run lasts.
func (e *experimentRun) assess() {
	workflow.ExecuteActivity(forLong(e.ctx, "judge intermediate results as they come"), do.Assess, e.id)
}

func (e *experimentRun) round() (answer activities.RoundAnswer, err error) {
	start := e.handOver()
	request := activities.RoundRequest{
		Start: start, Searchable: e.Searchable && len(start) > 0, Hurry: e.handsOver && (len(e.Due) > len(start) || len(e.Untold) > 0),
		Experiment: e.id, Cursor: e.Cursor, Stamp: e.Stamp, NoMore: e.NoMore, Late: e.Late,
		Room: e.Concurrency - len(e.Open) - len(e.Waiting), Left: e.left(), Attention: e.Progress.Attention(),
	}
	err = workflow.ExecuteActivity(forLong(e.ctx, e.roundSummary(start)), do.Round, request).Get(e.ctx, &answer)
	e.handed, e.rounds = 0, e.rounds+1
	if err == nil {
		e.Due = slices.Concat(answer.Unstarted, e.Due[len(start):])
	}
	return answer, err
}

// left is how many trials are under way, where nothing starts when one of them ends.
func (e *experimentRun) left() int {
	if !e.NoMore || e.Status != record.Running || len(e.Waiting) > 0 {
		return 0
	}
	return len(e.Open)
}

// handOver are the trials that are due as far as the next round starts them.
func (e *experimentRun) handOver() []int {
	if !e.handsOver {
		return nil
	}
	e.handed = min(len(e.Due), maxStarts)
	return e.Due[:e.handed]
}

// apply takes over what happened. What the record told of already when this run
// began from it is not news.
func (e *experimentRun) apply(answer activities.RoundAnswer) {
	for _, news := range answer.News {
		e.noteResume(news)
		if news.Number > e.Known {
			e.take(news)
		}
	}
	e.Cursor, e.Stamp, e.NoMore, e.Late, e.Progress = answer.Cursor, answer.Stamp, answer.NoMore, answer.Late, answer.Progress
}

// noteResume notes whether the last word on a stop that is under way is a resume.
func (e *experimentRun) noteResume(news activities.News) {
	switch {
	case e.Status != record.Stopping:
	case news.Command == trial.Resume:
		e.Resumed = true
	case news.Command == trial.Stop:
		e.Resumed = false
	}
}

// take takes over one event.
func (e *experimentRun) take(news activities.News) {
	switch news.Kind {
	case trial.KindAsked:
		e.enqueue(news.Sequence)
	case trial.KindUndriven:
		e.restart(news.Sequence)
	case trial.KindEnded, trial.KindInterrupted:
		e.forget(news.Sequence)
		if news.Unbegun {
			e.enqueue(news.Sequence)
		}
	case trial.KindCommand:
		e.obey(news)
	}
}

// finish ends the experiment's turn when nothing is left to wait for.
func (e *experimentRun) finish() (finished bool, err error) {
	status := record.Done
	switch {
	case len(e.Open) > 0:
		return false, nil
	case e.Status == record.Stopping && e.Resumed:
		status = record.Running
	case e.Status == record.Stopping:
		status = record.Stopped
	case !e.NoMore || len(e.Waiting) > 0 && !e.Late || e.Unread:
		return false, nil
	}
	err = workflow.ExecuteLocalActivity(onRecord(e.ctx, "note that the experiment is "+string(status)), do.Finish, e.id, status, e.Cursor, e.Stamp).Get(e.ctx, &finished)
	if finished {
		e.Status = status
		e.describe()
	}
	return finished, err
}

// continueAsNew hands the state to a fresh run. What a run of an older version started
// is known to have started before: Temporal could drop it otherwise.
func (e *experimentRun) continueAsNew() error {
	e.confirmStarts()
	if err := e.hear(); err != nil {
		return err
	}
	return workflow.NewContinueAsNewError(e.ctx, ExperimentType, ExperimentInput{Experiment: e.id, State: &e.State})
}

func (e *experimentRun) confirmStarts() {
	for _, start := range e.starting {
		_ = start.future.Get(e.ctx, nil)
	}
	e.starting = nil
}
