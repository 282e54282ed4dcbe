package platforms

import (
	"errors"
	"fmt"
	"time"
)

// Code says what to do about a platform's error. Callers switch on the code,
// never on text.
type Code string

// The codes of errors.
const (
	Invalid   Code = "invalid"   // the job or configuration is wrong: a person must mend it
	Denied    Code = "denied"    // credentials are refused: renew them
	NotFound  Code = "not-found" // what is named does not exist
	Exhausted Code = "exhausted" // no room at present: wait, and say why
	Transient Code = "transient" // try again
	// Conflict says of a Submit that the run under the job's key was given other
	// parameters: it is another's, and stays as it is.
	Conflict Code = "conflict"
)

// Error is a platform's failure, as opposed to a trial's.
type Error struct {
	Code  Code
	Verb  string        // "submit", "poll" and so on
	After time.Duration // the soonest useful retry, 0 if unknown
	// Own says of Exhausted that there is no room for this job alone, because of
	// where it has to be: others may find some.
	Own bool
	Err error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Verb, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of the *Error in err's chain, Transient where there is
// none: what nobody classified is worth another try.
func CodeOf(err error) Code {
	var platform *Error
	if errors.As(err, &platform) {
		return platform.Code
	}
	return Transient
}

// NoRoom tells whether an error says that the platform has no room at present,
// whoever asks.
func NoRoom(err error) bool {
	var platform *Error
	return errors.As(err, &platform) && platform.Code == Exhausted && !platform.Own
}

// AfterOf returns the soonest useful retry after an error, 0 if unknown.
func AfterOf(err error) time.Duration {
	var platform *Error
	if errors.As(err, &platform) {
		return platform.After
	}
	return 0
}

// Errorf returns an *Error whose cause is formatted as by fmt.Errorf.
func Errorf(code Code, verb, format string, args ...any) error {
	return &Error{Code: code, Verb: verb, Err: fmt.Errorf(format, args...)}
}
