package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"

	"github.com/perennial-ml/perennial/dashboard/views"
	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// nniJob is NNI's TrialJobInfo.
type nniJob struct {
	ID         string      `json:"trialJobId"`
	Status     trial.State `json:"status"`
	Parameters []string    `json:"hyperParameters"` // each a JSON text
	Message    string      `json:"message,omitempty"`
	Start      int64       `json:"startTime"` // milliseconds; while it waits, since when
	LogPath    string      `json:"logPath"`
	Sequence   int         `json:"sequenceId"`
	End        int64       `json:"endTime,omitempty"`
	Final      []nniMetric `json:"finalMetricData,omitempty"`
	StderrPath string      `json:"stderrPath,omitempty"`
}

// nniMetric is NNI's MetricDataRecord.
type nniMetric struct {
	Time      int64  `json:"timestamp"` // milliseconds
	Trial     string `json:"trialJobId"`
	Parameter string `json:"parameterId"`
	Kind      string `json:"type"`
	Sequence  int64  `json:"sequence"`
	Data      string `json:"data"` // the value's JSON text, as a JSON text
}

// nniParameter is what parameter.cfg says of a trial.
type nniParameter struct {
	ID         json.RawMessage  `json:"parameter_id"`
	Source     string           `json:"parameter_source"`
	Parameters trial.Parameters `json:"parameters"`
	Index      int              `json:"parameter_index"`
}

func (s *nni) jobs(r *http.Request, e record.Experiment) (any, error) {
	rows, err := s.Store.Trials(r.Context(), e.ID)
	if err != nil {
		return nil, err
	}
	attempts, err := s.NewestAttempts(r.Context(), e.ID, numbersOf(rows))
	list := []nniJob{}
	for _, row := range rows {
		if wanted := r.URL.Query().Get("status"); wanted == "" || wanted == string(row.State) {
			list = append(list, jobOf(row, attempts[row.Sequence]))
		}
	}
	return list, err
}

func (s *nni) job(r *http.Request, e record.Experiment) (any, error) {
	row, err := s.row(r.Context(), e, r.PathValue("trial"))
	if err != nil {
		return nil, err
	}
	attempts, err := s.NewestAttempts(r.Context(), e.ID, []int{row.Sequence})
	return jobOf(row, attempts[row.Sequence]), err
}

func jobOf(row record.Trial, attempt record.Attempt) nniJob {
	parameter, _ := json.Marshal(nniParameter{row.ParameterID, row.Source, row.Parameters, 0}) // plain data cannot fail
	job := nniJob{ID: row.ID, Status: row.State, Parameters: []string{string(parameter)}, Message: row.Reason.Text,
		Start: row.Asked.UnixMilli(), LogPath: attempt.Output, Sequence: row.Sequence}
	if !row.Started.IsZero() {
		job.Start = row.Started.UnixMilli()
	}
	if row.State.Terminal() && !row.Ended.IsZero() {
		job.End = row.Ended.UnixMilli()
	}
	if row.Final != "" {
		job.Final = []nniMetric{finalOf(row)}
	}
	if row.State == trial.Failed && attempt.Output != "" {
		job.StderrPath = attempt.Output + "/stderr"
	}
	return job
}

// finalOf is the result that decides. When it was reported is not asked for: the trial's
// end is near enough.
func finalOf(row record.Trial) nniMetric {
	when := row.Ended
	if when.IsZero() {
		when = row.Started
	}
	return nniMetric{when.UnixMilli(), row.ID, string(row.ParameterID), string(metrics.Final), 0, encodedTwice(row.Final)}
}

func encodedTwice(value string) string {
	text, _ := json.Marshal(value) // a string cannot fail
	return string(text)
}

func numbersOf(rows []record.Trial) []int {
	var numbers []int
	for _, row := range rows {
		numbers = append(numbers, row.Sequence)
	}
	return numbers
}

// metrics are those of all trials, in the order in which they came.
func (s *nni) metrics(r *http.Request, e record.Experiment) (any, error) {
	rows, err := s.Store.Trials(r.Context(), e.ID)
	if err != nil {
		return nil, err
	}
	return s.metricsOf(r, e, rows)
}

func (s *nni) metricsOfOne(r *http.Request, e record.Experiment) (any, error) {
	row, err := s.row(r.Context(), e, r.PathValue("trial"))
	if err != nil {
		return nil, err
	}
	return s.metricsOf(r, e, []record.Trial{row})
}

