package webui

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
)

// desk is an experiment on the dashboard.
type desk struct {
	t       testing.TB
	home    *endtoend.Home
	id      string
	browser *Browser
}

// sit starts an experiment and opens its page by the link that a person gets.
func sit(t testing.TB, plan endtoend.Plan) *desk {
	t.Helper()
	if BrowserProgram() == "" {
		endtoend.Skip(t, "no Chromium is installed: apt-get install chromium")
	}
	d := &desk{t: t, home: endtoend.NewHome(t)}
	d.id = d.home.Follow(d.home.Experiment(plan)).ID()
	d.browser = OpenBrowser(t.Context(), 1400, 1000)
	t.Cleanup(d.browser.Close)
	return d
}

func (d *desk) link(page string) string {
	d.t.Helper()
	return strings.TrimSpace(d.home.Must("dashboard", page, "--print"))
}

func (d *desk) open(address string, texts ...string) {
	d.t.Helper()
	require.NoError(d.t, d.browser.Open(address, texts...))
}

func (d *desk) sees(texts ...string) {
	d.t.Helper()
	require.NoError(d.t, d.browser.Await(texts...))
}

func (d *desk) clicks(text string, then ...string) {
	d.t.Helper()
	require.NoError(d.t, d.browser.Click(text))
	d.sees(then...)
}

// says waits until a script comes to a text.
func (d *desk) says(script, text string) {
	d.t.Helper()
	var last string
	d.home.AwaitFor(patience, script+" to be "+text, func() bool {
		said, err := d.browser.Run(script)
		last = said
		return err == nil && strings.Contains(said, text)
	})
	require.Contains(d.t, last, text)
}

// closes waits until a question was answered and done.
func (d *desk) closes() {
	d.t.Helper()
	var left string
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(100 * time.Millisecond) {
		var err error
		left, err = d.browser.Run("[...document.querySelectorAll('dialog')].map(d => d.innerText)")
		require.NoError(d.t, err)
		if left == "" {
			return
		}
	}
	require.Empty(d.t, left)
}

// markup is a trial whose output is a page, and steers terminals; it reports, waits to be
// let go, and then fails where its number is odd.
const markup = `#!/bin/sh
printf '<img src=x onerror="window.owned=1"><script>window.owned=1</script>\033[31mred\033[0m \033]0;owned\007end\n'
echo "perennial: intermediate 0.25"
while [ ! -e '%s' ]; do sleep 0.1; done
[ $(( PERENNIAL_SEQUENCE %% 2 )) = 0 ] || { echo "the GPU has left" >&2; exit 3; }
echo "perennial: intermediate 0.5"
echo "perennial: final {\"default\": 0.$(( 50 + PERENNIAL_SEQUENCE )), \"loss\": 0.125}"
`

// TestTheStoryOfAnExperimentIsToldByTheDashboard clicks through an experiment while it
// runs, while its host is dead, and when it is done, in a page that is never loaded again.
func TestTheStoryOfAnExperimentIsToldByTheDashboard(t *testing.T) {
	t.Parallel()
	gate := t.TempDir() + "/go"
	d := sit(t, endtoend.Plan{Trials: 4, Concurrency: 2, Script: fmt.Sprintf(markup, gate)})
	d.home.AwaitRunning(d.id, 2)
	asked, err := d.browser.Asked()
	require.NoError(t, err)
	link := d.link(d.id)
	d.open(link, "endtoend", "running", "0 of 4", "Best so far", "Slots")
	d.says("document.title", "● 0/4 endtoend")
	d.says("location.search", "") // the token has left the address
	_, err = d.browser.Run("window.sameDocument = 'yes'")
	require.NoError(t, err)

	d.clicks("Experiments", "2 running")
	d.clicks("endtoend", "Overview")
	d.clicks("Trials", "0.25 step 0", d.home.Trial(d.id, 1).ID)
	d.clicks("1", "Trial 1", "<script>window.owned=1</script>red end", "How it ended")
	d.says("[...document.querySelectorAll('.output .ansi-red')].map(e => e.textContent)", "red")
	d.says("document.title", "trial 1: running")

	d.home.KillAndAwait(endtoend.Host)
	d.sees("The host does not answer")
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	d.home.Must("ls") // the next command brings a host
	d.sees("the command exited with code 3", "live")
	d.clicks("stderr", "the GPU has left")
	d.clicks(d.id, "done", "4 of 4", "2 failed", "Best trial", "0.52")
	d.says("document.title", "✓ 4/4 endtoend")
	d.clicks("Curves", "Intermediate results")
	d.clicks("Setup", "Search space", "starter export "+d.id)
	d.says("window.sameDocument", "yes")
	d.says("window.owned", "undefined")

	origin, err := url.Parse(link)
	require.NoError(t, err)
	for _, address := range asked() {
		at, err := url.Parse(address)
		require.NoError(t, err)
		require.True(t, at.Host == origin.Host || at.Scheme == "data" || at.Scheme == "blob", address)
	}
	require.Greater(t, len(asked()), 10)
}

