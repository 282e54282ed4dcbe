package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// clockTick is how often the time an experiment is driven is written down.
const clockTick = 10 * time.Second

// maxNews bounds the events of one answer; the next round brings the rest.
const maxNews = 500

// RoundRequest says how far a workflow has read, and what it has room for.
type RoundRequest struct {
	Experiment string `json:"experiment"`
	Cursor     int64  `json:"cursor"`
	Stamp      int64  `json:"stamp,omitempty"` // record.Place's
	// Start are trials whose workflows are to be started, which is all that is needed for
	// them to run.
	Start []int `json:"start,omitempty"`
	// Searchable: their search attributes may be set.
	Searchable bool `json:"searchable,omitempty"`
	// Hurry has the answer come at once: the workflow has more to do.
	Hurry bool `json:"hurry,omitempty"`
	// Room is how many more trials could start now. It is negative where trials
	// that were asked still wait for a slot.
	Room int `json:"room"`
	// Left is how many trials are under way where none takes the place of one that
	// ends; else 0. Then ends alone are answered with all together, or when the clock
	// ticks.
	Left int `json:"left,omitempty"`
	// NoMore is what the workflow believes about RoundAnswer.NoMore.
	NoMore bool `json:"noMore,omitempty"`
	// Late is what the workflow believes about RoundAnswer.Late.
	Late bool `json:"late,omitempty"`
	// Attention is the Progress's that the workflow knows.
	Attention string `json:"concern,omitempty"`
}

// RoundAnswer is what happened since.
type RoundAnswer struct {
	News   []News `json:"news"` // after the request's cursor
	Cursor int64  `json:"cursor"`
	Stamp  int64  `json:"stamp,omitempty"`  // record.Place's
	NoMore bool   `json:"noMore,omitempty"` // no further trial will be asked unless a command changes that
	// Late: the experiment's time is over, and no trial begins any more.
	Late bool `json:"late,omitempty"`
	// Unstarted are those of the request's Start that are not known to have been started.
	Unstarted []int `json:"unstarted,omitempty"`
	// Progress is as new as the news.
	Progress Progress `json:"standing"`
}

// News is an event of the log as far as it concerns an experiment's workflow:
// small, and decoded already, since workflows do not.
type News struct {
	Number   int64      `json:"number"`
	Kind     trial.Kind `json:"kind"`
	Sequence int        `json:"sequence"`
	Command  string     `json:"command,omitempty"` // name of the command, where it is one
	Count    int        `json:"count,omitempty"`   // what set-concurrency sets
	// Unbegun: the trial was interrupted because it came too late to begin.
	Unbegun bool `json:"unbegun,omitempty"`
}

// Round starts trials and waits until something that concerns the experiment came after
// the cursor, or trials can be asked for, and returns both: suggestions for the slots
// that are free are in the same answer as the ends that freed them. It keeps the
// experiment's clock meanwhile, and at its ticks returns too where another attention
// should be shown. A record that does not have what was read is ErrorForgotten.
// Repeated, it starts no trial twice.
func (a *Activities) Round(ctx context.Context, request RoundRequest) (answer RoundAnswer, err error) {
	read := record.Place{Number: request.Cursor, Stamp: request.Stamp}
	if err := a.Record.SetCursor(ctx, request.Experiment, read); err != nil {
		return answer, forgotten(err)
	}
	changed, stop := a.Record.Watch(request.Experiment)
	defer stop()
	tuner, leave := a.use(place{request.Experiment, roleTuner})
	defer leave()
	r := &round{Activities: a, RoundRequest: request, changed: changed, tuner: tuner, counted: time.Now()}
	err = alive(ctx, func(ctx context.Context) error {
		starting, err := a.begin(ctx, request)
		if err != nil {
			return err
		}
		answer, err = r.wait(ctx)
		answer.Unstarted = starting.handBack()
		return err
	})
	return answer, err
}

