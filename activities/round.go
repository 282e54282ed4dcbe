package activities

import (
	"context"
	"errors"
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
	// Room is how many more trials could start now. It is negative where trials
	// that were asked still wait for a slot.
	Room int `json:"room"`
	// NoMore is what the workflow believes about RoundAnswer.NoMore.
	NoMore bool `json:"noMore,omitempty"`
}

// RoundAnswer is what happened since.
type RoundAnswer struct {
	Events []trial.Event `json:"events"` // after the request's cursor; asked ones without their parameters
	Cursor int64         `json:"cursor"`
	NoMore bool          `json:"noMore,omitempty"` // no further trial will be asked unless a command changes that
}

// Round waits until something that concerns the experiment came after the cursor,
// or trials can be asked for, and returns both: suggestions for the slots that
// are free are in the same answer as the ends that freed them. It keeps the
// experiment's clock meanwhile.
func (a *Activities) Round(ctx context.Context, request RoundRequest) (answer RoundAnswer, err error) {
	if err := a.Record.SetCursor(ctx, request.Experiment, request.Cursor); err != nil {
		return answer, err
	}
	changed, stop := a.Record.Watch(request.Experiment)
	defer stop()
	r := &round{Activities: a, RoundRequest: request, changed: changed, counted: time.Now()}
	err = alive(ctx, func(ctx context.Context) error {
		answer, err = r.wait(ctx)
		return err
	})
	return answer, err
}

// round is one call of Round.
type round struct {
	*Activities
	RoundRequest
	changed <-chan struct{}
	counted time.Time // the experiment's clock is right up to here
}

func (r *round) wait(ctx context.Context) (RoundAnswer, error) {
	ticker := time.NewTicker(clockTick)
	defer ticker.Stop()
	for {
		answer, err := r.look(ctx)
		if err != nil || len(answer.Events) > 0 || answer.NoMore != r.NoMore {
			return answer, errors.Join(err, r.count(context.WithoutCancel(ctx)))
		}
		select {
		case <-r.changed:
		case <-ticker.C:
			err = r.count(ctx)
		case <-ctx.Done():
			return answer, errors.Join(ctx.Err(), r.count(context.WithoutCancel(ctx)))
		}
		if err != nil {
			return answer, err
		}
	}
}

// look reads the news and has the tuner fill what is free.
func (r *round) look(ctx context.Context) (RoundAnswer, error) {
	row, err := r.Record.Experiment(ctx, r.Experiment)
	if err != nil {
		return RoundAnswer{}, err
	}
	news, err := r.Record.News(ctx, r.Experiment, r.Cursor)
	if err != nil {
		return RoundAnswer{}, err
	}
	noMore, err := r.fill(ctx, row, r.Room+freed(news))
	if err != nil {
		return RoundAnswer{}, err
	}
	news, err = r.Record.News(ctx, r.Experiment, r.Cursor)
	news = news[:min(len(news), maxNews)]
	answer := RoundAnswer{Events: news, Cursor: r.Cursor, NoMore: noMore}
	if len(news) > 0 {
		answer.Cursor = news[len(news)-1].Number
	}
	return answer, err
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
		room = min(room, row.MaxTrials-row.Asked)
	}
	if row.Paused || room <= 0 {
		return false, nil
	}
	return r.propose(ctx, row, room)
}

// over tells whether one of the experiment's limits was reached.
func over(row record.Experiment) bool {
	return row.Exhausted || row.Ending ||
		row.MaxTrials > 0 && row.Asked >= row.MaxTrials ||
		row.MaxDuration > 0 && row.Driven >= row.MaxDuration
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