// TestTheDashboardsTableHasRoomForWhateverThereIs sorts, filters and searches, on the
// server and in a window that is as narrow as a telephone's.
func TestTheDashboardsTableHasRoomForWhateverThereIs(t *testing.T) {
	t.Parallel()
	d := sit(t, endtoend.Plan{Trials: 30, Concurrency: 5, Script: failing})
	d.home.Await("DONE", func() bool { return d.home.Show(d.id).Status == "DONE" })
	page, _, _ := strings.Cut(d.link(d.id), "?")
	d.open(d.link(d.id), "15 failed")
	d.open(page+"/trials", "30 trials")
	const first = "document.querySelector('.tr .n')?.textContent"
	d.says(first, "29")
	d.clicks("Trial ↑", "30 trials")
	d.says(first, "0")
	require.NoError(t, clickStarting(d.browser, "failed"))
	d.sees("15 trials found", "the command exited with code 3")
	d.says(first, "1")
	_, err := d.browser.Run(`(() => { const box = document.querySelector('main input[type=search]');
		box.value = '` + d.home.Trial(d.id, 7).ID + `'; box.dispatchEvent(new Event('input', {bubbles: true})) })()`)
	require.NoError(t, err)
	d.sees("1 trial found")
	d.says(first, "7")
	narrow := OpenBrowser(t.Context(), 500, 900)
	defer narrow.Close()
	require.NoError(t, narrow.Open(d.link(d.id), "15 failed", "Parameters and results"))
	_, err = narrow.Run("document.documentElement.style.width = '400px'")
	require.NoError(t, err)
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		wide, err := narrow.Run("[...document.querySelectorAll('main, .card, .tile, nav')].filter(e => e.getBoundingClientRect().right > 401).length")
		require.NoError(t, err)
		if wide == "0" {
			break
		}
		require.Less(t, time.Since(begun), patience, "something does not fit into 400 points: %s", wide)
	}
}

// clickStarting clicks the first button whose text begins so.
func clickStarting(browser *Browser, text string) error {
	_, err := browser.Run(fmt.Sprintf(`[...document.querySelectorAll('button')].find(b => b.innerText.trim().startsWith(%q)).click()`, text))
	return err
}

// fills writes into the field with this label.
func (d *desk) fills(label, text string) {
	d.t.Helper()
	_, err := d.browser.Run(fmt.Sprintf(`(() => { const field = [...document.querySelectorAll('label.field')].find(l => l.innerText.startsWith(%q)).querySelector('input, textarea');
		field.value = %q; field.dispatchEvent(new Event('input', {bubbles: true})) })()`, label, text))
	require.NoError(d.t, err)
}

