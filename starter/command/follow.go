package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/perennial-ml/perennial/dashboard/views"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/starter/progress"
	"github.com/perennial-ml/perennial/trial"
)

const (
	stderrLines = 20              // shown of the first trial that failed
	hostCheck   = 2 * time.Second // how often a follower looks for the host
	queueCheck  = 5 * time.Second // and whether queues at a Temporal of others are polled
	hope        = time.Minute     // for a tuner that fails
)

// follower shows one experiment until it is over, by reading the record; it
// needs no Temporal.
type follower struct {
	World
	id      string
	display progress.Display
	store   *record.Store
	known   map[int]record.Trial // unsettled trials as last shown
	fresh   bool                 // the experiment is new: every trial of it is news
	asked   int                  // trials asked when last looked
	failed  bool                 // a failure was shown
	checked time.Time            // when the host was last looked for
	hosted  <-chan error         // the host's end where it lives in this process, else nil
	idling  trial.Reason         // why nobody works on it, as last looked
	looked  time.Time            // when that was
	cramped bool                 // it was said that the disk is full
	away    bool                 // the record could not be reached when last looked
	stuck   time.Time            // since when the tuner fails and nothing runs; zero where not so
}

// display chooses how to show progress.
func (w World) display(as format) progress.Display {
	switch {
	case as == asJSON:
		return progress.NewEvents(w.Out)
	case w.Width() == 0 || w.Getenv("TERM") == "dumb":
		return progress.NewLines(w.Out)
	case w.colour():
		return progress.NewTerminal(w.Out, w.Width).Coloured()
	}
	return progress.NewTerminal(w.Out, w.Width)
}

// follow returns the experiment once it is over, or exit(ExitDetached).
func (f *follower) follow(ctx context.Context) error {
	store, err := f.OpenRecord()
	if err != nil {
		return err
	}
	defer store.Close()
	f.store, f.known, f.checked = store, map[int]record.Trial{}, f.Now()
	if err := f.forget(context.WithoutCancel(ctx)); err != nil {
		return unreachable(err)
	}
	tick := time.NewTicker(f.Tick)
	defer tick.Stop()
	for {
		e, err := f.look(ctx)
		if ctx.Err() != nil {
			return f.detach()
		}
		f.tellAway(err)
		if err != nil && !f.away || err == nil && !e.Status.Active() {
			return f.over(e, err)
		}
		if err := f.despair(e); err != nil {
			return err
		}
		if err := f.wait(ctx, tick.C); err != nil {
			return err
		}
	}
}

// tellAway says once that the record, in a database, cannot be reached, and that it can.
func (f *follower) tellAway(err error) {
	switch away := errors.Is(err, record.ErrUnreachable); {
	case away && !f.away:
		f.away = true
		f.display.Say("record-unreachable", err.Error()+"; trials go on meanwhile")
	case err == nil && f.away:
		f.away = false
		f.display.Say("record-back", "the record is back")
	}
}

// despair says what the tuner fails with, and ends the following where it has failed
// so for a while and nothing runs: only a person can help.
func (f *follower) despair(e record.Experiment) error {
	if e.Reason.Code != activities.ReasonTunerFailed {
		f.stuck = time.Time{}
		return nil
	}
	now := f.Now()
	if f.stuck.IsZero() {
		f.display.Say(e.Reason.Code, e.Reason.Text)
		f.stuck = now
	}
	if e.Counts[trial.Running]+e.Counts[trial.Waiting] > 0 {
		f.stuck = now
	}
	if now.Sub(f.stuck) < hope {
		return nil
	}
	f.display.Detach(f.id)
	hint := fmt.Sprintf("mend it, then starter resume %s; starter stop %s gives it up", f.id, f.id)
	return &fault{ExitStuck, hint, fmt.Errorf("nothing goes on: %s", e.Reason.Sentence())}
}

// forget leaves out the trials that were over before the following began.
func (f *follower) forget(ctx context.Context) error {
	if f.fresh {
		return nil
	}
	e, err := f.store.Experiment(ctx, f.id)
	f.asked = e.Asked
	return err
}

func (f *follower) over(e record.Experiment, err error) error {
	if err != nil {
		return unreachable(fmt.Errorf("read the record: %w", err))
	}
	f.display.End(e)
	if code := verdict(e); code != ExitDone {
		return exit(code)
	}
	return nil
}

// verdict is the exit code for an experiment that is over.
func verdict(e record.Experiment) int {
	switch {
	case e.Status == record.Stopped:
		return ExitStopped
	case e.Counts[trial.Succeeded] == 0:
		return ExitNoSuccess
	}
	return ExitDone
}

func (f *follower) wait(ctx context.Context, tick <-chan time.Time) error {
	select {
	case <-ctx.Done():
		return f.detach()
	case err := <-f.hosted:
		if ctx.Err() != nil {
			return f.detach()
		}
		return unreachable(fmt.Errorf("the host in this process ended: %w; starter resume %s goes on", err, f.id))
	case <-tick:
		return f.keepHost(ctx)
	}
}

