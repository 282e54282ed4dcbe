package webui

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/testsuite/machine"
)

func TestNNIsOwnPagesShowAnExperiment(t *testing.T) {
	t.Parallel()
	if BrowserProgram() == "" {
		endtoend.Skip(t, "no Chromium is installed: apt-get install chromium")
	}
	python := filepath.Dir(machine.PythonWithNNI(t, "3.0"))
	home := endtoend.NewHome(t).With("PATH=" + python + ":" + os.Getenv("PATH"))
	port := fmt.Sprint(machine.FreePorts(t, 1)[0])
	home.Must("run", home.Experiment(endtoend.Plan{Trials: 3, Concurrency: 1, Script: quick}), "--port", port, "--nni-open")
	browser := OpenBrowser(t.Context(), 1400, 1000)
	t.Cleanup(browser.Close)
	address := "http://127.0.0.1:" + port
	require.NoError(t, browser.Open(address+"/oview", "Overview", "endtoend", "DONE", "Succeeded"))
	require.NoError(t, browser.Open(address+"/detail", "Default metric", "Trial jobs", "SUCCEEDED"))
	home.Must("run", home.Experiment(endtoend.Plan{Trials: 2, Concurrency: 1, Script: quick}), "--port", port, "--nni-open")
	id := newest(t, home)
	require.NoError(t, browser.Open(address+"/oview", "Overview", id, "DONE"))
}

// newest is the id of the experiment that began last.
func newest(t *testing.T, home *endtoend.Home) string {
	var all []struct {
		ID string `json:"id"`
	}
	require.NoError(t, json.Unmarshal([]byte(home.Must("ls", "--output", "json")), &all))
	return all[0].ID
}
