package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/perennial-ml/perennial/dashboard/views"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/spf13/cobra"
)

const logsHelp = `logs prints what a trial wrote: its standard output, or its standard error, or
trial.log, where NNI's SDK puts Python's output. It is the newest attempt's,
unless --attempt names another. --follow goes on until the trial is over.`

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
	flags.StringVar(&want.replica, "replica", "", "one of several that run a trial together (default the one that decides)")
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
		return l.copy(ctx, attempt)
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