// round is one call of Round.
type round struct {
	*Activities
	RoundRequest
	changed <-chan struct{}
	tuner   *algorithm
	asked   bool              // something was asked since the row was read
	began   time.Time         // when the tuner began what it is still at; zero where it is not
	counted time.Time         // the experiment's clock is right up to here
	row     record.Experiment // as looked at last
	failed  *setback          // of the tuner, nil where it works
}

func (r *round) wait(ctx context.Context) (RoundAnswer, error) {
	ticker := time.NewTicker(clockTick)
	defer ticker.Stop()
	for ticked, tick := false, false; ; {
		rung := r.tuner.bell.next()
		answer, err := r.look(ctx)
		concerned := ticked && answer.Progress.Attention() != r.Attention
		if err != nil || r.worthTelling(answer.News, tick) || answer.NoMore != r.NoMore || answer.Late != r.Late || concerned || r.Hurry {
			return answer, errors.Join(err, r.count(context.WithoutCancel(ctx)))
		}
		tick = false
		select {
		case <-r.changed:
		case <-rung:
		case <-r.deadline():
		case <-r.retrial():
		case <-ticker.C:
			ticked, tick = true, true
			err = r.count(ctx)
		case <-ctx.Done():
			return answer, errors.Join(ctx.Err(), r.count(context.WithoutCancel(ctx)))
		}
		if err != nil {
			return answer, err
		}
	}
}

// maxKept bounds the ends that wait for others, since every look reads them again.
const maxKept = 100

// worthTelling tells whether the workflow has to know the news now.
func (r *round) worthTelling(news []News, tick bool) bool {
	if len(news) == 0 || tick || len(news) >= min(r.Left, maxKept) {
		return len(news) > 0
	}
	return slices.ContainsFunc(news, func(n News) bool { return n.Kind != trial.KindEnded })
}

// look reads the news and has the tuner fill what is free.
func (r *round) look(ctx context.Context) (RoundAnswer, error) {
	if err := r.read(ctx); err != nil {
		return RoundAnswer{}, err
	}
	if err := r.goesOn(ctx, r.row); err != nil {
		return RoundAnswer{}, err
	}
	news, err := r.Record.News(ctx, r.Experiment, r.Cursor, maxNews)
	if err != nil {
		return RoundAnswer{}, err
	}
	r.relent(news)
	r.failed = nil
	noMore, err := r.answerTo(ctx, news)
	if err != nil {
		return RoundAnswer{}, err
	}
	if r.asked {
		if news, err = r.readOn(ctx, news); err != nil {
			return RoundAnswer{}, err
		}
	}
	answer, err := answerOf(news, r.RoundRequest, noMore)
	if err != nil {
		return RoundAnswer{}, err
	}
	answer.Late = r.row.TimeOver()
	answer.Progress, err = r.progress(ctx, r.row)
	return answer, err
}

// answerTo has the tuner fill what is free after the news. Where there may be more of
// them, among which may be trials for those slots, that waits for the next round.
func (r *round) answerTo(ctx context.Context, news []trial.Event) (noMore bool, err error) {
	if len(news) == maxNews {
		return r.NoMore, nil
	}
	noMore, err = r.fill(ctx, r.row, r.Room+freed(news))
	if err != nil && len(news) > 0 {
		return r.NoMore, nil // a tuner that fails keeps nobody from hearing the news
	}
	return noMore, err
}

// readOn adds to the news what was asked since they were read.
func (r *round) readOn(ctx context.Context, news []trial.Event) ([]trial.Event, error) {
	after := r.Cursor
	if len(news) > 0 {
		after = news[len(news)-1].Number
	}
	more, err := r.Record.News(ctx, r.Experiment, after, maxNews-len(news))
	if err != nil {
		return nil, err
	}
	r.asked = false
	return append(news, more...), r.read(ctx)
}