func (f *follower) detach() error {
	f.display.Detach(f.id)
	return exit(ExitDetached)
}

// keepHost starts the host again if it died. Where that does not work, what the
// record says is still shown, and the next tick tries again.
func (f *follower) keepHost(ctx context.Context) error {
	if f.hosted != nil || f.Now().Sub(f.checked) < hostCheck {
		return nil
	}
	f.checked = f.Now()
	f.minding()
	_, others := f.Engine.(hostless)
	if _, err := f.Engine.Find(ctx); others || !errors.Is(err, ErrNoHost) {
		return nil
	}
	f.display.Say("host-died", "the host process is gone; starting it again (running trials never notice)")
	if _, err := f.Engine.Ensure(ctx); err != nil && ctx.Err() == nil {
		f.display.Say("host-unreachable", "the host does not start, trying again: "+err.Error())
		return nil
	}
	f.display.Say("host-back", "the host is back")
	return nil
}

// look reads what changed and shows it.
func (f *follower) look(ctx context.Context) (record.Experiment, error) {
	e, err := f.store.Experiment(ctx, f.id)
	if err != nil {
		return e, err
	}
	now := progress.Snapshot{Now: f.Now(), Experiment: e}
	open, err := f.store.Unsettled(ctx, f.id)
	if err != nil {
		return e, err
	}
	rows, err := f.rows(ctx, e, open)
	if err != nil {
		return e, err
	}
	views.ExplainWaits(rows, e, f.whyIdle(ctx, e, rows), open)
	for _, row := range rows {
		f.note(&now, row)
	}
	err = f.reported(ctx, &now)
	f.display.Show(now)
	if err != nil {
		return e, err
	}
	return e, f.showFailure(ctx, now.Changed)
}

// reported adds what the trials on show reported last.
func (f *follower) reported(ctx context.Context, now *progress.Snapshot) error {
	var numbers []int
	for _, row := range now.Open[:min(len(now.Open), progress.Rows)] {
		numbers = append(numbers, row.Sequence)
	}
	latest, err := f.store.Latest(ctx, f.id, numbers)
	now.Reported = latest
	return err
}

// whyIdle is why nobody works on the experiment. A host of one's own is
// started again by keepHost; at a Temporal of others, queues are looked at where
// something waits.
func (f *follower) whyIdle(ctx context.Context, e record.Experiment, rows []record.Trial) trial.Reason {
	if f.Engine.External().Address == "" || f.Now().Sub(f.looked) < queueCheck {
		return f.idling
	}
	waits := func(row record.Trial) bool { return row.State == trial.Waiting && row.Reason.Zero() }
	if len(rows) > 0 && !slices.ContainsFunc(rows, waits) {
		f.idling = trial.Reason{}
		return f.idling
	}
	before := f.idling
	f.looked, f.idling = f.Now(), f.idle(ctx, e)
	if f.idling != before && !f.idling.Zero() && ctx.Err() == nil {
		f.display.Say(f.idling.Code, f.idling.Text)
	}
	return f.idling
}

// rows are the trials that may have changed: the open ones, those that were so when
// last looked, and those that came and went between two looks.
func (f *follower) rows(ctx context.Context, e record.Experiment, open []int) ([]record.Trial, error) {
	numbers := slices.AppendSeq(slices.Clone(open), maps.Keys(f.known))
	for number := f.asked; number < e.Asked; number++ {
		numbers = append(numbers, number)
	}
	rows, err := f.store.List(ctx, f.id, record.Listing{Numbers: numbers})
	if err == nil {
		f.asked = e.Asked
	}
	return rows, err
}

// note files one trial: open or settled, changed or not.
func (f *follower) note(now *progress.Snapshot, row record.Trial) {
	before, seen := f.known[row.Sequence]
	again := row.Attempts > max(before.Attempts, 1)
	if !seen || again || before.State != row.State || before.Reason != row.Reason {
		now.Changed = append(now.Changed, row)
	}
	if row.Settled() {
		delete(f.known, row.Sequence)
		return
	}
	f.known[row.Sequence] = row
	now.Open = append(now.Open, row)
}

// showFailure shows the end of stderr of the first trial that failed.
func (f *follower) showFailure(ctx context.Context, changed []record.Trial) error {
	for _, row := range changed {
		if row.State != trial.Failed || f.failed {
			continue
		}
		f.failed = true
		attempts, err := f.store.Attempts(ctx, f.id, row.Sequence)
		if err != nil {
			return err
		}
		f.display.Failure(row, lastWords(attempts))
	}
	return nil
}

// lastWords is the end of stderr of the newest attempt that this machine can read.
func lastWords(attempts []record.Attempt) string {
	for i := len(attempts) - 1; i >= 0; i-- {
		if attempts[i].Output != "" {
			return tail(filepath.Join(attempts[i].Output, rundir.Stderr), stderrLines)
		}
	}
	return ""
}
