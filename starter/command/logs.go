package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/perennial-ml/perennial/dashboard/views"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/runner/rundir"
)

const logsHelp = `logs prints what a trial wrote: its standard output, or its standard error, or
trial.log, where NNI's SDK puts Python's output. It is the newest attempt's,
unless --attempt names another. --follow goes on until the trial is over. Where
several replicas run a trial together, lines of all are printed, each after its
replica's name, unless --replica names one.`

// logChoice is which log is wanted, and how.
type logChoice struct {
	stderr   bool
	trialLog bool
	follow   bool
	attempt  int    // 0: the newest
	replica  string // empty: the one that decides
}

func (l logChoice) file() string {
	switch {
	case l.stderr:
		return rundir.Stderr
	case l.trialLog:
		return rundir.TrialLog
	}
	return rundir.Stdout
}

func (w World) logsCommand() *cobra.Command {
	var want logChoice
	cmd := &cobra.Command{
		Use: "logs [EXPERIMENT] TRIAL", Aliases: []string{"log"}, Short: "Print what a trial wrote", Long: logsHelp,
		Example: examples("starter logs 3", "starter logs k3v9x2ab 3 --stderr", "starter logs k3v9x2ab l7de1 --follow"),
		Args:    between(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.read(cmd.Context(), func(r reader) error { return r.logs(cmd.Context(), args, want) })
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&want.stderr, "stderr", false, "standard error instead of standard output")
	flags.BoolVar(&want.trialLog, "trial-log", false, "trial.log instead of standard output")
	flags.BoolVarP(&want.follow, "follow", "f", false, "go on until the trial is over")
	flags.IntVar(&want.attempt, "attempt", 0, "the number of an attempt, from 1 (default the newest)")
	flags.StringVar(&want.replica, "replica", "", "one of several that run a trial together (default all)")
	cmd.MarkFlagsMutuallyExclusive("stderr", "trial-log")
	return cmd
}

func (r reader) logs(ctx context.Context, args []string, want logChoice) error {
	e, sequence, err := r.trialOf(ctx, args)
	if err != nil {
		return err
	}
	l := &logReader{reader: r, experiment: e.ID, sequence: sequence, want: want}
	attempt, err := l.attempt(ctx)
	if err != nil {
		return err
	}
	if !want.follow {
		return l.print(ctx, attempt)
	}
	return l.follow(ctx)
}

// logReader prints one trial's log, from where it last stopped.
type logReader struct {
	reader
	experiment string
	sequence   int
	want       logChoice
	printed    int // the attempt that offset is about
	offset     int64
	lines      *namedLines // of one replica of several; nil: it is alone
}

// attempt returns the attempt whose log is wanted.
func (l *logReader) attempt(ctx context.Context) (record.Attempt, error) {
	attempts, err := l.Attempts(ctx, l.experiment, l.sequence)
	if err != nil {
		return record.Attempt{}, err
	}
	number := l.want.attempt
	if number == 0 {
		number = len(attempts)
	}
	if len(attempts) == 0 && l.want.follow && l.want.attempt == 0 {
		return record.Attempt{}, nil
	}
	if number < 1 || number > len(attempts) {
		return record.Attempt{}, badInput(fmt.Sprintf("starter trials %s shows why it waits", l.experiment),
			"trial %d has %d attempts so far", l.sequence, len(attempts))
	}
	return attempts[number-1], nil
}

// print prints the log of an attempt, or those of all its replicas, one after the other.
func (l *logReader) print(ctx context.Context, attempt record.Attempt) error {
	several, err := l.several(ctx, attempt)
	if len(several) == 0 || err != nil {
		return cmp.Or(err, l.copy(ctx, attempt))
	}
	for _, replica := range several {
		if err := replica.copy(ctx, attempt); err != nil {
			return err
		}
		replica.lines.end()
	}
	return nil
}

// several returns a reader for each of several replicas that run an attempt; none where
// it has but one, or one is wanted.
func (l *logReader) several(ctx context.Context, attempt record.Attempt) (all []*logReader, err error) {
	if l.want.replica != "" || attempt.Output != "" || attempt.Handle == nil {
		return nil, nil
	}
	var handle platforms.Handle
	if err := json.Unmarshal(attempt.Handle, &handle); err != nil {
		return nil, err
	}
	names, err := l.Engine.Replicas(ctx, handle)
	if len(names) < 2 || err != nil {
		return nil, l.unreadable(attempt, err)
	}
	together := &sync.Mutex{}
	for _, name := range names {
		one := *l
		one.want.replica, one.lines = name, &namedLines{to: l.Out, name: name, together: together}
		one.Out = one.lines
		all = append(all, &one)
	}
	return all, nil
}

// longestLine is how much of one is kept until it ends.
const longestLine = 64 << 10

// namedLines prints whole lines, each after a name, of several writers that print at
// once.
type namedLines struct {
	to       io.Writer
	name     string
	together *sync.Mutex
	begun    []byte // of a line
}

func (n *namedLines) Write(data []byte) (int, error) {
	n.begun = append(n.begun, data...)
	if len(n.begun) > longestLine {
		n.begun = append(n.begun, '\n')
	}
	end := bytes.LastIndexByte(n.begun, '\n') + 1
	whole := n.begun[:end]
	n.begun = n.begun[end:]
	n.together.Lock()
	defer n.together.Unlock()
	for line := range bytes.Lines(whole) {
		if _, err := fmt.Fprintf(n.to, "%s | %s", n.name, line); err != nil {
			return 0, err
		}
	}
	return len(data), nil
}

// end prints the line that was begun, if there is one.
func (n *namedLines) end() {
	if len(n.begun) > 0 {
		_, _ = n.Write([]byte("\n"))
	}
}

// copy prints what came since the last copy.
func (l *logReader) copy(ctx context.Context, attempt record.Attempt) error {
	if attempt.Key.Attempt != l.printed {
		l.printed, l.offset = attempt.Key.Attempt, 0
	}
	stream, err := l.open(ctx, attempt)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return l.unreadable(attempt, err)
	}
	defer stream.Close()
	n, err := io.Copy(l.Out, stream)
	l.offset += n
	return l.unreadable(attempt, err)
}

