package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// OpenAnswer is what an experiment's workflow begins from: the record's word on how
// far the experiment has come.
type OpenAnswer struct {
	Known       bool          `json:"known"` // false: nothing was accepted under this id yet
	Status      record.Status `json:"status"`
	Paused      bool          `json:"paused"`
	Resumed     bool          `json:"resumed,omitempty"` // while stopping: it goes on once it has stopped
	Ending      bool          `json:"ending,omitempty"`  // early-stop: what was asked shall end
	Late        bool          `json:"late,omitempty"`    // its time is over
	Concurrency int           `json:"concurrency"`
	Cursor      int64         `json:"cursor"`          // how far an earlier workflow has read
	Stamp       int64         `json:"stamp,omitempty"` // record.Place's
	LastEvent   int64         `json:"lastEvent"`       // events up to here are in the other fields
	// Live are the unsettled trials with an open attempt, Waiting those without,
	// both in ascending order.
	Live    []int `json:"live"`
	Waiting []int `json:"waiting"`
	// Queues are the task queues of the experiment's platforms, in their order:
	// trial n uses number n modulo their count.
	Queues []string `json:"queues"`
	// Platforms are the names that go with Queues.
	Platforms  []string `json:"platforms"`
	Name       string   `json:"name,omitempty"`
	Tuner      string   `json:"tuner,omitempty"`
	Progress   Progress `json:"standing"`
	Searchable bool     `json:"searchable,omitempty"` // search attributes may be used
}

// Open reads from the record what an experiment's workflow needs to go on.
func (a *Activities) Open(ctx context.Context, id string) (OpenAnswer, error) {
	row, err := a.Record.Experiment(ctx, id)
	if errors.Is(err, record.ErrNotFound) {
		return OpenAnswer{}, nil
	}
	if err != nil {
		return OpenAnswer{}, err
	}
	opened := OpenAnswer{
		Known: true, Status: row.Status, Paused: row.Paused, Ending: row.Ending, Late: row.TimeOver(), Concurrency: row.Concurrency,
		LastEvent: row.LastEvent,
	}
	read, err := a.Record.PlaceOf(ctx, id, row.Cursor)
	if err != nil {
		return OpenAnswer{}, err
	}
	opened.Cursor, opened.Stamp = read.Number, read.Stamp
	config, err := a.config(row)
	if err != nil {
		return OpenAnswer{}, err
	}
	for _, platform := range config.Platforms {
		if a.Named != nil {
			a.Named(platform.Name)
		}
		opened.Queues = append(opened.Queues, a.Queue(platform.Name))
		opened.Platforms = append(opened.Platforms, platform.Name)
	}
	if opened.Resumed, err = a.resumed(ctx, row); err != nil {
		return OpenAnswer{}, err
	}
	opened.Name, opened.Tuner = row.Name, config.Tuner.String()
	opened.Searchable = a.Searchable != nil && a.Searchable(ctx)
	if opened.Progress, err = a.progress(ctx, row); err != nil {
		return OpenAnswer{}, err
	}
	return opened, a.unsettled(ctx, id, &opened)
}

func (a *Activities) unsettled(ctx context.Context, id string, opened *OpenAnswer) error {
	sequences, err := a.Record.Unsettled(ctx, id)
	if err != nil {
		return err
	}
	live, err := a.Record.Live(ctx, id)
	if err != nil {
		return err
	}
	for _, n := range sequences {
		if live[n] {
			opened.Live = append(opened.Live, n)
		} else {
			opened.Waiting = append(opened.Waiting, n)
		}
	}
	return nil
}

// resumed tells whether the last word on a stop that is under way is a resume.
func (a *Activities) resumed(ctx context.Context, row record.Experiment) (resumed bool, err error) {
	if row.Status != record.Stopping {
		return false, nil
	}
	return a.Record.ResumedLast(ctx, row.ID)
}

// ErrorRejected is the type of the error of a command that makes no sense now;
// its message says why and what would.
const ErrorRejected = "rejected"

// Command makes a command durable in the experiment's log and returns its number.
// The same command id gives the same number, and acts once.
func (a *Activities) Command(ctx context.Context, id string, command trial.Command) (int64, error) {
	if err := a.check(ctx, id, command); err != nil {
		return 0, err
	}
	if command.Name == trial.Accept {
		if err := a.fetch(ctx, id); err != nil {
			return 0, err
		}
	}
	data, err := json.Marshal(command)
	if err != nil {
		return 0, err
	}
	event, err := a.Record.Append(ctx, id, trial.Event{Kind: trial.KindCommand, Sequence: trial.NoTrial, Data: data})
	var rejected *record.RejectedError
	if errors.As(err, &rejected) || errors.Is(err, record.ErrNotFound) {
		return 0, rejection(err)
	}
	if err == nil && (command.Name == trial.Resume || command.Name == trial.Remove) {
		a.sweep()
	}
	return event.Number, err
}

