package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/perennial-ml/perennial/dashboard/views"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// results are all trials in columns, which for many of them is a small part of what rows
// would be.
type results struct {
	Sequence   []int                        `json:"sequence"`
	State      []trial.State                `json:"state"`
	Metric     []*float64                   `json:"metric"`
	Asked      []int64                      `json:"asked" doc:"milliseconds since 1970"`
	Start      []int64                      `json:"start" doc:"milliseconds since 1970, 0 before"`
	End        []int64                      `json:"end" doc:"milliseconds since 1970, 0 before"`
	Parameters map[string][]json.RawMessage `json:"parameters" doc:"by name, \"outer/inner\" within a nested choice; null where a trial has it not"`
	Metrics    map[string][]*float64        `json:"metrics" doc:"the other numbers of final results that are objects, by key"`
}

func (s *server) results(ctx context.Context, in *ExperimentPath) (*tagged[results], error) {
	if _, err := s.Store.Experiment(ctx, in.Experiment); err != nil {
		return nil, problem(err)
	}
	rows, err := s.Store.Trials(ctx, in.Experiment)
	return tag(&in.Params, columns(rows), err)
}

func columns(rows []record.Trial) results {
	all := results{Sequence: []int{}, State: []trial.State{}, Metric: []*float64{}, Asked: []int64{}, Start: []int64{}, End: []int64{},
		Parameters: map[string][]json.RawMessage{}, Metrics: map[string][]*float64{}}
	for i, row := range rows {
		all.Sequence = append(all.Sequence, row.Sequence)
		all.State = append(all.State, row.State)
		all.Metric = append(all.Metric, row.Value)
		all.Asked = append(all.Asked, millis(row.Asked))
		all.Start = append(all.Start, millis(row.Started))
		all.End = append(all.End, millis(row.Ended))
		for _, field := range views.Flatten(row.Parameters) {
			put(all.Parameters, field.Name, i, len(rows), field.Value)
		}
		for _, field := range views.Flatten(json.RawMessage(row.Final)) {
			var number float64
			if field.Name != "" && field.Name != "default" && json.Unmarshal(field.Value, &number) == nil {
				put(all.Metrics, field.Name, i, len(rows), &number)
			}
		}
	}
	return all
}