// TestAnExperimentIsDrivenByClicksAlone changes limits, adds a trial, ends two, pauses, goes
// on, stops and goes on again; every question shows the command that does the same.
func TestAnExperimentIsDrivenByClicksAlone(t *testing.T) {
	t.Parallel()
	d := sit(t, endtoend.Plan{Trials: 6, Concurrency: 2, Script: endless})
	d.home.AwaitRunning(d.id, 2)
	d.open(d.link(d.id), "0 of 6")
	d.clicks("Limits", "Trials at a time", "Trials in all")
	d.fills("Trials at a time", "3")
	d.fills("Trials in all", "7")
	d.sees("starter update concurrency "+d.id+" 3", "starter update max-trials "+d.id+" 7")
	d.clicks("Change")
	d.closes()
	d.sees("0 of 7", "3 running")
	d.clicks("Add a trial", "the tuner is not told its result")
	d.fills("Parameters", `{"x": 7, "n": 5}`)
	d.sees("starter trials add " + d.id)
	d.clicks("Run it", "x is 7: want a number from 0 to 1")
	d.fills("Parameters", `{"x": 0.125, "n": 5}`)
	d.sees(`'{"x":0.125,"n":5}'`)
	d.clicks("Run it")
	d.closes()
	page, _, _ := strings.Cut(d.link(d.id), "?")
	d.open(page+"/t/0", "Trial 0", "running")
	d.clicks("Kill", "Kill trial 0?", "starter kill "+d.id+" 0", "This cannot be taken back")
	d.clicks("Kill it")
	d.closes()
	d.sees("cancelled", "killed by hand")
	d.open(page+"/t/1", "Trial 1", "running")
	d.clicks("Stop early", "Stop trial 1 early?")
	d.clicks("Stop it early")
	d.closes()
	d.sees("stopped early", "early-stopped by hand")
	require.Equal(t, "EARLY_STOPPED", d.home.Trial(d.id, 1).State)
	d.open(page, "Pause")
	d.clicks("Pause", "Running trials go on to their end")
	d.clickLast("Pause")
	d.closes()
	d.sees("paused", "Resume")
	require.True(t, d.home.Show(d.id).Paused)
	d.clicks("Resume", "Go on?")
	d.clickLast("Resume")
	d.closes()
	d.sees("Pause", "Stop")
	d.clicks("Stop", "starter stop "+d.id)
	d.clicks("Stop it")
	d.closes()
	d.sees("stopped", "Resume")
	require.Equal(t, "STOPPED", d.home.Show(d.id).Status)
	d.home.RequireNothingLeft()
}

// clickLast clicks the last button that is called so: the one of the question.
func (d *desk) clickLast(text string) {
	d.t.Helper()
	_, err := d.browser.Run(fmt.Sprintf(`[...document.querySelectorAll('button')].filter(b => b.innerText.trim() === %q).at(-1).click()`, text))
	require.NoError(d.t, err)
}

// TestExperimentsAreComparedAndDeletedFromTheList chooses two that are done by their boxes.
func TestExperimentsAreComparedAndDeletedFromTheList(t *testing.T) {
	t.Parallel()
	d := sit(t, endtoend.Plan{Trials: 4, Concurrency: 2, Script: quick})
	other := d.home.Follow(d.home.Experiment(endtoend.Plan{Trials: 6, Concurrency: 2, Script: quick})).ID()
	for _, id := range []string{d.id, other} {
		d.home.Await(id+" DONE", func() bool { return d.home.Show(id).Status == "DONE" })
	}
	d.open(d.link(""), d.id, other)
	d.chooses(d.id, "1 chosen")
	d.chooses(other, "2 chosen")
	d.clicks("Compare", "2 experiments", "Best so far", "0.93", "0.95", "Until its best")
	d.says("document.querySelector('.chart').getAttribute('aria-label')", "0.93")
	d.clicks("by hour of work")
	d.clicks("Experiments", other)
	d.chooses(other, "1 chosen")
	d.clicks("Delete", "This cannot be taken back", "starter rm "+other)
	d.clicks("Delete for ever")
	d.closes()
	d.says("document.querySelectorAll('.experiment').length", "1")
	require.NotContains(t, d.home.Must("ls"), other)
}

// twoNumbers is a trial whose result depends on x alone, and costs what n says.
const twoNumbers = `#!/bin/sh
python3 - "$PERENNIAL_PARAMETERS" <<'END'
import json, sys
p = json.load(open(sys.argv[1]))
print("perennial: final", json.dumps({"default": 1 - (p["x"] - 0.6) ** 2, "cost": p["n"] + p["x"]}))
END
`

// TestAnalysisTellsWhatResultsDependOn reads importance, slice, contour and Pareto front.
func TestAnalysisTellsWhatResultsDependOn(t *testing.T) {
	t.Parallel()
	d := sit(t, endtoend.Plan{Trials: 24, Concurrency: 4, Script: twoNumbers})
	d.home.Await("DONE", func() bool { return d.home.Show(d.id).Status == "DONE" })
	page, _, _ := strings.Cut(d.link(d.id), "?")
	d.open(d.link(d.id), "Best trial")
	d.open(page+"/analysis", "From 24 results", "On the Pareto front")
	d.says("document.querySelector('.bars li').innerText", "x")
	d.clicks("How this is found, and what it cannot tell", "Permutation importance on a random forest")
	d.says("document.querySelectorAll('.chart')[0].getAttribute('aria-label')", "24 trials by x")
	d.selects("Result", "cost")
	d.says("document.querySelectorAll('.chart')[0].getAttribute('aria-label') == 'The cost of 24 trials by ' + document.querySelector('.bars button').innerText", "true")
	d.selects("Result", "")
	d.says("document.querySelectorAll('.chart')[0].getAttribute('aria-label')", "24 trials by x")
	d.selects("against", "n")
	d.says("document.querySelectorAll('.chart')[0].getAttribute('aria-label')", "24 trials by x and n")
	d.selects("Result", "cost")
	d.says("document.querySelectorAll('.chart')[0].getAttribute('aria-label')", "The cost of 24 trials by x and n")
}

