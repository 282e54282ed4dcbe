package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/workflows"
)

// nniPath is where NNI's clients look.
const nniPath = "/api/v1/nni"

// NNIOptions say what NNI's clients are shown.
type NNIOptions struct {
	Options
	Experiment string
	Home       string // the state directory
	Port       int    // that clients are told
	Pages      fs.FS  // NNI's web pages; nil: there are none
	Alone      bool   // nothing is told of other experiments
}

// NNI returns what serves one experiment as NNI 3.0's manager does, to NNI's own clients:
// its REST routes, with its shapes, and its web pages.
func NNI(options NNIOptions) http.Handler {
	s := &nni{server: &server{Options: options.Options}, id: options.Experiment, home: options.Home, port: options.Port, alone: options.Alone}
	mux := http.NewServeMux()
	for route, answer := range s.routes() {
		method, path, _ := strings.Cut(route, " ")
		mux.HandleFunc(method+" "+nniPath+path, s.answering(answer))
	}
	mux.HandleFunc("GET "+nniPath+"/trial-file/{trial}/{file}", s.file)
	mux.HandleFunc(nniPath+"/", func(w http.ResponseWriter, r *http.Request) {
		nniError(w, http.StatusNotFound, fmt.Errorf("there is no %s %s here", r.Method, r.URL.Path))
	})
	if options.Pages != nil {
		mux.Handle("/", nniPages(options.Pages))
	}
	return protectNNI(http.MaxBytesHandler(mux, nniBodyLimit))
}

// protectNNI keeps NNI's pages, which have scripts in them, to this origin.
func protectNNI(inside http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; frame-ancestors 'none'")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		inside.ServeHTTP(w, r)
	})
}

// nniBodyLimit is NNI's own.
const nniBodyLimit = 50 << 20

// nni answers for one experiment.
type nni struct {
	*server
	id, home string
	port     int
	alone    bool
}

// nniAnswer returns what is sent as JSON; nil is an empty answer.
type nniAnswer func(r *http.Request, e record.Experiment) (any, error)

// routes are those of NNI's createRestHandler (ts/nni_manager/rest_server/restHandler.ts).
func (s *nni) routes() map[string]nniAnswer {
	return map[string]nniAnswer{
		"GET /version":                          func(*http.Request, record.Experiment) (any, error) { return json.RawMessage("3.0.0"), nil },
		"GET /check-status":                     s.status,
		"GET /experiment":                       s.profile,
		"PUT /experiment":                       s.update,
		"DELETE /experiment":                    s.stop,
		"GET /experiment/imported-data":         func(*http.Request, record.Experiment) (any, error) { return []any{}, nil },
		"GET /experiment-metadata":              s.metadata,
		"GET /experiments-info":                 s.everyMetadata,
		"GET /job-statistics":                   s.statistics,
		"GET /trial-jobs":                       s.jobs,
		"POST /trial-jobs":                      s.addJob,
		"GET /trial-jobs/{trial}":               s.job,
		"DELETE /trial-jobs/{trial}":            s.killJob,
		"GET /metric-data":                      s.metrics,
		"GET /metric-data/{trial}":              s.metricsOfOne,
		"GET /metric-data-range/{least}/{most}": s.metricsOfRange,
		"GET /metric-data-latest":               s.latestMetrics,
		"GET /export-data":                      s.export,
	}
}

func (s *nni) answering(answer nniAnswer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		e, err := s.Store.Experiment(r.Context(), s.id)
		var said any
		if err == nil {
			said, err = answer(r, e)
		}
		if err != nil {
			nniError(w, http.StatusInternalServerError, err)
			return
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		if text, is := said.(json.RawMessage); is {
			_, _ = w.Write(text)
		} else if said != nil {
			_ = json.NewEncoder(w).Encode(said) // whoever asked may have gone
		}
	}
}

// nniError is how NNI says that something is wrong.
func nniError(w http.ResponseWriter, code int, err error) {
	if errors.Is(err, record.ErrNotFound) {
		code = http.StatusNotFound
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
}

// nniPages serves NNI's web pages. They are one page that knows its paths by itself.
func nniPages(pages fs.FS) http.Handler {
	files := http.FileServerFS(pages)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if info, err := fs.Stat(pages, strings.TrimPrefix(path.Clean(r.URL.Path), "/")); err != nil || info.IsDir() {
			r.URL.Path = "/"
		}
		files.ServeHTTP(w, r)
	})
}

