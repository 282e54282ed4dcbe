package activities

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners/bridge"
)

const (
	// longestPause bounds the time between two attempts to rebuild an algorithm that
	// fails now so, now otherwise.
	longestPause = 30 * time.Second
	// steadfast is how often an algorithm fails in the same way before somebody is
	// taken to be needed who mends it.
	steadfast = 3
	// longestWait bounds the time between two attempts from then on.
	longestWait = 15 * time.Minute
)

// setback is an algorithm's failure, and when it is tried again.
type setback struct {
	error
	times int // in a row in which it failed so
	until time.Time
}

// Unwrap gives the failure.
func (s *setback) Unwrap() error { return s.error }

// after is the setback of a failure that follows this one, nil for none, after so
// many failures in a row of whatever kind.
func (s *setback) after(err error, failures int) *setback {
	next := &setback{error: err, times: 1}
	if s != nil && alike(s.error) == alike(err) {
		next.times = s.times + 1
	}
	wait := pause(failures)
	if next.times >= steadfast {
		wait = min(longestWait, longestPause<<min(next.times-steadfast, 10))
	}
	next.until = time.Now().Add(wait)
	return next
}

// proof is how long a process must have lived for it to count as one that works,
// where it has answered nothing: to be told of events is no feat.
const proof = 3 * time.Second

// proved tells whether an algorithm that has just done something works.
func (l *algorithm) proved() bool {
	return l.built.IsZero() || l.answered || time.Since(l.built) >= proof
}

// alike is what two failures of one kind have in common: numbers and addresses
// differ, and the event at which a process was found dead.
func alike(err error) string {
	var broken *bridge.Breakdown
	if errors.As(err, &broken) {
		err = broken
	}
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, err.Error())
}

// pause is how long to wait after so many failures before the last one.
func pause(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	return min(longestPause, 250*time.Millisecond<<min(failures, 10))
}

// reason tells people of the setback. Its first line says all that goes into
// history; where the failure comes from follows, and stays in the record.
func (s *setback) reason(at place) trial.Reason {
	text := strings.ReplaceAll(s.Error(), "\n", " ")
	if s.times >= steadfast {
		text = fmt.Sprintf("%s; %d times in a row, the next try is at %s: mend it, then starter resume %s tries at once",
			text, s.times, s.until.Format(time.TimeOnly), at.experiment)
	}
	reason := s.kind(at.role)
	lines := []string{text}
	var broken *bridge.Breakdown
	if errors.As(s.error, &broken) {
		lines = append(lines, broken.Traceback...)
		if broken.Log != "" {
			lines = append(lines, "log: "+broken.Log)
		}
	}
	reason.Text = strings.Join(lines, "\n")
	return reason
}

func (s *setback) kind(role role) trial.Reason {
	switch steady := s.times >= steadfast; {
	case steady && role == roleTuner:
		return trial.Reason{Code: ReasonTunerFailed}
	case steady:
		return trial.Reason{Code: reasonAssessorFailed}
	case role == roleTuner:
		return trial.Reason{Code: reasonTuner}
	}
	return trial.Reason{Code: reasonAssessor}
}

// The codes of the reason for which nothing starts.
const (
	reasonTuner = "tuner" // it fails, or thinks
	// ReasonTunerFailed: it fails steadfastly, and nothing starts before somebody
	// has mended it.
	ReasonTunerFailed = "tuner-failed"
)

// The codes of the reason why intermediate results are not judged.
const (
	reasonAssessor       = "assessor"
	reasonAssessorFailed = "assessor-failed" // and that does not change by itself
)

// relent has an experiment's algorithms tried at once that wait after a failure:
// somebody has given a command, and may have mended them.
func (a *Activities) relent(id string, command int64) {
	for _, role := range []role{roleTuner, roleAssessor} {
		if l, used := a.algorithms.Load(place{id, role}); used {
			l.(*algorithm).relent(command)
		}
	}
}

// relent does so for one, once for each command.
func (l *algorithm) relent(command int64) {
	for {
		heard := l.heard.Load()
		if command <= heard {
			return
		}
		if l.heard.CompareAndSwap(heard, command) {
			l.anew.Store(true)
			l.bell.ring()
			return
		}
	}
}

// relent tries algorithms again that failed, where the news are a command.
func (r *round) relent(news []trial.Event) {
	for _, event := range news {
		if event.Kind == trial.KindCommand {
			r.Activities.relent(r.Experiment, event.Number)
		}
	}
}

// explain says why nothing starts at present.
func (r *round) explain(ctx context.Context, reason trial.Reason) error {
	r.row.Reason = reason
	return r.Record.SetReason(ctx, r.Experiment, reason)
}

// retrial is when a tuner that failed is tried again; never where it did not.
func (r *round) retrial() <-chan time.Time {
	if r.failed == nil {
		return nil
	}
	return time.After(time.Until(r.failed.until))
}