// metricsOfRange are those of trials with numbers from least to most.
func (s *nni) metricsOfRange(r *http.Request, e record.Experiment) (any, error) {
	least, err := strconv.Atoi(r.PathValue("least"))
	most, other := strconv.Atoi(r.PathValue("most"))
	if err = errors.Join(err, other); err != nil {
		return nil, err
	}
	rows, err := s.Store.Trials(r.Context(), e.ID)
	if err != nil {
		return nil, err
	}
	var wanted []record.Trial
	for _, row := range rows {
		if row.Sequence >= least && row.Sequence <= most {
			wanted = append(wanted, row)
		}
	}
	return s.metricsOf(r, e, wanted)
}

func (s *nni) metricsOf(r *http.Request, e record.Experiment, rows []record.Trial) ([]nniMetric, error) {
	list, byNumber := []nniMetric{}, map[int]record.Trial{}
	kind := r.URL.Query().Get("type")
	for _, row := range rows {
		byNumber[row.Sequence] = row
	}
	if kind == "" || kind == string(metrics.Periodical) {
		err := s.EachIntermediate(r.Context(), e.ID, numbersOf(rows), func(m record.Metric) {
			list = append(list, intermediateOf(byNumber[m.Key.Sequence], m))
		})
		if err != nil {
			return nil, err
		}
	}
	for _, row := range rows {
		if row.Final != "" && (kind == "" || kind == string(metrics.Final)) {
			list = append(list, finalOf(row))
		}
	}
	return list, nil
}

func intermediateOf(row record.Trial, m record.Metric) nniMetric {
	return nniMetric{m.Time.UnixMilli(), row.ID, string(row.ParameterID), m.Kind, m.Step, encodedTwice(m.Value)}
}

// latestMetrics are every final, and of each trial its newest intermediate.
func (s *nni) latestMetrics(r *http.Request, e record.Experiment) (any, error) {
	rows, err := s.Store.Trials(r.Context(), e.ID)
	if err != nil {
		return nil, err
	}
	list := []nniMetric{}
	for _, row := range rows {
		if row.Final != "" {
			list = append(list, finalOf(row))
		}
	}
	newest, err := s.Latest(r.Context(), e.ID, numbersOf(rows))
	for _, row := range rows {
		if m, reported := newest[row.Sequence]; reported {
			list = append(list, intermediateOf(row, m))
		}
	}
	return list, err
}

// nniResult is NNI's ExportedDataFormat.
type nniResult struct {
	Parameter trial.Parameters `json:"parameter"`
	Value     string           `json:"value"`
	Trial     string           `json:"trialJobId"`
}

func (s *nni) export(r *http.Request, e record.Experiment) (any, error) {
	rows, err := s.Store.Trials(r.Context(), e.ID)
	list := []nniResult{}
	for _, row := range rows {
		if row.State == trial.Succeeded && row.Final != "" {
			list = append(list, nniResult{row.Parameters, row.Final, row.ID})
		}
	}
	return list, err
}

// nniFiles are the files of a trial that NNI's manager hands out, as logs have them here.
var nniFiles = map[string]string{"trial.log": "trial.log", "stdout": "stdout", "stderr": "stderr"}

// file sends what a trial wrote, as text that no browser takes for a page.
func (s *nni) file(w http.ResponseWriter, r *http.Request) {
	opened, err := s.open(r.Context(), r.PathValue("trial"), nniFiles[r.PathValue("file")])
	if errors.Is(err, fs.ErrNotExist) {
		opened, err = io.NopCloser(strings.NewReader("")), nil
	}
	if err != nil {
		nniError(w, http.StatusInternalServerError, err)
		return
	}
	defer opened.Close()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.Copy(w, opened) // whoever asked may have gone
}

func (s *nni) open(ctx context.Context, name, stream string) (io.ReadCloser, error) {
	if stream == "" {
		return nil, errors.New("a trial has trial.log, stdout and stderr")
	}
	e, err := s.Store.Experiment(ctx, s.id)
	if err != nil {
		return nil, err
	}
	row, err := s.row(ctx, e, name)
	if err != nil {
		return nil, err
	}
	attempts, err := s.Attempts(ctx, e.ID, row.Sequence)
	if err != nil || len(attempts) == 0 {
		return nil, errors.Join(err, record.ErrNotFound)
	}
	opened, _, err := views.OpenLog(ctx, attempts[len(attempts)-1], platforms.Log{Stream: stream}, s.Logs)
	return opened, err
}