func put[T any](columns map[string][]T, name string, row, rows int, value T) {
	if columns[name] == nil {
		columns[name] = make([]T, rows)
	}
	columns[name][row] = value
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

type curvesInput struct {
	ExperimentPath
	Trial  []int `query:"trial" maxItems:"1000" doc:"only those with these numbers"`
	Limit  int   `query:"limit" minimum:"1" maximum:"5000" default:"1000" doc:"how many trials at most: those that run and the best first"`
	Points int   `query:"points" minimum:"2" maximum:"2000" default:"100" doc:"how many points of one trial at most; the least and the greatest of what they stand for are kept"`
}

// curve is what the newest attempt of a trial reported on the way.
type curve struct {
	Sequence int         `json:"sequence"`
	State    trial.State `json:"state"`
	Step     []int64     `json:"step"`
	Value    []float64   `json:"value"`
	Time     []int64     `json:"time" doc:"milliseconds since the attempt's first point"`
}

type curves struct {
	Curves []*curve `json:"curves"`
	Total  int      `json:"total" doc:"trials that began, without limit"`
}

func (s *server) curves(ctx context.Context, in *curvesInput) (*tagged[curves], error) {
	if _, err := s.Store.Experiment(ctx, in.Experiment); err != nil {
		return nil, problem(err)
	}
	rows, err := s.List(ctx, in.Experiment, record.Listing{Order: record.ByMetric, Numbers: in.Trial})
	if err != nil {
		return nil, problem(err)
	}
	rows = slices.DeleteFunc(rows, func(row record.Trial) bool { return row.Attempts == 0 })
	answer := curves{Curves: []*curve{}, Total: len(rows)}
	slices.SortStableFunc(rows, func(a, b record.Trial) int { return -cmp.Compare(runs(a), runs(b)) })
	answer.Curves, err = s.drawn(ctx, in.Experiment, rows[:min(len(rows), in.Limit)], in.Points)
	return tag(&in.Params, answer, err)
}

func runs(row record.Trial) int {
	if row.State == trial.Running {
		return 1
	}
	return 0
}

// drawn are the curves of trials, of each at most so many points. Only one trial's points
// are in memory whole.
func (s *server) drawn(ctx context.Context, experiment string, rows []record.Trial, points int) ([]*curve, error) {
	states, numbers := map[int]trial.State{}, []int{}
	for _, row := range rows {
		states[row.Sequence], numbers = row.State, append(numbers, row.Sequence)
	}
	all := []*curve{}
	var first time.Time
	err := s.EachIntermediate(ctx, experiment, numbers, func(m record.Metric) {
		value := views.Default(m.Value)
		if value == nil || math.IsNaN(*value) || math.IsInf(*value, 0) {
			return
		}
		if len(all) == 0 || all[len(all)-1].Sequence != m.Key.Sequence {
			thinLast(all, points)
			all, first = append(all, &curve{Sequence: m.Key.Sequence, State: states[m.Key.Sequence]}), m.Time
		}
		all[len(all)-1].add(m.Step, *value, m.Time.Sub(first).Milliseconds())
	})
	thinLast(all, points)
	return all, err
}

func thinLast(all []*curve, points int) {
	if len(all) > 0 {
		all[len(all)-1].thin(points)
	}
}

func (c *curve) add(step int64, value float64, at int64) {
	c.Step, c.Value, c.Time = append(c.Step, step), append(c.Value, value), append(c.Time, at)
}

// thin keeps the first, the last, and of each stretch between them the least and the
// greatest, so that no peak goes missing.
func (c *curve) thin(points int) {
	count := len(c.Step)
	if count <= points {
		return
	}
	whole := *c
	c.Step, c.Value, c.Time = nil, nil, nil
	take := func(i int) { c.add(whole.Step[i], whole.Value[i], whole.Time[i]) }
	take(0)
	stretches := max((points-2)/2, 0)
	for s := range stretches {
		from, to := 1+s*(count-2)/stretches, 1+(s+1)*(count-2)/stretches
		low, high := from, from
		for i := from; i < to; i++ {
			if whole.Value[i] < whole.Value[low] {
				low = i
			}
			if whole.Value[i] > whole.Value[high] {
				high = i
			}
		}
		for _, i := range slices.Compact([]int{min(low, high), max(low, high)}) {
			take(i)
		}
	}
	take(count - 1)
}

// timeline is every attempt in columns.
type timeline struct {
	Sequence []int            `json:"sequence"`
	Attempt  []int            `json:"attempt"`
	State    []trial.State    `json:"state" doc:"of the trial"`
	Outcome  []record.Outcome `json:"outcome" doc:"of the attempt; empty while it is open"`
	Platform []string         `json:"platform"`
	Host     []string         `json:"host"`
	Submit   []int64          `json:"submit" doc:"milliseconds since 1970"`
	Start    []int64          `json:"start" doc:"0 before"`
	End      []int64          `json:"end" doc:"0 before"`
	Reason   []string         `json:"reason" doc:"why it ended so"`
}

func (s *server) timeline(ctx context.Context, in *ExperimentPath) (*tagged[timeline], error) {
	if _, err := s.Store.Experiment(ctx, in.Experiment); err != nil {
		return nil, problem(err)
	}
	rows, err := s.Store.Trials(ctx, in.Experiment)
	if err != nil {
		return nil, problem(err)
	}
	attempts, err := s.Tried(ctx, in.Experiment)
	if err != nil {
		return nil, problem(err)
	}
	states := make(map[int]trial.State, len(rows))
	for _, row := range rows {
		states[row.Sequence] = row.State
	}
	line, err := attemptColumns(attempts, states)
	return tag(&in.Params, line, err)
}

func attemptColumns(attempts []record.Attempt, states map[int]trial.State) (timeline, error) {
	line := timeline{Sequence: []int{}, Attempt: []int{}, State: []trial.State{}, Outcome: []record.Outcome{}, Platform: []string{},
		Host: []string{}, Submit: []int64{}, Start: []int64{}, End: []int64{}, Reason: []string{}}
	for _, a := range attempts {
		where, err := views.WhereaboutsOf(a)
		if err != nil {
			return line, err
		}
		line.Sequence = append(line.Sequence, a.Key.Sequence)
		line.Attempt = append(line.Attempt, a.Key.Attempt)
		line.State = append(line.State, states[a.Key.Sequence])
		line.Outcome = append(line.Outcome, a.Outcome)
		line.Platform = append(line.Platform, a.Platform)
		line.Host = append(line.Host, where.Host)
		line.Submit = append(line.Submit, millis(a.Submitted))
		line.Start = append(line.Start, millis(a.Started))
		line.End = append(line.End, millis(a.Ended))
		line.Reason = append(line.Reason, a.Reason.Sentence())
	}
	return line, nil
}