// read reads the experiment's row. That its time is over is durable before anybody
// acts on it.
func (r *round) read(ctx context.Context) (err error) {
	if r.row, err = r.Record.Experiment(ctx, r.Experiment); err != nil || r.row.TimeOver() || !r.late() {
		return err
	}
	if err = r.count(ctx); err == nil {
		r.row, err = r.Record.Experiment(ctx, r.Experiment)
	}
	return err
}

// late tells whether the experiment's time is over by now, which the record may not
// know yet.
func (r *round) late() bool {
	return r.row.MaxDuration > 0 && !r.row.Paused && r.left() <= 0
}

func (r *round) left() time.Duration {
	return r.row.MaxDuration - r.row.Driven - time.Since(r.counted)
}

// deadline is when the experiment's time will be over; never where it is over, has
// no end, or stands still.
func (r *round) deadline() <-chan time.Time {
	if r.row.MaxDuration == 0 || r.row.Paused || r.row.TimeOver() {
		return nil
	}
	return time.After(r.left())
}

func answerOf(events []trial.Event, request RoundRequest, noMore bool) (RoundAnswer, error) {
	answer := RoundAnswer{Cursor: request.Cursor, Stamp: request.Stamp, NoMore: noMore}
	for _, event := range events {
		news, err := newsOf(event)
		if err != nil {
			return RoundAnswer{}, err
		}
		answer.News, answer.Cursor, answer.Stamp = append(answer.News, news), event.Number, event.Time.UnixNano()
	}
	return answer, nil
}

func newsOf(event trial.Event) (News, error) {
	news := News{Number: event.Number, Kind: event.Kind, Sequence: event.Sequence}
	switch event.Kind {
	case trial.KindInterrupted:
		var interrupted trial.Interrupted
		err := json.Unmarshal(event.Data, &interrupted)
		news.Unbegun = interrupted.Reason.Code == record.ReasonTimeOver
		return news, err
	case trial.KindCommand:
	default:
		return news, nil
	}
	var command trial.Command
	if err := json.Unmarshal(event.Data, &command); err != nil {
		return news, fmt.Errorf("event %d: %w", event.Number, err)
	}
	news.Command = command.Name
	if command.Name != trial.SetConcurrency {
		return news, nil
	}
	return news, json.Unmarshal(command.Value, &news.Count)
}

// freed counts the slots that the news give back, less those they take.
func freed(news []trial.Event) int {
	count := 0
	for _, event := range news {
		switch event.Kind {
		case trial.KindEnded, trial.KindInterrupted:
			count++
		case trial.KindAsked:
			count--
		}
	}
	return count
}

// fill asks the tuner for up to room trials, as far as the experiment's limits
// allow, and tells whether there will be no more.
func (r *round) fill(ctx context.Context, row record.Experiment, room int) (noMore bool, err error) {
	if row.Status != record.Running {
		return r.NoMore || !row.Status.Active(), nil
	}
	if over(row) {
		return true, nil
	}
	if row.MaxTrials > 0 {
		room = min(room, row.MaxTrials-row.Trials())
	}
	if row.Paused || room <= 0 {
		return false, nil
	}
	// Nothing starts before the answer, which brings no more than this.
	return r.propose(ctx, row, min(room, maxNews))
}

// over tells whether one of the experiment's limits was reached.
func over(row record.Experiment) bool {
	return row.Exhausted || row.Ending ||
		row.MaxTrials > 0 && row.Trials() >= row.MaxTrials || row.TimeOver()
}

// count adds what passed since the last call to the experiment's clock, unless
// it stands still.
func (r *round) count(ctx context.Context) error {
	now := time.Now()
	passed := now.Sub(r.counted)
	r.counted = now
	row, err := r.Record.Experiment(ctx, r.Experiment)
	if err != nil || row.Paused || !row.Status.Active() {
		return err
	}
	_, err = r.Record.AddDriven(ctx, r.Experiment, passed)
	return err
}