// status is what NNI calls an experiment's status.
func (s *nni) status(_ *http.Request, e record.Experiment) (any, error) {
	errs := []string{}
	if !e.Reason.Zero() {
		errs = append(errs, e.Reason.Text)
	}
	return map[string]any{"status": nniStatus(e), "errors": errs}, nil
}

func nniStatus(e record.Experiment) string {
	if e.Status == record.Running && e.Exhausted {
		return "TUNER_NO_MORE_TRIAL"
	}
	return string(e.Status)
}

// profile is NNI's ExperimentProfile.
func (s *nni) profile(_ *http.Request, e record.Experiment) (any, error) {
	params, err := nniParams(e)
	profile := map[string]any{"params": params, "id": e.ID, "execDuration": int64(e.Driven.Seconds()), "logDir": s.directory(e.ID),
		"startTime": e.Created.UnixMilli(), "nextSequenceId": e.Asked, "revision": e.LastEvent}
	if !e.Ended.IsZero() && !e.Status.Active() {
		profile["endTime"] = e.Ended.UnixMilli()
	}
	return profile, err
}

// nniParams is the configuration as NNI 3.0 spells it, with the limits in force.
func nniParams(e record.Experiment) (map[string]any, error) {
	params := map[string]any{}
	if err := json.Unmarshal(e.Config, &params); err != nil {
		return nil, err
	}
	delete(params, "format")
	params["experimentType"], params["searchSpace"] = "hpo", e.SearchSpace
	params["trialConcurrency"], params["maxTrialNumber"] = e.Concurrency, e.MaxTrials
	delete(params, "maxExperimentDuration")
	if e.MaxDuration > 0 {
		params["maxExperimentDuration"] = fmt.Sprintf("%ds", int64(e.MaxDuration.Seconds()))
	}
	if e.MaxTrials == 0 {
		delete(params, "maxTrialNumber")
	}
	flatten(params)
	return params, nil
}

// ofTrials are what NNI says of trials once, and a canonical configuration for each
// platform.
var ofTrials = []string{"trialCommand", "trialCodeDirectory", "trialGpuNumber"}

// flatten has one platform read as in NNI: with its options as its own keys.
func flatten(params map[string]any) {
	several, _ := params["trainingService"].([]any)
	if len(several) != 1 {
		return
	}
	platform, _ := several[0].(map[string]any)
	options, _ := platform["options"].(map[string]any)
	delete(platform, "options")
	maps.Copy(platform, options)
	for _, key := range ofTrials {
		if value, there := platform[key]; there {
			params[key] = value
		}
	}
	params["trainingService"] = platform
}

// metadata is an entry of NNI's list of experiments. It has no pid: NNI's clients would
// wait for that process, and kill it, and it is the host of every experiment.
func (s *nni) metadata(_ *http.Request, e record.Experiment) (any, error) {
	return s.metadataOf(e), nil
}

func (s *nni) metadataOf(e record.Experiment) map[string]any {
	var config experiment.Experiment
	_ = json.Unmarshal(e.Config, &config) // what cannot be read has no platform
	platform := ""
	if len(config.Platforms) > 0 {
		platform = config.Platforms[0].Name
	}
	about := map[string]any{"id": e.ID, "port": s.port, "startTime": e.Created.UnixMilli(), "endTime": "N/A", "status": nniStatus(e),
		"platform": platform, "experimentName": e.Name, "tag": []string{}, "pid": nil, "webuiUrl": []string{}, "logDir": s.directory(e.ID), "prefixUrl": nil}
	if !e.Status.Active() {
		about["endTime"] = e.Ended.UnixMilli()
	}
	return about
}

func (s *nni) everyMetadata(r *http.Request, e record.Experiment) (any, error) {
	if s.alone {
		return []map[string]any{s.metadataOf(e)}, nil
	}
	all, err := s.Store.Experiments(r.Context())
	list := []map[string]any{}
	for _, e := range all {
		list = append(list, s.metadataOf(e))
	}
	return list, err
}

// directory is where files of an experiment are, as far as one directory is that.
func (s *nni) directory(id string) string { return path.Join(s.home, "experiments", id) }

