package machine

import (
	"errors"
	"fmt"
	"time"
)

// Code says what to do about an Error. Callers switch on the code, never on text.
type Code string

// The codes of errors.
const (
	Invalid   Code = "invalid"   // the job is wrong: a person must mend it
	NotFound  Code = "not-found" // what is named does not exist
	Exhausted Code = "exhausted" // no room at present: wait, and say why
	Transient Code = "transient" // try again
	// Conflict says of a Submit that the run under the job's key was given other
	// parameters: it is another's, and stays as it is.
	Conflict Code = "conflict"
)

// Error is a failure of the machine, as opposed to a run's.
type Error struct {
	Code  Code
	Verb  string        // "submit", "collect" and so on
	After time.Duration // the soonest useful retry, 0 if unknown
	Err   error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Verb, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of the *Error in err's chain, Transient where there is
// none.
func CodeOf(err error) Code {
	var classified *Error
	if errors.As(err, &classified) {
		return classified.Code
	}
	return Transient
}

// Errorf returns an *Error whose cause is formatted as by fmt.Errorf.
func Errorf(code Code, verb, format string, args ...any) error {
	return &Error{Code: code, Verb: verb, Err: fmt.Errorf(format, args...)}
}
