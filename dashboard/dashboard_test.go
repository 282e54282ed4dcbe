package dashboard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/dashboard"
	"github.com/perennial-ml/perennial/dashboard/views"
	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/workflows"
)

const id = "k3v9x2ab"

// desk is a dashboard on a record that the test writes.
type desk struct {
	*testing.T
	*record.Store
	address string
}

func newDesk(t *testing.T) desk {
	store, err := record.Open(filepath.Join(t.TempDir(), "record.sqlite"))
	require.NoError(t, err)
	t.Cleanup(func() { store.Close() })
	server := httptest.NewServer(dashboard.New(dashboard.Options{
		Reader: views.Reader{Store: store, Idle: func(context.Context, record.Experiment) trial.Reason { return trial.Reason{} }},
		GPUs:   views.GPUHosts{Of: noGPUs, RunsHere: func(string) bool { return true }},
		Logs: func(context.Context, platforms.Handle, platforms.Log) (io.ReadCloser, error) {
			return nil, errors.New("it is gone")
		},
		WebUI:     func(string) string { return "" },
		Commander: &commander{store: store},
		Version:   "v1",
	}))
	t.Cleanup(server.Close)
	return desk{t, store, server.URL}
}

// commander writes commands into the record, as an experiment's workflow does.
type commander struct {
	store *record.Store
	ended []workflows.Ending
}

func (c *commander) Send(ctx context.Context, experiment string, command trial.Command) (int64, error) {
	event, err := c.store.Append(ctx, experiment, record.CommandEvent(command))
	var rejected *record.RejectedError
	if errors.As(err, &rejected) {
		return 0, &dashboard.RefusedError{Text: rejected.Text}
	}
	return event.Number, err
}

func (c *commander) End(_ context.Context, _ string, sequence int, ending workflows.Ending) error {
	if sequence > 0 {
		return workflows.ErrNotDriven
	}
	c.ended = append(c.ended, ending)
	return nil
}