func (s *nni) statistics(_ *http.Request, e record.Experiment) (any, error) {
	list := []map[string]any{}
	for state, count := range e.Counts {
		if count > 0 {
			list = append(list, map[string]any{"trialJobStatus": state, "trialJobNumber": count})
		}
	}
	return list, nil
}

// update takes a whole profile, of which the query says what has changed.
func (s *nni) update(r *http.Request, e record.Experiment) (any, error) {
	var profile struct {
		Params map[string]json.RawMessage `json:"params"`
	}
	if err := json.NewDecoder(r.Body).Decode(&profile); err != nil {
		return nil, err
	}
	wish, err := nniWish(r.URL.Query().Get("update_type"), profile.Params)
	if err != nil {
		return nil, err
	}
	return nil, s.send(r.Context(), e, wish)
}

func (s *nni) send(ctx context.Context, e record.Experiment, wish trial.Command) error {
	if err := sensible(e, wish, false); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_, err := s.Commander.Send(ctx, e.ID, wish)
	return err
}

// oldSpelling is what the client of NNI 2.10 calls what it changes, beside the name that
// the profile had. NNI 2.10 itself does not hear of it.
var oldSpelling = map[string]string{"maxTrialNumber": "maxTrialNum", "maxExperimentDuration": "maxExecDuration"}

// nniWish is the command that an update of a profile means. Clients spell a duration "1h"
// or as seconds.
func nniWish(update string, params map[string]json.RawMessage) (trial.Command, error) {
	for name, old := range oldSpelling {
		if value, changed := params[old]; changed {
			params[name] = value
		}
	}
	wish := trial.Command{ID: keyOf("")}
	switch update {
	case "TRIAL_CONCURRENCY":
		wish.Name, wish.Value = trial.SetConcurrency, params["trialConcurrency"]
	case "MAX_TRIAL_NUM":
		wish.Name, wish.Value = trial.SetMaxTrials, params["maxTrialNumber"]
	case "SEARCH_SPACE":
		wish.Name, wish.Value = trial.SetSearchSpace, params["searchSpace"]
	case "MAX_EXEC_DURATION":
		seconds, err := nniSeconds(params["maxExperimentDuration"])
		wish.Name, wish.Value = trial.SetMaxDuration, json.RawMessage(strconv.FormatInt(seconds, 10))
		return wish, err
	default:
		return wish, fmt.Errorf("unrecognized updateType %s", update)
	}
	if wish.Value == nil {
		return wish, fmt.Errorf("the profile does not say what %s is", update)
	}
	return wish, nil
}

func nniSeconds(value json.RawMessage) (int64, error) {
	var seconds float64
	if json.Unmarshal(value, &seconds) == nil {
		return int64(seconds), nil
	}
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return 0, err
	}
	if days, is := strings.CutSuffix(text, "d"); is {
		count, err := strconv.ParseFloat(days, 64)
		return int64(count * 24 * 3600), err
	}
	span, err := time.ParseDuration(text)
	return int64(span.Seconds()), err
}

func (s *nni) stop(r *http.Request, e record.Experiment) (any, error) {
	if !e.Status.Active() {
		return nil, nil
	}
	return nil, s.send(r.Context(), e, trial.Command{ID: keyOf(""), Name: trial.Stop})
}

// addJob runs a trial of the caller's. Its number is what the next trial would get now.
func (s *nni) addJob(r *http.Request, e record.Experiment) (any, error) {
	var parameters json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&parameters); err != nil {
		return nil, err
	}
	err := s.send(r.Context(), e, trial.Command{ID: keyOf(""), Name: trial.AddTrial, Value: parameters})
	return map[string]int{"sequenceId": e.Next(0)}, err
}

func (s *nni) killJob(r *http.Request, e record.Experiment) (any, error) {
	row, err := s.row(r.Context(), e, r.PathValue("trial"))
	if err != nil || row.State.Terminal() {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	return nil, s.Commander.End(ctx, e.ID, row.Sequence, workflows.Kill)
}

func (s *nni) row(ctx context.Context, e record.Experiment, name string) (record.Trial, error) {
	_, number, err := s.find(ctx, TrialPath{Experiment: e.ID, Trial: name})
	if err != nil {
		return record.Trial{}, fmt.Errorf("trial %s: %w", name, record.ErrNotFound)
	}
	return s.Store.Trial(ctx, e.ID, number)
}