// TestAnExperimentIsOneFileThatAsksNobody opens an export from the disk while no host is
// there: every page of the experiment is in it, and nothing is asked for.
func TestAnExperimentIsOneFileThatAsksNobody(t *testing.T) {
	t.Parallel()
	d := sit(t, endtoend.Plan{Trials: 24, Concurrency: 4, Script: twoNumbers})
	d.home.Await("DONE", func() bool { return d.home.Show(d.id).Status == "DONE" })
	file := t.TempDir() + "/experiment.html"
	d.home.Must("export", d.id, "--format", "html", "--file", file)
	d.home.Must("serve", "--stop")
	asked, err := d.browser.Asked()
	require.NoError(t, err)
	d.open("file://"+file, "endtoend", "as of", "24 of 24", "Best trial", "Slots")
	d.clicks("Analysis", "From 24 results", "On the Pareto front")
	d.clicks("Trials", "24 trials")
	d.clicks("Metric", "24 trials")
	d.says("document.querySelector('.tr .id')?.textContent", d.home.Show(d.id).Best.ID)
	_, err = d.browser.Run("document.querySelector('.tr a').click()")
	require.NoError(t, err)
	d.sees("How it ended", "cost", d.home.Show(d.id).Best.ID)
	d.clicks(d.id, "Best trial")
	d.clicks("Curves", "No trial has reported")
	d.clicks("Setup", "Search space")
	for _, act := range []string{"Limits", "Add a trial"} {
		require.Error(t, d.browser.Click(act), "nobody is there to do it")
	}
	for _, address := range asked() {
		require.True(t, strings.HasPrefix(address, "file://"+file) || strings.HasPrefix(address, "data:"), address)
	}
}

// selects takes one of many.
func (d *desk) selects(label, value string) {
	d.t.Helper()
	_, err := d.browser.Run(fmt.Sprintf(`(() => { const field = document.querySelector('select[aria-label=%q]');
		field.value = %q; field.dispatchEvent(new Event('change', {bubbles: true})) })()`, label, value))
	require.NoError(d.t, err)
}

// chooses ticks the box of an experiment on the list.
func (d *desk) chooses(id string, then ...string) {
	d.t.Helper()
	_, err := d.browser.Run(fmt.Sprintf("document.querySelector('input[aria-label$=%q]').click()", id))
	require.NoError(d.t, err)
	d.sees(then...)
}

func TestAnotherPageReadsNothingOfTheDashboardWithSomebodysCookie(t *testing.T) {
	t.Parallel()
	d := sit(t, endtoend.Plan{Trials: 1, Concurrency: 1, Script: quick})
	link := d.link(d.id)
	d.open(link, "endtoend")
	address, _, _ := strings.Cut(link, "/e/")
	elsewhere := startPage(t, `<!doctype html><title>elsewhere</title>elsewhere`)
	d.open(elsewhere, "elsewhere")
	for _, script := range []string{
		`fetch('%s/api/v1/experiments', {credentials: 'include'}).then(a => 'read ' + a.status, e => 'refused')`,
		`fetch('%s/api/v1/experiments', {credentials: 'include', mode: 'no-cors'}).then(a => a.type === 'opaque' ? 'refused' : 'read', e => 'refused')`,
		`new Promise(done => { const s = document.createElement('script'); s.src = '%s/api/v1/experiments'; s.onload = () => done('read'); s.onerror = () => done('refused'); document.body.append(s) })`,
		`new Promise(done => { const s = new EventSource('%s/api/v1/changes', {withCredentials: true}); s.onopen = () => done('read'); s.onerror = () => done('refused') })`,
	} {
		_, err := d.browser.Run("(window.said = '', " + fmt.Sprintf(script, address) + ".then(said => window.said = said), '')")
		require.NoError(t, err)
		d.says("window.said", "refused")
	}
}

// startPage serves a page at another port of this machine: the same site to a browser, and
// another origin.
func startPage(t testing.TB, page string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		io.WriteString(w, page)
	}))
	t.Cleanup(server.Close)
	return server.URL
}