// post sends a wish.
func (d desk) post(path, body string, headers ...string) (int, string) {
	d.Helper()
	request, err := http.NewRequestWithContext(d.Context(), http.MethodPost, d.address+"/api/v1"+path, strings.NewReader(body))
	require.NoError(d, err)
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultClient.Do(request)
	require.NoError(d, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(d, err)
	return answer.StatusCode, string(text)
}

func noGPUs(context.Context, string, experiment.Platform) ([]gpu.Host, error) { return nil, nil }

const config = `{"format":1,"experimentName":"demo","searchSpace":{"lr":{"_type":"uniform","_value":[0,1]}},"trialConcurrency":2,"maxTrialNumber":50,
	"tuner":{"name":"Random"},"trainingService":[{"platform":"local","trialCommand":"true","trialCodeDirectory":"."}]}`

// accept makes an experiment of so many trials.
func (d desk) accept(id string, trials int) {
	d.Helper()
	_, err := d.Append(d.Context(), id, record.CommandEvent(trial.Command{ID: "accept-" + id, Name: trial.Accept, Value: json.RawMessage(config)}))
	require.NoError(d, err)
	for n := range trials {
		_, err := d.Ask(d.Context(), id, []record.Ask{{Sequence: n, Asked: trial.Asked{
			Parameters: json.RawMessage(fmt.Sprintf(`{"lr": %d}`, n)), Source: trial.SourceAlgorithm}}})
		require.NoError(d, err)
	}
}

// begin starts a trial whose output is in a directory.
func (d desk) begin(n int, output string) trial.Key {
	d.Helper()
	attempt, err := d.BeginAttempt(d.Context(), id, n, "local")
	require.NoError(d, err)
	require.NoError(d, d.Observe(d.Context(), attempt.Key, record.Observation{Phase: "running", Started: time.Now(), Output: output}))
	return attempt.Key
}

// report has a trial report values, one a step.
func (d desk) report(key trial.Key, values ...float64) {
	d.Helper()
	var all []metrics.Record
	for step, value := range values {
		all = append(all, metrics.Record{Number: int64(step + 1), Kind: metrics.Periodical, Step: int64(step), Value: fmt.Sprint(value), Time: time.Now()})
	}
	require.NoError(d, d.Collect(d.Context(), key, all, fmt.Sprint(len(values))))
}

func (d desk) get(path string, headers ...string) (*http.Response, string) {
	d.Helper()
	request, err := http.NewRequestWithContext(d.Context(), http.MethodGet, d.address+path, nil)
	require.NoError(d, err)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultClient.Do(request)
	require.NoError(d, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(d, err)
	return answer, string(body)
}

func (d desk) read(path string, into any) {
	d.Helper()
	answer, body := d.get("/api/v1" + path)
	require.Equal(d, http.StatusOK, answer.StatusCode, body)
	require.NoError(d, json.Unmarshal([]byte(body), into))
}

func TestExperimentsAreListedAPageAtATimeTheNewestFirst(t *testing.T) {
	d := newDesk(t)
	for _, id := range []string{"aaaaaaaa", "bbbbbbbb", "cccccccc"} {
		d.accept(id, 0)
	}
	var page struct {
		Experiments []struct{ ID, Name, Status string }
		Total       int
		Next        string
	}
	d.read("/experiments?limit=2", &page)
	require.Equal(t, []string{"cccccccc", "bbbbbbbb"}, []string{page.Experiments[0].ID, page.Experiments[1].ID})
	require.Equal(t, 3, page.Total)
	d.read("/experiments?limit=2&after="+page.Next, &page)
	require.Len(t, page.Experiments, 1)
	require.Empty(t, page.Next)
	d.read("/experiments?text=BBB", &page)
	require.Equal(t, 1, page.Total)
	code, body := d.post("/experiments/cccccccc/commands", `{"name": "set-tags", "value": {"dataset": "cifar10", "who's": "", "old": null}}`)
	require.Equal(t, http.StatusOK, code, body)
	require.Contains(t, body, `starter tag cccccccc 'dataset=cifar10' --remove 'old' 'who'\\''s='`)
	for query, total := range map[string]int{"tag=dataset": 1, "tag=dataset%3Dcifar10&tag=who%27s": 1, "tag=dataset&tag=other": 0, "tag=dataset%3D10": 0, "text=CIFAR": 1, "text=dataset%3Dcif": 1} {
		d.read("/experiments?"+query, &page)
		require.Equal(t, total, page.Total, query)
	}
}

func TestPagesOfTrialsMissNothingAndEachWaitHasAReason(t *testing.T) {
	d := newDesk(t)
	d.accept(id, 5)
	d.begin(4, "")
	var seen []int
	for after := ""; ; {
		var page struct {
			Trials []views.Trial
			Total  int
			Next   string
		}
		d.read("/experiments/"+id+"/trials?limit=2&sort=lr&reverse=true&after="+after, &page)
		require.Equal(t, 5, page.Total)
		for _, one := range page.Trials {
			seen = append(seen, one.Sequence)
			require.Equal(t, one.State == trial.Waiting, one.Reason.Text != "", "%+v", one)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	require.Equal(t, []int{4, 3, 2, 1, 0}, seen)
}

func TestAnAnswerThatACallerHasIsNotSentAgain(t *testing.T) {
	d := newDesk(t)
	d.accept(id, 1)
	first, _ := d.get("/api/v1/experiments/" + id)
	tag := first.Header.Get("ETag")
	require.NotEmpty(t, tag)
	again, body := d.get("/api/v1/experiments/"+id, "If-None-Match", tag)
	require.Equal(t, http.StatusNotModified, again.StatusCode)
	require.Empty(t, body)
	d.begin(0, "")
	changed, _ := d.get("/api/v1/experiments/"+id, "If-None-Match", tag)
	require.Equal(t, http.StatusOK, changed.StatusCode)
}

func TestWhatIsWrongIsSaidAsAProblem(t *testing.T) {
	d := newDesk(t)
	d.accept(id, 1)
	for path, want := range map[string]int{
		"/experiments/nothere1":                          http.StatusNotFound,
		"/experiments/nothere1/events":                   http.StatusNotFound,
		"/experiments/" + id + "/trials/7":               http.StatusNotFound,
		"/experiments/" + id + "/trials?limit=0":         http.StatusUnprocessableEntity,
		"/experiments/" + id + "/trials?state=ASLEEP":    http.StatusUnprocessableEntity,
		"/experiments/" + id + "/trials?after=3":         http.StatusUnprocessableEntity,
		"/experiments/" + id + "/trials?colour=red":      http.StatusUnprocessableEntity,
		"/experiments/" + id + "/trials/0/log?stream=sh": http.StatusUnprocessableEntity,
		"/experiments/" + id + "/temporal":               http.StatusNotFound,
		"/no/such/route":                                 http.StatusNotFound,
	} {
		answer, body := d.get("/api/v1" + path)
		require.Equal(t, want, answer.StatusCode, "%s: %s", path, body)
		require.Equal(t, "application/problem+json", answer.Header.Get("Content-Type"), path)
		require.Contains(t, body, `"detail"`)
	}
}

func TestACurveIsThinnedOutButKeepsItsEndsAndItsPeaks(t *testing.T) {
	d := newDesk(t)
	d.accept(id, 2)
	values := make([]float64, 5000)
	values[3333], values[1234] = 100, -100
	d.report(d.begin(0, ""), values...)
	d.report(d.begin(1, ""), 1, 2)
	var answer struct {
		Curves []struct {
			Sequence int
			Step     []int64
			Value    []float64
		}
	}
	d.read("/experiments/"+id+"/curves?points=50", &answer)
	require.Len(t, answer.Curves, 2)
	long := answer.Curves[0]
	require.LessOrEqual(t, len(long.Step), 50)
	require.Equal(t, []int64{0, 4999}, []int64{long.Step[0], long.Step[len(long.Step)-1]})
	require.Contains(t, long.Value, 100.0)
	require.Contains(t, long.Value, -100.0)
	require.Equal(t, []float64{1, 2}, answer.Curves[1].Value)
}

func TestALogComesInPiecesThatNoBrowserTakesForAPage(t *testing.T) {
	d := newDesk(t)
	d.accept(id, 2)
	directory := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(directory, "stdout"), []byte("<script>alert(1)</script>größer"), 0o600))
	d.begin(0, directory)
	path := "/api/v1/experiments/" + id + "/trials/0/log"
	answer, body := d.get(path + "?limit=28")
	require.Equal(t, "<script>alert(1)</script>gr", body, "a letter is not cut")
	require.Equal(t, "text/plain; charset=utf-8", answer.Header.Get("Content-Type"))
	require.Equal(t, "nosniff", answer.Header.Get("X-Content-Type-Options"))
	_, body = d.get(path + "?from=" + answer.Header.Get("Perennial-Next"))
	require.Equal(t, "ößer", body)
	_, body = d.get(path + "?from=-2")
	require.Equal(t, "er", body)
	_, body = d.get("/api/v1/experiments/" + id + "/trials/1/log")
	require.Empty(t, body, "it has not begun")
}

// message is one of a stream.
type message struct{ id, event, data string }

// listen reads a stream until as many events of the log have come.
func (d desk) listen(path, last string, events int) []message {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.address+"/api/v1"+path, nil)
	require.NoError(d, err)
	request.Header.Set("Accept-Encoding", "gzip")
	if last != "" {
		request.Header.Set("Last-Event-ID", last)
	}
	answer, err := http.DefaultClient.Do(request)
	require.NoError(d, err)
	defer answer.Body.Close()
	require.Empty(d, answer.Header.Get("Content-Encoding"), "a stream that is packed comes late")
	var all []message
	var now message
	lines := bufio.NewScanner(answer.Body)
	for len(all) < events && lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			now.id = value
		case "event":
			now.event = value
		case "data":
			now.data = value
		case "":
			if now.event == "event" {
				all = append(all, now)
			}
			now = message{}
		}
	}
	require.Len(d, all, events, "%v", lines.Err())
	return all
}

