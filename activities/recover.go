package activities

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/perennial-ml/perennial/activities/poller"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// maxParameterFile bounds what is read of a run's parameter.cfg.
const maxParameterFile = 64 << 20

// takeInLook bounds how long machines are asked while an experiment waits for the answer,
// well below the time after which it goes on without one. What they have not told by
// then is asked again later: its numbers are kept.
const takeInLook = 2 * time.Second

// reasonForgotten is the code of everything that a backup of the record had forgotten.
const reasonForgotten = "forgotten"

// TakeInRequest says whose runs, on which of its platforms.
type TakeInRequest struct {
	Experiment string `json:"experiment"`
	Index      int    `json:"index"`
	// Insist has the call fail, to be tried again, while a machine cannot be reached.
	Insist bool `json:"insist,omitempty"`
}

// asking lasts as long as machines are asked.
func (r TakeInRequest) asking(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.Insist {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, takeInLook)
}

// TakeIn makes the record know what runs, or ran, on a platform of an experiment
// that is begun from the record: that may come from a backup and have forgotten
// trials. Those whose directories tell what they were asked with are taken in and go
// on. The others are ended, and named. It returns how many could not be asked about;
// their numbers are kept from other trials. Said again it changes nothing.
func (a *Activities) TakeIn(ctx context.Context, request TakeInRequest) (unread int, err error) {
	row, err := a.Record.Experiment(ctx, request.Experiment)
	if err != nil {
		return 0, forgotten(err)
	}
	config, err := a.config(row)
	if err != nil {
		return 0, err
	}
	section, err := a.Sections.Of(ctx, row.ID, request.Index)
	if err != nil {
		return 0, temporalError(err)
	}
	asking, done := request.asking(ctx)
	defer done()
	found, err := a.find(ctx, asking, row, section, func(n int) bool { return n%len(config.Platforms) == request.Index })
	if err != nil {
		return 0, temporalError(err)
	}
	if err := a.Record.TakeIn(ctx, row.ID, found); err != nil {
		return 0, err
	}
	err = a.explainUnread(ctx, row, found)
	if request.Insist {
		return len(found.Unread), temporalError(err)
	}
	return len(found.Unread), nil
}

// explainUnread says why trials are still to be taken in, also as its error.
func (a *Activities) explainUnread(ctx context.Context, row record.Experiment, found record.Found) error {
	if len(found.Unread) == 0 && row.Reason.Code == reasonForgotten {
		return a.Record.SetReason(ctx, row.ID, trial.Reason{})
	}
	if len(found.Unread) == 0 {
		return nil
	}
	text := fmt.Sprintf("the record came from a backup, and %d runs that it has forgotten cannot be asked what they are: %s",
		len(found.Unread), found.Event.Unread[0])
	return errors.Join(errors.New(text), a.Record.SetReason(ctx, row.ID, trial.Reason{Code: reasonForgotten, Text: text}))
}

