package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/conditional"

	"github.com/perennial-ml/perennial/dashboard/views"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// tagged is an answer that a caller need not be sent again as long as it is the same.
type tagged[T any] struct {
	ETag string `header:"ETag"`
	Body T
}

// tag answers with a value, or that it is what the caller has.
func tag[T any](known *conditional.Params, value T, err error) (*tagged[T], error) {
	if err != nil {
		return nil, problem(err)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, problem(err)
	}
	sum := fnv.New128a()
	sum.Write(text)
	etag := fmt.Sprintf("%x", sum.Sum(nil))
	if known.HasConditionalParams() {
		if err := known.PreconditionFailed(etag, time.Time{}); err != nil {
			return nil, err
		}
	}
	return &tagged[T]{ETag: `"` + etag + `"`, Body: value}, nil
}

// listedExperiment is an experiment among others, with what a row of a page has room for.
type listedExperiment struct {
	views.Listed
	Reason    trial.Reason `json:"reason"`
	Platforms []string     `json:"platforms"`
	Limits    views.Limits `json:"limits"`
	Asked     int          `json:"asked" doc:"trials asked for so far"`
	Remaining *float64     `json:"remaining" doc:"seconds it still takes by its pace so far; null where nobody knows"`
	Minimize  bool         `json:"minimize"`
	Course    []float64    `json:"course" doc:"the best so far, from the first result to the last, in at most 60 numbers"`
}

type experimentsInput struct {
	conditional.Params
	Text  string   `query:"text" maxLength:"200" doc:"only those with this in their id, name or tags"`
	Tag   []string `query:"tag,explode" maxItems:"20" doc:"only those with this tag, key or key=value; several: with all of them"`
	Limit int      `query:"limit" minimum:"1" maximum:"1000" default:"200"`
	After string   `query:"after" maxLength:"20" doc:"the cursor that the answer before ended with"`
}

type experimentPage struct {
	Experiments []listedExperiment `json:"experiments"`
	Total       int                `json:"total" doc:"without limit and cursor"`
	Next        string             `json:"next" doc:"the cursor of the next page; empty at the end"`
}

func (s *server) experiments(ctx context.Context, in *experimentsInput) (*tagged[experimentPage], error) {
	all, err := s.Experiments(ctx)
	if err != nil {
		return nil, problem(err)
	}
	slices.SortFunc(all, views.NewestFirst)
	all = slices.DeleteFunc(all, func(e record.Experiment) bool {
		return !views.Mentions(e, in.Text) || !views.IsTagged(e, in.Tag)
	})
	page := experimentPage{Total: len(all), Experiments: []listedExperiment{}}
	all = all[1+slices.IndexFunc(all, func(e record.Experiment) bool { return e.ID == in.After }):]
	if len(all) > in.Limit {
		all = all[:in.Limit]
		page.Next = all[in.Limit-1].ID
	}
	for _, e := range all {
		one := listed(e)
		if one.Course, err = s.courses.of(ctx, s.Store, e); err != nil {
			return nil, problem(err)
		}
		page.Experiments = append(page.Experiments, one)
	}
	return tag(&in.Params, page, nil)
}

func listed(e record.Experiment) listedExperiment {
	return listedExperiment{Listed: views.ListedOf(e), Reason: e.Reason, Platforms: append([]string{}, views.PlatformsOf(e)...),
		Limits: views.LimitsOf(e), Asked: e.Trials(), Remaining: remaining(e), Minimize: e.Minimize}
}

func remaining(e record.Experiment) *float64 {
	left, known := views.Remaining(e)
	if !known || e.Status != record.Running {
		return nil
	}
	seconds := left.Seconds()
	return &seconds
}

// ExperimentPath names an experiment.
type ExperimentPath struct {
	conditional.Params
	Experiment string `path:"experiment" maxLength:"20" doc:"its id"`
}

// shown is how an experiment stands, with what a page shows of it besides.
type shown struct {
	views.Experiment
	Asked     int             `json:"asked" doc:"trials asked for so far"`
	Remaining *float64        `json:"remaining" doc:"seconds it still takes by its pace so far; null where nobody knows"`
	Minimize  bool            `json:"minimize"`
	LastEvent int64           `json:"lastEvent" doc:"the number of its newest event"`
	Config    json.RawMessage `json:"config" doc:"as it was accepted; secrets are references"`
}

func (s *server) experiment(ctx context.Context, in *ExperimentPath) (*tagged[shown], error) {
	e, err := s.Store.Experiment(ctx, in.Experiment)
	if err != nil {
		return nil, problem(err)
	}
	e.Reason = cmp.Or(e.Reason, s.Idle(ctx, e))
	view, err := s.Reader.Experiment(ctx, e, views.Temporal{})
	return tag(&in.Params, shown{view, e.Trials(), remaining(e), e.Minimize, e.LastEvent, e.Config}, err)
}

type gpusInput struct{ conditional.Params }

func (s *server) gpus(ctx context.Context, in *gpusInput) (*tagged[views.GPUs], error) {
	view, err := s.glance.at(time.Now(), func() (views.GPUs, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), glanceTime)
		defer cancel()
		return s.Reader.GPUs(ctx, s.Options.GPUs)
	})
	if err != nil {
		err = huma.Error502BadGateway(err.Error())
	}
	return tag(&in.Params, view, err)
}

const (
	glanceKept = 4 * time.Second
	glanceTime = time.Minute
)

// glance is one look at all GPUs, which many callers share: each would ask every host and
// cluster.
type glance struct {
	mu   sync.Mutex
	end  time.Time
	view views.GPUs
	err  error
}

// at is what was seen a moment before a time, else what is seen now. Callers wait for one
// another.
func (g *glance) at(called time.Time, look func() (views.GPUs, error)) (views.GPUs, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.end.IsZero() || called.Sub(g.end) > glanceKept {
		g.view, g.err = look()
		g.end = time.Now()
	}
	return g.view, g.err
}