func TestAStreamGoesOnWhereItWasCutAndMissesNothing(t *testing.T) {
	d := newDesk(t)
	d.accept(id, 3) // four events with the command
	first := d.listen("/experiments/"+id+"/events", "", 2)
	require.Equal(t, "2", first[1].id)
	rest := d.listen("/experiments/"+id+"/events", "2", 2)
	require.Equal(t, []string{"3", "4"}, []string{rest[0].id, rest[1].id})
	go func() {
		d.report(d.begin(0, ""), 0.5)
	}()
	live := d.listen("/experiments/"+id+"/events", "4", 1)
	require.Contains(t, live[0].data, `"kind":"intermediate"`)
	from := d.listen("/experiments/"+id+"/events?after=3", "", 2)
	require.Equal(t, []string{"4", "5"}, []string{from[0].id, from[1].id})
}

func TestResultsAndTimelineComeInColumns(t *testing.T) {
	d := newDesk(t)
	d.accept(id, 3)
	key := d.begin(1, "")
	value := 0.7
	require.NoError(t, d.Collect(t.Context(), key, []metrics.Record{{Number: 1, Kind: metrics.Final, Value: `{"default": 0.7, "loss": 3}`, Time: time.Now()}}, "1"))
	require.NoError(t, d.Settle(t.Context(), key, record.Settlement{Outcome: record.OutcomeEnded, Ended: &trial.Ended{State: trial.Succeeded, Value: &value}}))
	var columns struct {
		Sequence   []int
		State      []string
		Metric     []*float64
		Parameters map[string][]any
		Metrics    map[string][]*float64
	}
	d.read("/experiments/"+id+"/results", &columns)
	require.Equal(t, []int{0, 1, 2}, columns.Sequence)
	require.Equal(t, []any{0.0, 1.0, 2.0}, columns.Parameters["lr"])
	require.InDelta(t, 0.7, *columns.Metric[1], 1e-9)
	require.Nil(t, columns.Metric[0])
	var line struct{ Sequence, Attempt []int }
	d.read("/experiments/"+id+"/timeline", &line)
	require.Equal(t, []int{1}, line.Sequence)
}

