package jobs

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/verbs"
	"github.com/perennial-ml/perennial/runner/mailbox"
	"github.com/perennial-ml/perennial/runner/rundir"
)

// UsualIdle is how long an environment lives on without a trial, as in NNI.
const UsualIdle = 10 * time.Minute

const (
	// failurePause is how long no environment is started after one could not be, or
	// was over without ever having had a run; it doubles up to longestPause.
	failurePause = 30 * time.Second
	longestPause = 16 * time.Minute
	lookInterval = 20 * time.Millisecond
)

// Reused is a verbs.Service whose runs are taken by environments, jobs of a Service that
// live long. An environment takes runs through a mailbox in the shared directory, one at
// a time; it ends when it had nothing to do for Idle, and with its experiment. What it
// had begun when it died is lost as with any job, what it had not begun is taken by
// another. There are no more of them than runs that are not over.
type Reused struct {
	Service
	*Memory
	// Here and There are what the shared directory is called on this machine and where
	// trials run.
	Here, There string
	Pool        string // the mailbox's place below Here, the section's own
	Name        string // what environments' names begin with, unique for ever
	Lock        string // a path on a disk of this machine
	Idle        time.Duration
	// Doubles says that a service may make two jobs of one name, where an answer was lost.
	// One of them serves.
	Doubles bool
}

// Environments are those of a section, with a shared directory.
func Environments(section platforms.Section, nature verbs.Nature, state string) Reused {
	name := fmt.Sprintf("%s-%d", section.Experiment, section.Index)
	return Reused{
		Here: nature.SharedDirectory, There: nature.There,
		Pool: filepath.Join("experiments", section.Experiment, fmt.Sprintf("environments-%d", section.Index)),
		Name: "perennial-" + name + "-environment-",
		Lock: filepath.Join(state, "platforms", section.Platform, "environments", name+".lock"),
	}
}

// Memory is what a process remembers of a section's environments: nothing that another
// would miss.
type Memory struct {
	Now      func() time.Time // nil: time.Now
	mutex    sync.Mutex
	until    time.Time // no environment is started before
	why      string
	failures int // in a row
}

func (r Reused) box() mailbox.Mailbox {
	return mailbox.Mailbox{Directory: filepath.Join(r.Here, r.Pool)}
}

// here is the name on this machine of a path in the shared directory.
func (r Reused) here(path string) string {
	return filepath.Join(r.Here, strings.TrimPrefix(path, filepath.Clean(r.There)))
}

// ticket is a run's name in the mailbox: first come the first trials.
func ticket(run verbs.Run) string { return fmt.Sprintf("%08d-%s", run.Key.Sequence, run.Name) }

// held runs something while no other process looks after the environments.
func (r Reused) held(ctx context.Context, verb string, work func() error) error {
	lock := rundir.Run{Directory: filepath.Dir(r.Lock), Claim: r.Lock}
	for {
		claim, err := lock.Acquire()
		if err == nil {
			defer claim.Close()
			return coded(verb, work())
		}
		if !errors.Is(err, rundir.ErrHeld) {
			return coded(verb, err)
		}
		select {
		case <-ctx.Done():
			return platforms.Errorf(platforms.Transient, verb, "another process looks after the environments: %w", ctx.Err())
		case <-time.After(lookInterval):
		}
	}
}

// coded gives an error of files a code.
func coded(verb string, err error) error {
	var classified *platforms.Error
	if err == nil || errors.As(err, &classified) {
		return err
	}
	return platforms.Errorf(platforms.Transient, verb, "%w", err)
}

// Submit implements verbs.Service, as do all that follow. That there is no environment
// at present is no failure: the run waits in the queue, with the reason.
func (r Reused) Submit(ctx context.Context, wanted verbs.Submission) (json.RawMessage, error) {
	return nil, r.held(ctx, "submit", func() error {
		name := ticket(wanted.Run)
		seen, err := r.see()
		now := board{seen}
		if err != nil {
			return err
		}
		offered := mailbox.Ticket{Directory: wanted.Command[len(wanted.Command)-1], Runner: wanted.Command[0], GPUs: wanted.GPUs}
		if now.place(name) == nowhere && !r.begun(offered) {
			if err := errors.Join(r.box().Reopen(), r.box().Offer(name, offered)); err != nil {
				return err
			}
			now.Queued = append(now.Queued, name)
		}
		err = r.startMissing(ctx, now, "submit")
		switch platforms.CodeOf(err) {
		case platforms.Invalid, platforms.NotFound:
			return errors.Join(err, r.box().Withdraw(name))
		case platforms.Denied:
			return err
		}
		return nil
	})
}

