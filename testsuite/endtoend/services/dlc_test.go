package services

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/dlclab"
	"github.com/perennial-ml/perennial/testsuite/endtoend"
)

// filesWith are the files below a directory that hold a text.
func filesWith(t *testing.T, directory, text string) (found []string) {
	require.NoError(t, filepath.WalkDir(directory, func(path string, _ os.DirEntry, _ error) error {
		content, _ := os.ReadFile(path) // what is gone by now, as databases' files go, holds nothing
		if strings.Contains(string(content), text) {
			found = append(found, path)
		}
		return nil
	}))
	return found
}

// commandsWith are the command lines on this machine that hold a text.
func commandsWith(t *testing.T, text string) (found []string) {
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, path := range paths {
		content, _ := os.ReadFile(path) // it may have ended
		if strings.Contains(string(content), text) {
			found = append(found, string(content))
		}
	}
	return found
}

func TestTrialsOnDLCOutliveTheirHostAndAreStopped(t *testing.T) {
	t.Parallel()
	service, h := dlclab.New(t), endtoend.NewHome(t)
	run := h.Follow(h.Experiment(endtoend.Plan{Trials: 4, Concurrency: 2, Steps: "10", Pause: "0.3", Code: "code", Platform: service.Section()}))
	for sequence := range 2 {
		h.Await("another trial in the ledger", func() bool { return len(h.Ledger()) > sequence })
		h.KillAndAwait(endtoend.Host)
	}
	require.Empty(t, commandsWith(t, dlclab.KeySecret))
	require.Equal(t, "DONE", run.Finished(3*endtoend.Patience).Status)
	h.RequireExactlyOnce(run.ID(), 4, nil)
	require.Equal(t, 4, service.Calls("CreateJob"))
	require.Contains(t, h.Must("trials", run.ID(), "--output", "json"), "pai-dlc.console.aliyun.com", "where a person can look")
	require.Equal(t, []string{filepath.Join(h.Dir, "experiments", run.ID(), "secrets")}, filesWith(t, h.Dir, dlclab.KeySecret))
	require.Empty(t, filesWith(t, service.Here, dlclab.KeySecret))

	run = h.Follow(h.Experiment(endtoend.Plan{Trials: 1, Concurrency: 1, Steps: "4000", Pause: "0.3", Code: "code", Platform: service.Section() + "  reuseMode: true\n"}))
	h.AwaitState(run.ID(), 0, "RUNNING", 1)
	h.Must("stop", run.ID())
	h.AwaitFor(endtoend.Patience, "no job that runs or waits", func() bool {
		states := service.States()
		return states["Running"]+states["Queuing"] == 0
	})
}