// settle ends a trial with a result.
func (d desk) settle(n int, value float64) {
	d.Helper()
	key := d.begin(n, "")
	require.NoError(d, d.Collect(d.Context(), key, []metrics.Record{{Number: 1, Kind: metrics.Final, Value: fmt.Sprint(value), Time: time.Now()}}, "1"))
	require.NoError(d, d.Observe(d.Context(), key, record.Observation{Phase: "exited", Started: time.Now().Add(-time.Hour), Ended: time.Now(), Exit: &trial.Exit{}}))
	require.NoError(d, d.Settle(d.Context(), key, record.Settlement{Outcome: record.OutcomeEnded, Ended: &trial.Ended{State: trial.Succeeded, Value: &value}}))
}

func TestExperimentsAreComparedByTheCornersOfTheirBest(t *testing.T) {
	d := newDesk(t)
	d.accept(id, 6)
	d.accept("m4w8y3cd", 1)
	for n, value := range []float64{0.5, 0.3, 0.7, 0.7, 0.1} {
		d.settle(n, value)
	}
	var answer struct {
		Experiments []struct {
			ID, Tuner string
			Results   int
			Best      *views.Best
			Course    struct {
				Result               []int
				Seconds, Hours, Best []float64
			}
		}
	}
	d.read("/compare?experiment=m4w8y3cd&experiment="+id, &answer)
	require.Equal(t, "m4w8y3cd", answer.Experiments[0].ID)
	require.Empty(t, answer.Experiments[0].Course.Best)
	one := answer.Experiments[1]
	require.Equal(t, "Random", one.Tuner)
	require.Equal(t, 5, one.Results)
	require.Equal(t, 2, one.Best.Sequence)
	require.Equal(t, []int{1, 3, 5}, one.Course.Result)
	require.Equal(t, []float64{0.5, 0.7, 0.7}, one.Course.Best)
	require.IsNonDecreasing(t, one.Course.Seconds)
	require.IsNonDecreasing(t, one.Course.Hours)
	_, body := d.get(dashboard.APIPath + "/compare?experiment=nothere1")
	require.Contains(t, body, "nothere1")
}

func TestImportanceIsComputedBesideRequestsAndAgainForNewResults(t *testing.T) {
	d := newDesk(t)
	d.accept(id, 13)
	await := func(trials int) {
		require.Eventually(t, func() bool {
			var answer struct {
				Trials     int
				Pending    bool
				Method     string
				Parameters []struct{ Name string }
			}
			d.read("/experiments/"+id+"/importance", &answer)
			require.Contains(t, answer.Method, "random forest")
			return !answer.Pending && answer.Trials == trials && len(answer.Parameters) == 1 && answer.Parameters[0].Name == "lr"
		}, time.Minute, 10*time.Millisecond)
	}
	for n := range 12 {
		d.settle(n, float64(n*n))
	}
	await(12)
	d.settle(12, 1)
	await(13)
	var none struct{ Parameters []any }
	d.read("/experiments/"+id+"/importance?metric=nothing", &none)
	require.Empty(t, none.Parameters)
}

