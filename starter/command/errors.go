package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/perennial-ml/perennial/experiment"
)

// Exit codes, part of the contract for scripts.
const (
	ExitDone        = 0   // done
	ExitNoSuccess   = 1   // done, and no trial succeeded; doctor: something must be mended; platform check: a rule is broken
	ExitBadInput    = 2   // bad input: nothing was started or changed
	ExitStopped     = 3   // the experiment was stopped
	ExitUnreachable = 4   // the engine cannot be reached
	ExitStuck       = 5   // the tuner fails, and nothing goes on before it is mended
	ExitDetached    = 130 // detached by Ctrl-C; the experiment goes on
)

// fault is an error with an exit code and a line that says what to do.
type fault struct {
	code int
	hint string
	err  error
}

func (f *fault) Error() string { return f.err.Error() }

func (f *fault) Unwrap() error { return f.err }

// badInput is the user's to mend; the hint may be empty.
func badInput(hint, format string, args ...any) error {
	return &fault{code: ExitBadInput, hint: hint, err: fmt.Errorf(format, args...)}
}

// unreachable is the engine's failure.
func unreachable(err error) error {
	var known *fault
	if errors.As(err, &known) {
		return err
	}
	return &fault{code: ExitUnreachable, hint: "starter doctor looks for the cause; trials that run go on", err: err}
}

// exit ends a command with a code and without a message: all has been said.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// codeOf returns the exit code for an error; unclassified ones are bad input,
// since they arise before anything was asked of the engine.
func codeOf(err error) int {
	var quiet exit
	var known *fault
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &quiet):
		return int(quiet)
	case errors.As(err, &known):
		return known.code
	case errors.Is(err, context.Canceled):
		return ExitDetached
	}
	return ExitBadInput
}

// printError writes an error for people: the message, then what to do.
func (w World) printError(err error) {
	var quiet exit
	if err == nil || errors.As(err, &quiet) || errors.Is(err, context.Canceled) {
		return
	}
	message := strings.TrimRight(err.Error(), "\n")
	var faults experiment.Faults
	if !errors.As(err, &faults) { // these begin with their place, for editors to jump to
		message = "error: " + message
	}
	fmt.Fprintln(w.Err, message)
	var known *fault
	if errors.As(err, &known) && known.hint != "" {
		fmt.Fprintf(w.Err, "hint: %s\n", known.hint)
	}
}