// fetch refuses an experiment of which what was handed over cannot be used here, such as
// without its key: nothing mends that by itself, and whoever submits it waits. One that
// another worker has accepted stays so, whoever answers.
func (a *Activities) fetch(ctx context.Context, id string) error {
	if a.Fetch == nil {
		return nil
	}
	err := a.Fetch(ctx, id)
	if err == nil || ctx.Err() != nil || errors.Is(err, record.ErrUnreachable) || errors.Is(err, record.ErrFenced) {
		return err
	}
	_, unknown := a.Record.Experiment(ctx, id)
	switch {
	case errors.Is(unknown, record.ErrNotFound):
		return rejection(err)
	case unknown != nil:
		return err
	}
	a.Logger.Warn("what was handed over with an experiment cannot be used here", "experiment", id, "error", err)
	return nil
}

// sweep has somebody look at once for what got lost, and at what is to be removed.
func (a *Activities) sweep() {
	if a.Sweep != nil {
		a.Sweep()
	}
}

func rejection(err error) error {
	return temporal.NewNonRetryableApplicationError(err.Error(), ErrorRejected, nil)
}

// check refuses a search space that the experiment's tuner could not work with:
// on record, it would stop the tuner for good.
func (a *Activities) check(ctx context.Context, id string, command trial.Command) error {
	if command.Name != trial.SetSearchSpace {
		return nil
	}
	row, err := a.Record.Experiment(ctx, id)
	if errors.Is(err, record.ErrNotFound) {
		return rejection(err)
	}
	if err != nil {
		return err
	}
	config, err := a.config(row)
	if err != nil || bridged(config.Tuner) {
		return err
	}
	config.SearchSpace = command.Value
	if _, err = a.native(config, id); err != nil {
		return rejection(err)
	}
	return nil
}

// Decide makes it durable that a trial shall end. The attempt's first decision
// wins and is returned.
func (a *Activities) Decide(ctx context.Context, id string, sequence int, decision trial.Decision) (trial.Decision, error) {
	key := trial.Key{Experiment: id, Sequence: sequence}
	won, err := a.Record.Decide(ctx, record.Decision{Key: key, Decision: decision})
	return won.Decision, forgotten(err)
}

// reasonNewerState is the code of the reason why a workflow of a newer version waits.
const reasonNewerState = "newer-version"

// NewerState is why a workflow whose state has a newer format than this program reads
// does not go on.
func NewerState(format, known int) trial.Reason {
	return trial.Reason{Code: reasonNewerState, Text: fmt.Sprintf(
		"its workflow was written by a newer version of starter: its state has format %d and this one reads up to %d; install the newer starter again", format, known)}
}

// Explain puts on record why an experiment does not go on.
func (a *Activities) Explain(ctx context.Context, id string, reason trial.Reason) error {
	return forgotten(a.Record.SetReason(ctx, id, reason))
}

// goesOn takes back that a newer version was needed.
func (a *Activities) goesOn(ctx context.Context, row record.Experiment) error {
	if row.Reason.Code != reasonNewerState {
		return nil
	}
	return a.Record.SetReason(ctx, row.ID, trial.Reason{})
}

// EarlyStopID is the id of the decision by which all trials of an experiment end early.
func EarlyStopID(id string) string { return "early-stop-" + id }

// EndEarly makes it durable, in one commit, that every trial of an experiment that was
// asked shall end EARLY_STOPPED.
func (a *Activities) EndEarly(ctx context.Context, id string) error {
	return forgotten(a.Record.DecideAll(ctx, id, trial.Decision{
		ID: EarlyStopID(id), Cause: trial.CauseEarlyStop,
		Reason: trial.Reason{Code: "early-stopped", Text: "stopped early with its experiment"},
	}))
}

// Finish ends an experiment's turn, unless events that it has not read followed
// what it has read: then it changes nothing and answers false. A record that does not
// have what was read is ErrorForgotten. A stamp of 0 is of a workflow that kept none.
func (a *Activities) Finish(ctx context.Context, id string, status record.Status, cursor, stamp int64) (bool, error) {
	finished, err := a.Record.Finish(ctx, id, status, record.Place{Number: cursor, Stamp: stamp})
	if finished && !status.Active() {
		go EndAlgorithms(a, id) // a process may take its time to end
		a.sweep()
	}
	return finished, forgotten(err)
}
