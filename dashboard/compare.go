package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/conditional"

	"github.com/perennial-ml/perennial/dashboard/views"
	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/record"
)

type compareInput struct {
	conditional.Params
	Experiment []string `query:"experiment,explode" minItems:"1" maxItems:"20" doc:"their ids"`
}

type comparison struct {
	Experiments []contender `json:"experiments" doc:"in the order asked for"`
}

// contender is how fast an experiment got how good: a corner for each result that was
// better than all before, and one for the last result.
type contender struct {
	ID       string        `json:"id"`
	Name     string        `json:"name"`
	Status   record.Status `json:"status"`
	Minimize bool          `json:"minimize"`
	Tuner    string        `json:"tuner"`
	Best     *views.Best   `json:"best"`
	Results  int           `json:"results" doc:"final results so far"`
	GPUs     bool          `json:"gpus" doc:"whether its trials ask for GPUs"`
	Course   corners       `json:"course"`
}

// corners are where a best-so-far bends, in columns.
type corners struct {
	Result  []int     `json:"result" doc:"how many results there were by then"`
	Seconds []float64 `json:"seconds" doc:"since the experiment was accepted"`
	Hours   []float64 `json:"hours" doc:"hours on GPUs that attempts of the trials ended by then had taken; a trial without GPUs counts as on one"`
	Best    []float64 `json:"best"`
}

func (s *server) compare(ctx context.Context, in *compareInput) (*tagged[comparison], error) {
	answer := comparison{Experiments: []contender{}}
	for _, id := range in.Experiment {
		one, err := s.contender(ctx, id)
		if err != nil {
			return nil, problem(err)
		}
		answer.Experiments = append(answer.Experiments, one)
	}
	return tag(&in.Params, answer, nil)
}

func (s *server) contender(ctx context.Context, id string) (contender, error) {
	e, err := s.Store.Experiment(ctx, id)
	if err != nil {
		return contender{}, err
	}
	rows, err := s.Store.Trials(ctx, id)
	if err != nil {
		return contender{}, err
	}
	attempts, err := s.Tried(ctx, id)
	if err != nil {
		return contender{}, err
	}
	var config experiment.Experiment
	if err := json.Unmarshal(e.Config, &config); err != nil {
		return contender{}, huma.Error500InternalServerError(err.Error())
	}
	one := contender{ID: e.ID, Name: e.Name, Status: e.Status, Minimize: e.Minimize, Best: views.BestOf(e),
		Tuner: cmp.Or(config.Tuner.Name, config.Tuner.ClassName, config.Tuner.Command), GPUs: slices.ContainsFunc(config.Platforms, asksForGPUs)}
	one.Results, one.Course = bends(e, rows, hoursOf(attempts, config.Platforms))
	return one, nil
}

func asksForGPUs(p experiment.Platform) bool { return p.GPUs != nil && *p.GPUs > 0 }

// hoursOf are the hours on GPUs that all attempts of each trial took.
func hoursOf(attempts []record.Attempt, platforms []experiment.Platform) map[int]float64 {
	hours := map[int]float64{}
	for _, a := range attempts {
		if a.Started.IsZero() || a.Ended.IsZero() {
			continue
		}
		count := 1
		if p := a.Key.Sequence % max(len(platforms), 1); p < len(platforms) && asksForGPUs(platforms[p]) {
			count = *platforms[p].GPUs
		}
		hours[a.Key.Sequence] += a.Ended.Sub(a.Started).Hours() * float64(count)
	}
	return hours
}

// bends are how many results there are, and where the best of them changed.
func bends(e record.Experiment, rows []record.Trial, hours map[int]float64) (int, corners) {
	rows = slices.DeleteFunc(slices.Clone(rows), func(row record.Trial) bool { return row.Ended.IsZero() })
	slices.SortStableFunc(rows, func(a, b record.Trial) int { return a.Ended.Compare(b.Ended) })
	course := corners{Result: []int{}, Seconds: []float64{}, Hours: []float64{}, Best: []float64{}}
	best, results, spent := math.NaN(), 0, 0.0
	var last time.Time
	for _, row := range rows {
		spent += hours[row.Sequence]
		if row.Value == nil || math.IsNaN(*row.Value) || math.IsInf(*row.Value, 0) {
			continue
		}
		results, last = results+1, row.Ended
		if math.IsNaN(best) || *row.Value != best && (*row.Value < best) == e.Minimize {
			best = *row.Value
			course.add(results, last.Sub(e.Created), spent, best)
		}
	}
	if results > 0 && course.Result[len(course.Result)-1] != results {
		course.add(results, last.Sub(e.Created), spent, best)
	}
	return results, course
}

func (c *corners) add(result int, after time.Duration, hours, best float64) {
	c.Result, c.Seconds = append(c.Result, result), append(c.Seconds, after.Seconds())
	c.Hours, c.Best = append(c.Hours, hours), append(c.Best, best)
}