func TestPagesMayLoadAndSendNothingElsewhere(t *testing.T) {
	d := newDesk(t)
	answer, _ := d.get("/e/" + id)
	require.Equal(t, http.StatusOK, answer.StatusCode)
	policy := answer.Header.Get("Content-Security-Policy")
	require.Contains(t, policy, "default-src 'none'")
	require.NotContains(t, policy, "unsafe")
}

func TestTheDocumentOfTheAPINamesEveryRouteAndIsServed(t *testing.T) {
	d := newDesk(t)
	var document struct {
		OpenAPI string `json:"openapi"`
		Paths   map[string]any
	}
	d.read("/openapi.json", &document)
	require.Equal(t, "3.1.0", document.OpenAPI)
	require.Contains(t, document.Paths, "/api/v1/experiments/{experiment}/events")
	page, err := os.ReadFile("../docs/api.md")
	require.NoError(t, err)
	for path := range document.Paths {
		require.Contains(t, string(page), "`"+path+"`")
	}
	text, err := dashboard.OpenAPI("v1")
	require.NoError(t, err)
	require.Contains(t, string(text), "operationId: list-trials")
}

func TestACommandWithTheSameKeyActsOnceAndSaysWhatDoesTheSame(t *testing.T) {
	d := newDesk(t)
	d.accept(id, 0)
	path := "/experiments/" + id + "/commands"
	for range 3 {
		code, body := d.post(path, `{"name": "set-concurrency", "value": 7}`, "Idempotency-Key", "mine-1")
		require.Equal(t, http.StatusOK, code, body)
		require.JSONEq(t, `{"event": 2, "command": "starter update concurrency `+id+` 7"}`, body)
	}
	e, err := d.Experiment(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, 7, e.Concurrency)
	require.EqualValues(t, 2, e.LastEvent)
	code, body := d.post(path, `{"name": "add-trial", "value": {"lr": 0.5}}`)
	require.Equal(t, http.StatusOK, code, body)
	require.Contains(t, body, `starter trials add `+id+` '{\"lr\": 0.5}'`)
}

func TestAWishThatMakesNoSenseIsRefusedWithTheReason(t *testing.T) {
	d := newDesk(t)
	d.accept(id, 2)
	commands, end := "/experiments/"+id+"/commands", "/experiments/"+id+"/trials/%d/end"
	for _, wish := range []struct {
		path, body string
		code       int
		says       string
	}{
		{commands, `{"name": "set-concurrency", "value": -1}`, http.StatusConflict, "concurrency"},
		{commands, `{"name": "add-trial", "value": {"lr": 7}}`, http.StatusUnprocessableEntity, "lr"},
		{commands, `{"name": "remove"}`, http.StatusConflict, "stop it first"},
		{commands, `{"name": "accept", "value": {}}`, http.StatusUnprocessableEntity, "body.name"},
		{commands, `{"name": "pause"`, http.StatusBadRequest, "unexpected end"},
		{commands, `{"name": "pause", "value": "` + strings.Repeat("x", 2<<20) + `"}`, http.StatusRequestEntityTooLarge, "limit"},
		{"/experiments/nothere1/commands", `{"name": "pause"}`, http.StatusNotFound, "nothere1"},
		{fmt.Sprintf(end, 1), `{"how": "kill"}`, http.StatusConflict, "nobody drives"},
		{fmt.Sprintf(end, 0), `{"how": "politely"}`, http.StatusUnprocessableEntity, "body.how"},
	} {
		code, body := d.post(wish.path, wish.body)
		require.Equal(t, wish.code, code, "%.80s: %s", wish.body, body)
		require.Contains(t, body, wish.says)
	}
	code, body := d.post(fmt.Sprintf(end, 0), `{"how": "early-stop"}`)
	require.Equal(t, http.StatusOK, code, body)
	require.Contains(t, body, "starter kill "+id+" 0 --early-stop")
}
