// Package trial is the vocabulary every other room speaks: who a trial is, what
// state it is in and why, which events make up an experiment's history, and what
// a trial's process finds in its environment.
//
// The package holds plain data only. It imports nothing of ours.
package trial

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Parameters is the JSON object a tuner proposed, as raw bytes. It is never
// decoded into float64 on its way to the trial: 5.0 stays 5.0 and 5 stays 5.
type Parameters = json.RawMessage

// Key names one attempt at one trial; every platform verb is idempotent by it.
type Key struct {
	Experiment string `json:"experiment"` // experiment id, eight characters
	Sequence   int    `json:"sequence"`   // NNI's sequence id, from 0
	Attempt    int    `json:"attempt"`    // from 1
}

// TrialID returns the five-character trial id, the same for every attempt.
func (k Key) TrialID() string { return ID(k.Experiment, k.Sequence) }

// String is the key as platforms label runs with it: "experiment-trial-attempt".
func (k Key) String() string {
	return fmt.Sprintf("%s-%s-%d", k.Experiment, k.TrialID(), k.Attempt)
}

// State is a trial's state, by NNI's names.
type State string

// The states of a trial. The last five are terminal.
const (
	Unknown      State = "UNKNOWN"
	Waiting      State = "WAITING"
	Running      State = "RUNNING"
	Succeeded    State = "SUCCEEDED"
	Failed       State = "FAILED"
	UserCanceled State = "USER_CANCELED"
	SysCanceled  State = "SYS_CANCELED"
	EarlyStopped State = "EARLY_STOPPED"
)

// States lists every state in the order tables show them.
func States() []State {
	return []State{Waiting, Running, Succeeded, Failed, UserCanceled, SysCanceled, EarlyStopped, Unknown}
}

// Terminal tells whether a trial in this state has ended for good.
func (s State) Terminal() bool {
	switch s {
	case Succeeded, Failed, UserCanceled, SysCanceled, EarlyStopped:
		return true
	}
	return false
}

// Reason says why something is as it is: a code for programs, words for people.
// The zero Reason means that there is nothing to say.
type Reason struct {
	Code string `json:"code"` // lower case with hyphens, such as "runner-died"
	// Text is one sentence without a full stop. Where more is known, such as the
	// traceback of an algorithm, that follows on lines of its own.
	Text string `json:"text"`
}

// Sentence is the text without what follows.
func (r Reason) Sentence() string {
	sentence, _, _ := strings.Cut(r.Text, "\n")
	return sentence
}

// Details are what follows, line by line.
func (r Reason) Details() []string {
	return strings.Split(r.Text, "\n")[1:]
}

// Zero reports whether there is nothing to say.
func (r Reason) Zero() bool { return r == Reason{} }

// Cause says on whose behalf a trial is being ended.
type Cause string

// The causes an attempt can be ended for.
const (
	CauseUser        Cause = "user"         // the trial ends USER_CANCELED
	CauseStop        Cause = "stop"         // the experiment stops; the trial stays unsettled and can be resumed
	CauseEarlyStop   Cause = "early-stop"   // the trial ends EARLY_STOPPED
	CauseMaxDuration Cause = "max-duration" // maxTrialDuration passed; the trial ends EARLY_STOPPED
	CauseSuperseded  Cause = "superseded"   // a later attempt took over; nothing is settled by this one
	CauseHostLost    Cause = "host-lost"    // the controller was silent for hostLostAfter; nothing is settled by this attempt
)

// Exit is how an attempt's command ended, as its runner saw it.
type Exit struct {
	Code    int    `json:"code"`             // exit code; 128+n when killed by signal n
	Signal  string `json:"signal,omitempty"` // "SIGKILL" and so on, empty when it exited by itself
	Outside bool   `json:"outside,omitempty"`
	// Outside is true for a death within 10 s of the runner's own TERM that nobody
	// of ours intended: a reboot, systemctl stop, preemption. It is the platform's
	// fault, never the user's. A TERM that the runner did not get is the trial's
	// own, as of "kill 0" in a script.
	Text string `json:"text,omitempty"` // what else the runner knows, such as "cannot start: no such file"
}

// Intent is the durable note, written before the first signal, that somebody
// wants an attempt to end. The first intent wins.
type Intent struct {
	Cause    Cause  `json:"cause"`
	Decision string `json:"decision,omitempty"` // id of the decision it carries out, empty if none
}
