package webui

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
)

// axe is where the build of the pages has put axe-core, which knows what people who use a
// screen reader or a keyboard stumble over.
var axe = filepath.Join("..", "..", "dashboard", "web", "node_modules", "axe-core", "axe.min.js")

// finds are the serious and critical things that axe finds on the page, each with where.
func (d *desk) finds(rules string) []string {
	d.t.Helper()
	_, err := d.browser.Run("(() => {" + rules + "\nwindow.found = '' })()")
	require.NoError(d.t, err)
	_, err = d.browser.Run(`axe.run(document, {resultTypes: ['violations']}).then(r => window.found = JSON.stringify(r.violations
		.filter(v => v.impact === 'serious' || v.impact === 'critical')
		.flatMap(v => v.nodes.map(n => v.id + ': ' + n.html.slice(0, 160) + ' ' + (n.any[0]?.message ?? n.failureSummary)))), e => window.found = JSON.stringify([String(e)])) && ''`)
	require.NoError(d.t, err)
	d.says("window.found", "]")
	text, err := d.browser.Run("window.found")
	require.NoError(d.t, err)
	var found []string
	require.NoError(d.t, json.Unmarshal([]byte(text), &found))
	return found
}

// TestAxeFindsNothingSeriousOnAnyPage looks at each page, light and dark, of an experiment
// that has trials of several kinds.
func TestAxeFindsNothingSeriousOnAnyPage(t *testing.T) {
	t.Parallel()
	d := sit(t, endtoend.Plan{Trials: 12, Concurrency: 4, Script: failing})
	d.home.Await("DONE", func() bool { return d.home.Show(d.id).Status == "DONE" })
	rules, err := os.ReadFile(axe)
	require.NoError(t, err, "dashboard/web/build.sh brings it")
	page, _, _ := strings.Cut(d.link(d.id), "?")
	host, _, _ := strings.Cut(page, "/e/")
	d.open(d.link(d.id), "Best so far")
	for _, theme := range []string{"light", "dark"} {
		_, err := d.browser.Run(`localStorage.setItem('theme', '"` + theme + `"')`)
		require.NoError(t, err)
		for address, text := range map[string]string{
			host + "/": d.id, page: "Slots", page + "/analysis": "Results across parameters", page + "/curves": "trial", page + "/trials": "12 trials",
			page + "/setup": "Search space", page + "/t/1": "How it ended", host + "/gpus": "GPUs", host + "/compare?experiment=" + d.id: "Until its best",
		} {
			d.open(address, text, "live")
			assert.Empty(t, d.finds(string(rules)), "%s %s", theme, address)
		}
	}
	d.open(page, "Limits")
	d.clicks("Limits", "Trials at a time")
	assert.Empty(t, d.finds(string(rules)), "a question")
}
