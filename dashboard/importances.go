package dashboard

import (
	"context"
	"encoding/json"
	"math"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/perennial-ml/perennial/dashboard/importance"
	"github.com/perennial-ml/perennial/dashboard/views"
	"github.com/perennial-ml/perennial/record"
)

type importanceInput struct {
	ExperimentPath
	Metric string `query:"metric" maxLength:"200" doc:"a key of results that are objects; without it the default metric"`
}

// weighed is what parameters mean for a result, as far as it is known.
type weighed struct {
	importance.Answer
	Method  string `json:"method" doc:"how it was found, and what that cannot tell"`
	Least   int    `json:"least" doc:"how many results there must be"`
	UpTo    int64  `json:"upTo" doc:"the number of the event up to which it knows results"`
	Pending bool   `json:"pending" doc:"something newer is being computed"`
}

// importances are computed beside requests, one after the other, and kept until their
// experiments have other results.
type importances struct {
	mu     sync.Mutex
	kept   map[question]*standing
	single sync.Mutex
}

type question struct{ experiment, metric string }

// standing is what is known of an answer.
type standing struct {
	answer  importance.Answer
	fault   error
	upTo    int64
	settled int // trials that had ended by then; -1 before any answer
	busy    bool
}

// answersKept is of how many questions at most: those of removed experiments go, too.
const answersKept = 200

func (s *server) importance(ctx context.Context, in *importanceInput) (*tagged[weighed], error) {
	e, err := s.Store.Experiment(ctx, in.Experiment)
	if err != nil {
		return nil, problem(err)
	}
	known := s.importances.of(question{e.ID, in.Metric}, e, func() (importance.Answer, error) {
		rows, err := s.Store.Trials(context.WithoutCancel(ctx), e.ID)
		return importance.Of(resultsOf(rows, in.Metric)), err
	})
	if known.fault != nil {
		return nil, huma.Error500InternalServerError(known.fault.Error())
	}
	if known.answer.Parameters == nil {
		known.answer.Parameters = []importance.Parameter{}
	}
	return tag(&in.Params, weighed{known.answer, importance.Method, importance.Least, known.upTo, known.busy}, nil)
}

// of is what is known by now; where results were added since, something newer is on its way.
func (i *importances) of(asked question, e record.Experiment, compute func() (importance.Answer, error)) standing {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.kept == nil || len(i.kept) > answersKept {
		i.kept = map[question]*standing{}
	}
	if i.kept[asked] == nil {
		i.kept[asked] = &standing{settled: -1}
	}
	known := i.kept[asked]
	if settled := settledOf(e); known.settled != settled && !known.busy {
		known.busy = true
		go i.renew(known, settled, e.LastEvent, compute)
	}
	return *known
}

func (i *importances) renew(known *standing, settled int, upTo int64, compute func() (importance.Answer, error)) {
	i.single.Lock()
	defer i.single.Unlock()
	answer, err := compute()
	i.mu.Lock()
	defer i.mu.Unlock()
	if err != nil {
		settled = -1 // asked for again, it is tried again
	}
	known.answer, known.fault, known.settled, known.upTo, known.busy = answer, err, settled, upTo, false
}

func settledOf(e record.Experiment) (count int) {
	for state, trials := range e.Counts {
		if state.Terminal() {
			count += trials
		}
	}
	return count
}

// resultsOf are the trials that have a finite number of that name.
func resultsOf(rows []record.Trial, metric string) (all []importance.Trial) {
	for _, row := range rows {
		value := valueOf(row, metric)
		if value == nil || math.IsNaN(*value) || math.IsInf(*value, 0) {
			continue
		}
		one := importance.Trial{Parameters: map[string]json.RawMessage{}, Value: *value}
		for _, field := range views.Flatten(row.Parameters) {
			one.Parameters[field.Name] = field.Value
		}
		all = append(all, one)
	}
	return all
}

func valueOf(row record.Trial, metric string) *float64 {
	if metric == "" {
		return row.Value
	}
	for _, field := range views.Flatten(json.RawMessage(row.Final)) {
		var number float64
		if field.Name == metric && json.Unmarshal(field.Value, &number) == nil {
			return &number
		}
	}
	return nil
}
