package webui

import (
	"bytes"
	"image/png"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
)

// page opens a page of the Web UI by a fresh link and requires what a person
// should read there.
func (w *window) page(browser *Browser, workflow string, texts ...string) {
	w.t.Helper()
	temporal := w.home.Show(w.id).Temporal
	require.NoError(w.t, browser.Open(temporal.WebUI, w.workflow()))
	if workflow != w.workflow() {
		host, _, _ := strings.Cut(temporal.WebUI, "/"+w.workflow())
		address := host + "/namespaces/" + temporal.Namespace + "/workflows/" + strings.ReplaceAll(workflow, "/", "%2F")
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
	w.page(browser, w.workflow(), "RUNNING", "Round • start trials 0, 1; wait for news (2 under way")
	require.NoError(t, browser.Click("User Metadata"))
	require.NoError(t, browser.Await("endtoend (experiment "+w.id+")", "0 of 3 done; 2 under way", "Its trials", "ends every running trial EARLY_STOPPED"))
	w.page(browser, w.trial(0), "RUNNING", "run attempt 1 on local")
	w.signal(w.workflow(), "early-stop", nil)
	w.status("DONE")
	require.NoError(t, w.temporal.GetWorkflow(t.Context(), w.workflow(), "").Get(t.Context(), nil))
	w.page(browser, w.workflow(), "COMPLETED", "DONE: 2 of 3 done")
	w.page(browser, w.trial(0), "COMPLETED", `"state": "EARLY_STOPPED"`)
}

// failing is a trial that fails where its number is odd.
const failing = `#!/bin/sh
exit $(( PERENNIAL_SEQUENCE % 2 * 3 ))
`

func TestATrialThatFailedLooksLikeThatAndItsWorkflowIsNoFailure(t *testing.T) {
	t.Parallel()
	if BrowserProgram() == "" {
		endtoend.Skip(t, "no Chromium is installed: apt-get install chromium")
	}
	w := begin(t, endtoend.NewHome(t), endtoend.Plan{Trials: 2, Concurrency: 1, Script: failing})
	w.status("DONE")
	require.NoError(t, w.temporal.GetWorkflow(t.Context(), w.trial(1), "").Get(t.Context(), nil), "the workflow completed")
	w.found("ExperimentId = '"+w.id+"' AND TrialStatus = 'FAILED' AND ExecutionStatus = 'Completed'", 1)
	require.Equal(t, "FAILED: the command exited with code 3", strings.Split(w.details(w.trial(1)), "\n")[0])
	browser := OpenBrowser(t.Context(), 1500, 1000)
	defer browser.Close()
	w.page(browser, w.trial(1), "COMPLETED", "the command exited with code 3", "RunAttempt • run attempt 1 on local")
	require.Eventually(t, func() bool { return red(t, browser) > 1000 }, patience, time.Second, "its bar is red")
	w.page(browser, w.trial(0), "COMPLETED", "RunAttempt • run attempt 1 on local")
	require.Less(t, red(t, browser), 1000)
}

// red is how many points of the page are red, as failures are.
func red(t *testing.T, browser *Browser) (points int) {
	picture, err := browser.Picture()
	require.NoError(t, err)
	page, err := png.Decode(bytes.NewReader(picture))
	require.NoError(t, err)
	for y := range page.Bounds().Max.Y {
		for x := range page.Bounds().Max.X {
			if r, g, b, _ := page.At(x, y).RGBA(); r>>8 > 180 && g>>8 < 80 && b>>8 < 80 {
				points++
			}
		}
	}
	return points
}
