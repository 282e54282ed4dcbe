package aml

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/service"
	"github.com/perennial-ml/perennial/platforms/internal/verbs"
	"github.com/perennial-ml/perennial/trial"
)

// What a workspace takes of a run, by MLflow's API: names of metrics in all, rows and
// parameters in a call, and how long a name and a parameter's value may be.
const (
	namesKept   = 50
	rowsAtOnce  = 250
	paramsKept  = 100
	nameLength  = 250
	valueLength = 500
)

const (
	// waiting is how many records of a run at most wait to be shown.
	waiting = 1000
	// showPatience is what a call may take, and showPause how long none is made after one
	// that failed: nothing waits for the studio.
	showPatience = 5 * time.Second
	showPause    = time.Minute
	// defaultName is the metric that is a number and no object, and finalName the result.
	defaultName = "default"
	finalName   = "final"
)

// studio is what has been shown of a run in the workspace's studio, where people look.
// What cannot be shown there now is shown later or, with this process, never: what counts
// is on record here.
type studio struct {
	hidden     []metrics.Record // yet
	names      map[string]bool
	parameters bool // have been shown
}

func (s *studio) add(records []metrics.Record) {
	s.hidden = append(s.hidden, records...)
	s.hidden = s.hidden[max(0, len(s.hidden)-waiting):]
}

// pause is when a section's metrics are shown again.
type pause struct {
	mutex sync.Mutex
	until time.Time
}

func (p *pause) over() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return !time.Now().Before(p.until)
}

func (p *pause) begin() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.until = time.Now().Add(showPause)
}

// row is a metric of MLflow's.
type row struct {
	Key   string  `json:"key"`
	Value float64 `json:"value"`
	Time  int64   `json:"timestamp"` // milliseconds
	Step  int64   `json:"step"`
}

// param is a parameter of MLflow's.
type param struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// batch is what one call shows of a run.
type batch struct {
	Run        string  `json:"run_id"`
	Metrics    []row   `json:"metrics"`
	Parameters []param `json:"params"`
}

// show has the studio show what a run has reported, and first its parameters, as far as
// that takes it.
func (w workspace) show(ctx context.Context, run verbs.Run, host string, s *studio) {
	if len(s.hidden) == 0 && s.parameters || !w.shown.over() {
		return
	}
	all := batch{Run: run.Name}
	if !s.parameters {
		all.Parameters = parametersIn(run.Directory)
	}
	for _, record := range s.hidden {
		all.Metrics = append(all.Metrics, s.rows(record)...)
	}
	for {
		now := all
		now.Metrics = all.Metrics[:min(rowsAtOnce, len(all.Metrics))]
		err := w.logBatch(ctx, host, now)
		if err != nil && platforms.CodeOf(err) != platforms.Invalid { // what is refused as such always will be
			w.shown.begin()
			return
		}
		s.parameters = true
		all.Metrics, all.Parameters = all.Metrics[len(now.Metrics):], nil
		if len(all.Metrics) == 0 {
			s.hidden = nil
			return
		}
	}
}

// rows are a record as metrics, without those for whose names there is no room.
func (s *studio) rows(record metrics.Record) (rows []row) {
	values := numbers(record)
	if s.names == nil {
		s.names = map[string]bool{}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !s.names[name] && name != finalName && len(s.names) == namesKept-1 { // there is room for the result
			continue
		}
		if name != finalName {
			s.names[name] = true
		}
		rows = append(rows, row{name, values[name], record.Time.UnixMilli(), record.Step})
	}
	return rows
}

// strange is what MLflow has in no name.
var strange = regexp.MustCompile(`[^\w\-. /]`)

func nameOf(text string) string {
	name := strange.ReplaceAllString(text, "_")
	return name[:min(nameLength, len(name))]
}

// numbers are a record's finite ones, by their names in the studio.
func numbers(record metrics.Record) map[string]float64 {
	found := map[string]float64{}
	var object map[string]any
	_ = json.Unmarshal(record.Object(), &object) // nil where it is a number
	for key, value := range object {
		if number, is := value.(float64); is {
			found[nameOf(key)] = number
		}
	}
	if number, is := record.Default(); is {
		found[defaultName] = number
	}
	if record.Kind != metrics.Final {
		return found
	}
	final := map[string]float64{}
	for key, value := range found {
		if key == defaultName {
			final[finalName] = value
		} else {
			final[nameOf(finalName+"."+key)] = value
		}
	}
	return final
}

// parametersIn reads those of a run, none where that is not possible.
func parametersIn(directory string) []param {
	var file struct {
		Parameters map[string]json.RawMessage `json:"parameters"`
	}
	content, err := os.ReadFile(filepath.Join(directory, trial.ParameterFile))
	if err != nil || json.Unmarshal(content, &file) != nil {
		return nil
	}
	var found []param
	for _, name := range slices.Sorted(maps.Keys(file.Parameters)) {
		value := strings.ToValidUTF8(string(file.Parameters[name]), "")
		found = append(found, param{nameOf(name), strings.ToValidUTF8(value[:min(valueLength, len(value))], "")})
	}
	return found[:min(paramsKept, len(found))]
}

func (c *client) logBatch(ctx context.Context, host string, shown batch) error {
	ctx, cancel := context.WithTimeout(ctx, showPatience)
	defer cancel()
	token, err := c.credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{c.audience()}})
	if err != nil {
		return fault("show", err)
	}
	content, err := json.Marshal(shown)
	if err != nil {
		return platforms.Errorf(platforms.Invalid, "show", "%w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, host+"/mlflow/v1.0"+c.path()+"/api/2.0/mlflow/runs/log-batch", bytes.NewReader(content))
	if err != nil {
		return platforms.Errorf(platforms.Invalid, "show", "%w", err)
	}
	request.Header = http.Header{"Authorization": {"Bearer " + token.Token}, "Content-Type": {"application/json"}}
	answer, err := c.http.Do(request)
	if err != nil {
		return service.Unreachable("show", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		return service.Fault("show", answer, "", renew)
	}
	return nil
}
