package views

import (
	"context"
	"encoding/json"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// Standing is how a trial is.
type Standing struct {
	ID       string       `json:"id"`
	Sequence int          `json:"sequence"`
	State    trial.State  `json:"state"`
	Reason   trial.Reason `json:"reason"`
	Attempts int          `json:"attempts"`
	Start    *string      `json:"start"` // RFC 3339 in UTC, or null
	End      *string      `json:"end"`
	Metric   *float64     `json:"metric"`
}

// StandingOf returns how a trial is, by its row.
func StandingOf(row record.Trial) Standing {
	return Standing{ID: row.ID, Sequence: row.Sequence, State: row.State, Reason: row.Reason,
		Attempts: row.Attempts, Start: Stamp(row.Started), End: Stamp(row.Ended), Metric: row.Value}
}

// Trial is a trial among others.
type Trial struct {
	Standing
	Parameters   trial.Parameters `json:"parameters"`
	Intermediate *Intermediate    `json:"intermediate" doc:"the last one of its newest attempt; null where there is none"`
	Whereabouts                   // of its newest attempt
	Row          record.Trial     `json:"-"`
}

// Intermediate is one metric that a trial reported on the way.
type Intermediate struct {
	Step   int64    `json:"step"`
	Metric *float64 `json:"metric" doc:"null where it has no default number"`
	Value  string   `json:"value" doc:"as the trial reported it"`
	Time   *string  `json:"time"`
}

// Whereabouts are where an attempt runs or ran.
type Whereabouts struct {
	Host string `json:"host" doc:"the machine; empty where its platform names none, or has not chosen yet"`
	URL  string `json:"url" doc:"where its platform shows it; empty where that has no pages"`
	// TensorBoard is left out where there is none.
	TensorBoard string `json:"tensorBoard,omitempty" doc:"the address of its TensorBoard, while it runs and where its platform has one"`
}

// WholeTrial is all there is about one trial.
type WholeTrial struct {
	Trial
	Experiment string  `json:"experiment"`
	Source     string  `json:"source" doc:"algorithm, or customized by \"trials add\""`
	Asked      *string `json:"asked"`
	Final      *string `json:"final" doc:"as the trial reported it; null where it did not"`
	// Intermediates are those of the newest attempt, of more than a thousand the
	// newest; Reported counts all that the attempt reported.
	Intermediates []Intermediate `json:"intermediates"`
	Reported      int            `json:"reported"`
	Tries         []Attempt      `json:"attemptList"`
}

// Attempt is one attempt at a trial.
type Attempt struct {
	Number   int    `json:"attempt"`
	Platform string `json:"platform"`
	Whereabouts
	Phase     string         `json:"phase" doc:"as its platform saw it last; empty before"`
	Outcome   record.Outcome `json:"outcome" doc:"ended, interrupted, fault; empty while it is open"`
	Reason    trial.Reason   `json:"reason"`
	Exit      *trial.Exit    `json:"exit"`
	Submitted *string        `json:"submitted"`
	Start     *string        `json:"start"`
	End       *string        `json:"end"`
	Directory string         `json:"directory" doc:"where its files are, empty where that is not on this machine"`
}

// IntermediatesShown is how many of one trial a WholeTrial has at most, the newest.
const IntermediatesShown = 1000

// Trials returns the trials that a listing wants, each with a reason where it waits.
func (r Reader) Trials(ctx context.Context, e record.Experiment, listing record.Listing) ([]Trial, error) {
	rows, err := r.List(ctx, e.ID, listing)
	if err != nil {
		return nil, err
	}
	open, err := r.Unsettled(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	ExplainWaits(rows, e, r.Idle(ctx, e), open)
	return r.seen(ctx, e.ID, rows)
}

// seen adds to trials what their newest attempts tell, in two reads for all of them.
func (r Reader) seen(ctx context.Context, id string, rows []record.Trial) ([]Trial, error) {
	numbers := make([]int, len(rows))
	for i, row := range rows {
		numbers[i] = row.Sequence
	}
	attempts, err := r.NewestAttempts(ctx, id, numbers)
	if err != nil {
		return nil, err
	}
	latest, err := r.Latest(ctx, id, numbers)
	if err != nil {
		return nil, err
	}
	trials := make([]Trial, len(rows))
	for i, row := range rows {
		trials[i] = Trial{Standing: StandingOf(row), Parameters: row.Parameters, Row: row}
		if reported, has := latest[row.Sequence]; has {
			trials[i].Intermediate = intermediateOf(reported)
		}
		if trials[i].Whereabouts, err = WhereaboutsOf(attempts[row.Sequence]); err != nil {
			return nil, err
		}
	}
	return trials, nil
}

// Whole adds to a trial all there is about it, and returns its attempts as they are on
// record too.
func (r Reader) Whole(ctx context.Context, e record.Experiment, seen Trial) (WholeTrial, []record.Attempt, error) {
	view := WholeTrial{Trial: seen, Experiment: e.ID, Source: seen.Row.Source, Asked: Stamp(seen.Row.Asked),
		Intermediates: []Intermediate{}, Tries: []Attempt{}}
	if seen.Row.Final != "" {
		view.Final = &seen.Row.Final
	}
	attempts, err := r.Attempts(ctx, e.ID, seen.Sequence)
	if err != nil || len(attempts) == 0 {
		return view, nil, err
	}
	for _, attempt := range attempts {
		tried, err := attemptOf(attempt)
		if err != nil {
			return view, nil, err
		}
		view.Tries = append(view.Tries, tried)
	}
	newest := attempts[len(attempts)-1]
	view.Reported = newest.Metrics
	reported, err := r.Intermediates(ctx, newest.Key, IntermediatesShown)
	for _, m := range reported {
		view.Intermediates = append(view.Intermediates, *intermediateOf(m))
	}
	return view, attempts, err
}

func attemptOf(a record.Attempt) (Attempt, error) {
	where, err := WhereaboutsOf(a)
	return Attempt{Number: a.Key.Attempt, Platform: a.Platform, Whereabouts: where, Phase: a.Phase, Outcome: a.Outcome, Reason: a.Reason,
		Exit: a.Exit, Submitted: Stamp(a.Submitted), Start: Stamp(a.Started), End: Stamp(a.Ended),
		Directory: a.Output}, err
}

func intermediateOf(m record.Metric) *Intermediate {
	return &Intermediate{Step: m.Step, Metric: Default(m.Value), Value: m.Value, Time: Stamp(m.Time)}
}

// Default is the default number of a metric as a trial reported it, nil where it has
// none.
func Default(text string) *float64 {
	reported := metrics.Record{Value: text}
	if value, has := reported.Default(); has {
		return &value
	}
	return nil
}

// ranOn is where a trial's newest attempt runs or ran.
func (r Reader) ranOn(ctx context.Context, row record.Trial) (Whereabouts, error) {
	newest, err := r.NewestAttempts(ctx, row.Experiment, []int{row.Sequence})
	if err != nil {
		return Whereabouts{}, err
	}
	return WhereaboutsOf(newest[row.Sequence])
}

// WhereaboutsOf returns where an attempt runs or ran.
func WhereaboutsOf(attempt record.Attempt) (Whereabouts, error) {
	if attempt.Handle == nil {
		return Whereabouts{}, nil
	}
	var handle platforms.Handle
	err := json.Unmarshal(attempt.Handle, &handle)
	where := Whereabouts{Host: handle.Host, URL: handle.URL}
	if attempt.Phase == string(platforms.Running) {
		where.TensorBoard = handle.TensorBoard
	}
	return where, err
}
