package endtoend

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// grafanaQueries are what the panels and the choices of the dashboard ask Prometheus.
func grafanaQueries(t *testing.T) (queries []string) {
	content, err := os.ReadFile(filepath.Join(Root(), "deploy", "grafana-dashboard.json"))
	require.NoError(t, err)
	var dashboard struct {
		Panels     []struct{ Targets []struct{ Expr string } }
		Templating struct{ List []struct{ Definition string } }
	}
	require.NoError(t, json.Unmarshal(content, &dashboard))
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries = append(queries, target.Expr)
		}
	}
	for _, choice := range dashboard.Templating.List {
		queries = append(queries, choice.Definition)
	}
	return queries
}

func TestTheGrafanaDashboardAsksForNothingThatAHostDoesNotServe(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	plan := endless(3, 2)
	plan.Steps = "PERENNIAL_SEQUENCE == 0 ? 1 : 1000000"
	run := h.Follow(h.Experiment(plan))
	id := run.ID()
	h.AwaitState(id, 0, "SUCCEEDED", 1)
	h.Must("pause", id)
	served := ""
	h.Await("a reason to wait", func() bool {
		served = h.metrics()
		return regexp.MustCompile(`(?m)^perennial_experiment_waiting\{`).MatchString(served)
	})
	named := regexp.MustCompile(`\b(?:perennial|temporal|go|process)_\w+`)
	asked := 0
	for _, query := range grafanaQueries(t) {
		for _, metric := range named.FindAllString(query, -1) {
			asked++
			require.Regexp(t, `(?m)^`+metric+`[ {]`, served, query)
		}
	}
	require.Greater(t, asked, 15)
	h.Must("stop", id)
	require.Equal(t, "STOPPED", run.Finished(Patience).Status)
}