// see is what is where. A run that has its exit record keeps nobody busy any more, also
// where its ticket is still there. An environment that has taken one was accepted, also
// where no answer said so. A ticket that was taken as the board was read is where it came
// to: nobody need start an environment for it.
func (r Reused) see() (mailbox.Board, error) {
	seen, err := r.box().Look()
	seen.Queued = slices.DeleteFunc(seen.Queued, func(name string) bool {
		return slices.ContainsFunc(seen.Environments, func(one mailbox.Environment) bool {
			return slices.Contains(one.Leases, name) || slices.Contains(one.Died, name)
		})
	})
	for i := range seen.Environments {
		one := &seen.Environments[i]
		one.Started = one.Started || one.Served || len(one.Leases) > 0
		one.Leases = slices.DeleteFunc(one.Leases, func(name string) bool {
			ticket, err := mailbox.Taker{Mailbox: r.box(), Name: one.Name}.Read(name)
			return err == nil && r.ended(ticket)
		})
	}
	return seen, err
}

func (r Reused) ended(of mailbox.Ticket) bool {
	exit, err := rundir.Run{Directory: r.here(of.Directory)}.ReadExit()
	return err == nil && exit != nil
}

// begun tells whether a run was ever taken.
func (r Reused) begun(of mailbox.Ticket) bool {
	directory := r.here(of.Directory)
	rundir.Refresh(directory)
	_, err := os.Stat(rundir.Run{Directory: directory}.Path(rundir.StartedFile))
	return err == nil
}

// startMissing starts as many environments as runs wait for one.
func (r Reused) startMissing(ctx context.Context, board board, verb string) error {
	if wait, _ := r.paused(); wait {
		return nil
	}
	for i := board.free(); i < len(board.Queued); i++ {
		if err := r.startOne(ctx, &board); err != nil {
			r.failed(err.Error(), platforms.AfterOf(err))
			return coded(verb, err)
		}
	}
	return nil
}

// startOne starts an environment, or once more one of which it is not known whether its
// job was accepted.
func (r Reused) startOne(ctx context.Context, board *board) error {
	first, err := r.box().Read(board.Queued[0])
	if err != nil {
		return nil // it was taken meanwhile
	}
	name := board.unanswered()
	if name == "" {
		name = r.Name + strconv.Itoa(len(board.Environments)+1)
		if err := r.box().Expect(name); err != nil {
			return err
		}
		board.Environments = append(board.Environments, mailbox.Environment{Name: name})
	}
	var job []string
	if r.Doubles {
		job = []string{rand.Text()}
	}
	command := mailbox.ServeCommand(first.Runner, filepath.Join(r.There, r.Pool), name, strconv.FormatFloat(r.Idle.Seconds(), 'f', -1, 64), job...)
	if err := r.Start(ctx, name, command, first.GPUs); err != nil {
		return err
	}
	board.answered(name)
	return r.box().Started(name)
}

func (m *Memory) now() time.Time {
	if m.Now != nil {
		return m.Now()
	}
	return time.Now()
}

// paused tells whether no environment is started at present, and why.
func (m *Memory) paused() (bool, string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.now().Before(m.until), m.why
}

func (m *Memory) failed(why string, after time.Duration) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	pause := max(after, min(longestPause, failurePause<<min(m.failures, 5)))
	m.failures++
	m.until, m.why = m.now().Add(pause), why
}

func (m *Memory) succeeded() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.failures = 0
}

// Poll implements verbs.Service: it looks after the environments and says where each run
// is.
func (r Reused) Poll(ctx context.Context, asked []verbs.Question) (reports []verbs.Report, err error) {
	err = r.held(ctx, "poll", func() error {
		board, states, err := r.look(ctx)
		if err != nil {
			return err
		}
		if err := r.startMissing(ctx, board, "poll"); platforms.CodeOf(err) == platforms.Denied {
			return err
		}
		for _, question := range asked {
			reports = append(reports, r.report(question, board, states))
		}
		return nil
	})
	return reports, err
}

// look reads the board and asks how the environments are. Those that are over are
// buried, and the board is as it is then.
func (r Reused) look(ctx context.Context) (board, map[string]State, error) {
	seen, err := r.see()
	if err != nil {
		return board{}, nil, err
	}
	var living []string
	for _, one := range seen.Environments {
		if !one.Over && one.Started {
			living = append(living, one.Name)
		}
	}
	states := map[string]State{}
	if len(living) == 0 {
		return board{seen}, states, nil
	}
	told, err := r.States(ctx, living)
	if err != nil {
		return board{}, nil, err
	}
	r.box().Refresh(living...) // what an environment did before it was over is to be seen
	if seen, err = r.see(); err != nil {
		return board{}, nil, err
	}
	for i, name := range living {
		states[name] = told[i]
	}
	for i, one := range seen.Environments {
		if states[one.Name].Phase != verbs.Gone || one.Over {
			continue
		}
		if err := r.bury(&seen, i, states[one.Name]); err != nil {
			return board{}, nil, err
		}
	}
	return board{seen}, states, nil
}

