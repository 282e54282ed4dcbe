package bridge

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// Try does with a spec's algorithms what an experiment does first: it starts their
// process in a home of its own, has them made with their arguments and the search
// space, and has a tuner propose once. Then it ends them, and nothing is left. The
// error is what an experiment would meet, a *Breakdown where it is the algorithm's.
func Try(ctx context.Context, spec Spec) error {
	home, err := os.MkdirTemp("", "perennial-try-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	spec.Home.Log, spec.Home.Checkpoint = filepath.Join(home, "log"), filepath.Join(home, "checkpoint")
	tried := make(chan error, 1)
	go func() { tried <- try(spec) }()
	select {
	case err := <-tried:
		return withoutLog(err)
	case <-ctx.Done():
		return ctx.Err() // the process dies with this one
	}
}

func try(spec Spec) error {
	process, err := Open(spec)
	if err != nil {
		return err
	}
	if spec.Tuner != nil {
		_, err = process.Propose(0)
	} else if program, is := process.(*lines); is {
		err = program.leave()
	}
	return errors.Join(err, process.Close())
}

// leave tells a program that says nothing unasked that there is no more, and returns
// how it failed, if it did.
func (l *lines) leave() error {
	l.to.Close()
	select {
	case <-l.child.exited:
	case <-time.After(goodbye):
		return nil
	}
	if l.child.err == nil {
		return nil
	}
	return l.spec.about(l.child.death())
}

// withoutLog leaves out a log that is gone.
func withoutLog(err error) error {
	var broken *Breakdown
	if errors.As(err, &broken) {
		broken.Log = ""
	}
	return err
}