// open opens the attempt's log where printing stopped: its file, or what its
// platform brings.
func (l *logReader) open(ctx context.Context, attempt record.Attempt) (io.ReadCloser, error) {
	log, _, err := views.OpenLog(ctx, attempt, platforms.Log{
		Stream: l.want.file(), Replica: l.want.replica, From: l.offset, Follow: l.want.follow,
	}, l.Engine.Logs)
	return log, err
}

// unreadable says why there is no log; whoever follows waits for it instead.
func (l *logReader) unreadable(attempt record.Attempt, err error) error {
	if err == nil || l.want.follow {
		return nil
	}
	return badInput("", "the log of trial %d on platform %s cannot be read: %w", l.sequence, attempt.Platform, err)
}

// follow prints until the trial is settled. Whether it is, is asked before its
// log is read, so that the last lines are not missed.
func (l *logReader) follow(ctx context.Context) error {
	tick := time.NewTicker(l.Tick)
	defer tick.Stop()
	for {
		row, err := l.Trial(ctx, l.experiment, l.sequence)
		if err != nil {
			return err
		}
		attempt, err := l.attempt(ctx)
		if err != nil {
			return err
		}
		several, err := l.several(ctx, attempt)
		if len(several) > 0 || err != nil {
			return cmp.Or(err, followAll(ctx, several))
		}
		if err := l.copy(ctx, attempt); err != nil || row.State.Terminal() {
			return err
		}
		select {
		case <-ctx.Done():
			return exit(ExitDetached)
		case <-tick.C:
		}
	}
}

// followAll follows all replicas of a trial at once.
func followAll(ctx context.Context, replicas []*logReader) error {
	following, ctx := errgroup.WithContext(ctx)
	for _, replica := range replicas {
		following.Go(func() error {
			defer replica.lines.end()
			return replica.follow(ctx)
		})
	}
	return following.Wait()
}