// find looks at every run of a section that the record does not know. No run is asked
// what it is once asking is over.
func (a *Activities) find(ctx, asking context.Context, row record.Experiment, section *poller.Section, ours func(sequence int) bool) (record.Found, error) {
	found := record.Found{Platform: section.Traits.Name, Ended: map[trial.Key]trial.Reason{}, Why: trial.Reason{
		Code: submitReason + string(platforms.Transient), Text: "the record came from a backup and looks for its run again",
	}}
	handles, err := section.List(ctx)
	if err != nil {
		return found, err
	}
	known, err := a.Record.Known(ctx, row.ID)
	if err != nil {
		return found, err
	}
	slices.SortFunc(handles, func(a, b platforms.Handle) int {
		return cmp.Or(a.Key.Sequence-b.Key.Sequence, a.Key.Attempt-b.Key.Attempt)
	})
	asked := map[int]bool{}
	for _, handle := range handles {
		trial := known[handle.Key.Sequence]
		if trial.Settled || trial.Attempts > 0 || asked[handle.Key.Sequence] || !ours(handle.Key.Sequence) {
			continue // a trial that has begun finds its further attempts by their numbers
		}
		taken, err := a.look(ctx, asking, section, handle, trial, &found)
		if err != nil {
			return found, err
		}
		asked[handle.Key.Sequence] = taken
		if taken && row.Status != record.Running {
			err = cancelInTime(ctx, section, handle, platformIntent)
		}
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

// platformIntent ends a run for which nobody would settle anything.
var platformIntent = trial.Intent{Cause: trial.CauseSuperseded}

// look notes what is to be done about a run. It tells whether the run's trial is known
// from now on.
func (a *Activities) look(ctx, asking context.Context, platform *poller.Section, handle platforms.Handle, known record.Known, found *record.Found) (taken bool, err error) {
	asked, err := askedOf(asking, platform, handle)
	n := handle.Key.Sequence
	switch {
	case err == nil && known.Parameters != nil && bytes.Equal(known.Parameters, asked.Parameters):
		return true, nil
	case err == nil && known.Parameters == nil:
		found.Trials = append(found.Trials, record.Ask{Sequence: n, Asked: asked})
		return true, nil
	case err != nil && platforms.CodeOf(err) != platforms.NotFound:
		if known.Parameters == nil {
			found.Unread = append(found.Unread, n)
			found.Event.Unread = append(found.Event.Unread, fmt.Sprintf("%s: %v", named(handle), err))
		}
		return false, ctx.Err()
	}
	text := "the record came from a backup and does not know it, and its number was given to a trial with other parameters"
	if err != nil {
		text = "the record came from a backup and does not know it, and its directory does not tell what it ran with"
		never, err := neverRan(ctx, platform, handle)
		if never {
			found.Unbegun = append(found.Unbegun, n)
		}
		if err != nil || never {
			return false, err
		}
	}
	found.Ended[handle.Key] = trial.Reason{Code: reasonForgotten, Text: text}
	found.Event.Ended = append(found.Event.Ended, named(handle))
	return false, cancelInTime(ctx, platform, handle, platformIntent)
}

// disown gives up an attempt whose number another run has: that was asked with other
// parameters, by a record that knew more than the one there is. The next attempt ends it,
// if it is not ended before.
func (a *Activities) disown(ctx context.Context, section *poller.Section, key trial.Key) error {
	return a.Record.Disown(ctx, key, named(platforms.Handle{Platform: section.Traits.Name, Key: key}), trial.Reason{Code: reasonForgotten,
		Text: "the record came from a backup, and a run with other parameters has this number: it is ended, and does not count"})
}

// neverRan tells whether a submission was interrupted before anything ran: the next
// Submit under that number finishes it, whatever it runs with.
func neverRan(ctx context.Context, platform *poller.Section, handle platforms.Handle) (bool, error) {
	reports, err := platform.Poll(ctx, platforms.Ask(handle))
	if err != nil || len(reports) != 1 {
		return false, errors.Join(err, ctx.Err())
	}
	return reports[0].Phase == platforms.Absent, nil
}

// named is a run as people know it.
func named(handle platforms.Handle) string {
	key := handle.Key
	text := fmt.Sprintf("attempt %d of trial %d (%s) on %s", key.Attempt, key.Sequence, key.TrialID(), handle.Platform)
	if host := handle.Host; host != "" {
		text += " at " + host
	}
	return text
}

// askedOf is what a run's trial was asked with, byte for byte, as its parameter.cfg
// tells; platforms.NotFound where that is gone or is none.
func askedOf(ctx context.Context, platform *poller.Section, handle platforms.Handle) (asked trial.Asked, err error) {
	tells, can := poller.Optional[platforms.WithLogs](platform.Platform)
	if !can {
		return asked, platforms.Errorf(platforms.NotFound, "take in", "platform %s cannot tell", handle.Platform)
	}
	ctx, cancel := context.WithTimeout(ctx, PlatformTimeout)
	defer cancel()
	stream, err := tells.Logs(ctx, handle, platforms.Log{Stream: trial.ParameterFile})
	if err != nil {
		return asked, err
	}
	defer stream.Close()
	content, err := io.ReadAll(io.LimitReader(stream, maxParameterFile))
	if err != nil {
		return asked, err
	}
	var file struct {
		Parameters  json.RawMessage `json:"parameters"`
		ParameterID json.RawMessage `json:"parameter_id"`
		Source      string          `json:"parameter_source"`
	}
	if err := json.Unmarshal(content, &file); err != nil || len(file.Parameters) == 0 || file.Source == "" {
		return asked, platforms.Errorf(platforms.NotFound, "take in", "its %s is gone or broken", trial.ParameterFile)
	}
	return trial.Asked{Parameters: file.Parameters, ParameterID: file.ParameterID, Source: file.Source}, nil
}

// NoteBehind puts on record, once for an id, that the record came from a backup: a
// workflow that knew of so many trials had read further than its log goes.
func (a *Activities) NoteBehind(ctx context.Context, experiment, id string, asked int) error {
	a.Logger.Warn("the record is older than its workflows: it came from a backup, or its end was cut off; experiments begin again from it",
		"experiment", experiment)
	return forgotten(a.Record.NoteBehind(ctx, experiment, id, asked))
}

// endStranger ends a run of an experiment that the record does not know at all: it
// was made after the backup from which the record came, and nobody will look after
// it. Of other runs their experiment takes care.
func (a *Activities) endStranger(ctx context.Context, key trial.Key, cause error) error {
	if _, err := a.Record.Experiment(ctx, key.Experiment); !errors.Is(cause, record.ErrNotFound) || !errors.Is(err, record.ErrNotFound) {
		return nil
	}
	for name := range a.Sections.Registry() {
		if a.Queue(name) != activity.GetInfo(ctx).TaskQueue || !a.Sections.Serves(name) {
			continue
		}
		stranger := a.Sections.Stranger(name, key.Experiment)
		handle := platforms.Handle{Platform: name, Key: key}
		err := errors.Join(cancelInTime(ctx, stranger, handle, platformIntent), stranger.Close())
		if err != nil {
			return temporalError(err)
		}
		a.Logger.Warn("ended a run of an experiment that is not in the record: it was made after the backup that the record came from",
			"run", named(handle), "experiment", key.Experiment)
	}
	return nil
}
