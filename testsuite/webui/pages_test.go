package webui

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
)

// page opens a page of the Web UI by a fresh link and requires what a person
// should read there.
func (w *window) page(browser *Browser, workflow string, texts ...string) {
	w.t.Helper()
	link := w.home.Show(w.id).Temporal.WebUI
	require.NoError(w.t, browser.Open(link, w.workflow()))
	if workflow != w.workflow() {
		address := strings.SplitN(link, "?", 2)[0]
		address = strings.TrimSuffix(address, w.workflow()) + strings.ReplaceAll(workflow, "/", "%2F")
		require.NoError(w.t, browser.Open(address, workflow))
	}
	require.NoError(w.t, browser.Await(texts...))
}

func TestThePagesOfARunningAndOfAFinishedExperimentTellItsStory(t *testing.T) {
	t.Parallel()
	if BrowserProgram() == "" {
		endtoend.Skip(t, "no Chromium is installed: apt-get install chromium")
	}
	w := begin(t, endtoend.NewHome(t), endtoend.Plan{Trials: 3, Concurrency: 2, Script: endless})
	w.home.AwaitRunning(w.id, 2)
	browser := OpenBrowser(t.Context(), 1500, 1000)
	defer browser.Close()
	w.page(browser, w.workflow(), "RUNNING", "Round • wait for news (2 under way", "trial 1 ("+w.home.Trial(w.id, 1).ID+")")
	require.NoError(t, browser.Click("User Metadata"))
	require.NoError(t, browser.Await("endtoend (experiment "+w.id+")", "0 of 3 done; 2 under way", "ends every running trial EARLY_STOPPED"))
	w.page(browser, w.trial(0), "RUNNING", "run attempt 1 on local")
	w.signal(w.workflow(), "early-stop", nil)
	w.status("DONE")
	require.NoError(t, w.temporal.GetWorkflow(t.Context(), w.workflow(), "").Get(t.Context(), nil))
	w.page(browser, w.workflow(), "COMPLETED", "DONE: 2 of 3 done")
	w.page(browser, w.trial(0), "COMPLETED", `"state": "EARLY_STOPPED"`)
}
