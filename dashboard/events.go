package dashboard

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/sse"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// How often a stream speaks: a page that is told more often than it can draw is none the
// wiser, and one that hears nothing does not know whether the host is there.
const (
	streamPace  = 200 * time.Millisecond
	streamAlive = 10 * time.Second
	streamBatch = 500 // events read at a time
)

type eventsInput struct {
	Experiment  string `path:"experiment" maxLength:"20" doc:"its id"`
	After       int64  `query:"after" minimum:"-1" default:"0" doc:"the number of the last event that is known; -1: only what happens from now on"`
	LastEventID int64  `header:"Last-Event-ID" minimum:"0" doc:"as after, and stronger: browsers send it when they come back"`
}

// changed says that something is different that is no event, such as why a trial waits.
type changed struct {
	LastEvent int64 `json:"lastEvent" doc:"the number of the experiment's newest event; 0 where it is about many"`
}

// alive says that the host is there.
type alive struct {
	Version string `json:"version"`
}

func (s *server) registerEvents(api huma.API) {
	sse.Register(api, huma.Operation{OperationID: "stream-events", Method: http.MethodGet, Path: APIPath + "/experiments/{experiment}/events",
		Summary: "An experiment's event log, as it grows", Description: "Events are numbered without gaps. A caller that comes back " +
			"with the last number it has seen misses nothing and is told nothing twice.",
		Errors: []int{http.StatusNotFound}, Middlewares: huma.Middlewares{s.known(api)}},
		map[string]any{"event": trial.Event{}, "changed": changed{}, "alive": alive{}}, s.events)
	sse.Register(api, huma.Operation{OperationID: "stream-changes", Method: http.MethodGet, Path: APIPath + "/changes",
		Summary: "Tells when any experiment is different from before"},
		map[string]any{"changed": changed{}, "alive": alive{}}, s.changes)
}

// known refuses an experiment that there is not: once a stream has begun it cannot say so.
func (s *server) known(api huma.API) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		if _, err := s.Store.Experiment(ctx.Context(), ctx.Param("experiment")); errors.Is(err, record.ErrNotFound) {
			huma.WriteErr(api, ctx, http.StatusNotFound, err.Error())
			return
		}
		next(ctx)
	}
}

// events sends the log from a number on, until the caller leaves.
func (s *server) events(ctx context.Context, in *eventsInput, send sse.Sender) {
	woken, stop := s.WatchAll(in.Experiment)
	defer stop()
	place := max(in.After, in.LastEventID)
	if in.After < 0 && in.LastEventID == 0 {
		e, err := s.Store.Experiment(ctx, in.Experiment)
		if err != nil {
			return
		}
		place = e.LastEvent
	}
	s.stream(ctx, woken, send, func() error {
		var err error
		place, err = s.sendLog(ctx, in.Experiment, place, send)
		if err != nil {
			return err
		}
		return send.Data(changed{place})
	})
}

// sendLog sends what the log has after a number and returns the number it has come to.
func (s *server) sendLog(ctx context.Context, experiment string, place int64, send sse.Sender) (int64, error) {
	for {
		events, err := s.Events(ctx, experiment, place, streamBatch)
		if err != nil || len(events) == 0 {
			return place, err
		}
		for _, event := range events {
			if err := send(sse.Message{ID: int(event.Number), Data: event}); err != nil {
				return place, err
			}
			place = event.Number
		}
	}
}

// stream speaks first at once, then whenever it is woken, and otherwise says that it is
// there.
func (s *server) stream(ctx context.Context, woken <-chan struct{}, send sse.Sender, speak func() error) {
	pace := time.NewTicker(streamPace)
	defer pace.Stop()
	silence := time.NewTicker(streamAlive)
	defer silence.Stop()
	if send(sse.Message{Data: alive{s.Version}, Retry: 1000}) != nil || speak() != nil {
		return
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-silence.C:
			err = send.Data(alive{s.Version})
		case <-woken:
			err = speak()
			select {
			case <-pace.C:
			case <-ctx.Done():
			}
		}
		if err != nil {
			return
		}
	}
}

type changesInput struct{}

func (s *server) changes(ctx context.Context, _ *changesInput, send sse.Sender) {
	woken, stop := s.WatchAll(record.AnyExperiment)
	defer stop()
	s.stream(ctx, woken, send, func() error { return send.Data(changed{}) })
}