// bury notes that an environment is over. One that never had a run says that the next
// one will hardly do better.
func (r Reused) bury(seen *mailbox.Board, i int, state State) error {
	one := &seen.Environments[i]
	var begun []string
	err := r.box().Bury(*one, func(name string) bool {
		ticket, err := mailbox.Taker{Mailbox: r.box(), Name: one.Name}.Read(name)
		if err == nil && !r.begun(ticket) {
			seen.Queued = append(seen.Queued, name)
			return false
		}
		begun = append(begun, name)
		return true
	})
	if !one.Left && !one.Served && len(begun) == 0 {
		r.failed("an environment was over before it had a trial: "+state.Reason.Text, 0)
	} else {
		r.succeeded()
	}
	one.Over, one.Leases = true, begun
	return err
}

// report tells how a run is, by where its ticket is.
func (r Reused) report(question verbs.Question, board board, states map[string]State) verbs.Report {
	name := ticket(question.Run)
	switch place := board.place(name); place {
	case queued:
		return verbs.Report{Phase: verbs.Waiting, Reason: r.waits(board, states)}
	case withdrawn:
		return verbs.Report{Phase: verbs.Gone}
	case nowhere:
		return r.unseen(question)
	default:
		one := board.Environments[place]
		state := states[one.Name]
		told := verbs.Report{Phase: state.Phase, Reason: verbs.Reason(state.Reason), URL: state.URL, Host: one.Name}
		if one.Over || board.died(place, name) {
			told.Phase = verbs.Gone
			told.Reason = verbs.Reason{Code: "environment", Text: "its environment " + one.Name + " died. " + state.Reason.Text}
		}
		if told.Phase == verbs.Waiting { // a list that is behind
			told.Phase = verbs.Running
		}
		return told
	}
}

// unseen tells of a run whose ticket is gone: it has its exit record, also where that is
// not to be seen yet; or it never was in the queue.
func (r Reused) unseen(question verbs.Question) verbs.Report {
	if r.begun(mailbox.Ticket{Directory: filepath.Join(r.There, strings.TrimPrefix(question.Directory, filepath.Clean(r.Here)))}) {
		return verbs.Report{Phase: verbs.Unknown, Reason: verbs.Reason{Code: "environment", Text: "its environment is done with it, and how it ended is not to be seen here yet"}}
	}
	return verbs.Report{Phase: verbs.Gone}
}

// waits says why a run is in the queue.
func (r Reused) waits(board board, states map[string]State) verbs.Reason {
	reason := verbs.Reason{Code: "environment", Text: "all environments have trials"}
	if paused, why := r.paused(); paused {
		reason.Text = "it waits for an environment: " + why
		return reason
	}
	for _, one := range board.Environments {
		if state := states[one.Name]; takes(one) {
			reason.Text = "its environment starts"
			if state.Phase == verbs.Waiting && state.Reason.Text != "" {
				reason.Text = "it waits for environment " + one.Name + ": " + state.Reason.Text
			}
		}
	}
	return reason
}

// Cancel implements verbs.Service. By force the environment goes with its run.
func (r Reused) Cancel(ctx context.Context, wanted verbs.Cancellation) error {
	return r.held(ctx, "cancel", func() error {
		name := ticket(wanted.Run)
		if err := r.box().Withdraw(name); err != nil || !wanted.Force {
			return err
		}
		seen, err := r.box().Look()
		if place := (board{seen}).place(name); err == nil && place >= 0 && !seen.Environments[place].Over {
			err = r.Stop(ctx, seen.Environments[place].Name)
		}
		return err
	})
}

// CleanUp ends all environments: nobody pays for them once their experiment is over.
func (r Reused) CleanUp(ctx context.Context) error {
	return r.held(ctx, "cleanUp", func() error {
		if err := r.box().End(); err != nil {
			return err
		}
		seen, err := r.box().Look()
		for _, one := range seen.Environments {
			if err == nil && !one.Over {
				err = r.Stop(ctx, one.Name)
			}
		}
		return err
	})
}

func (Reused) Prepare(context.Context, string) (json.RawMessage, error) { return nil, nil }

func (Reused) Logs(context.Context, verbs.LogQuestion) (string, error) {
	return "", platforms.Errorf(platforms.NotFound, "logs", "they are in the shared directory")
}
