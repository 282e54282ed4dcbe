package services

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/dltslab"
	"github.com/perennial-ml/perennial/testsuite/endtoend"
)

// onDLTS is a section as NNI's users write it, with what DLTS gave them in variables.
func onDLTS(service *dltslab.Service) string {
	return fmt.Sprintf(`  platform: dlts
  dashboard: %s/
  dockerImage: msranni/nni:latest
  trialGpuNumber: 1
  localStorageMountPoint: %s
  containerStorageMountPoint: %s
`, service.URL, service.Here, service.There)
}

func TestTrialsOnDLTSOutliveTheirHostAndAreStopped(t *testing.T) {
	t.Parallel()
	service, h := dltslab.New(t), endtoend.NewHome(t)
	h = h.With("DLWS_VC_NAME=" + dltslab.Team).With("DLWS_USER_EMAIL=" + dltslab.Email).With("DLTS_JOB_TOKEN=" + dltslab.Password)
	run := h.Follow(h.Experiment(endtoend.Plan{Trials: 4, Concurrency: 2, Steps: "10", Pause: "0.3", Code: "code", Platform: onDLTS(service)}))
	for sequence := range 2 {
		h.Await("another trial in the ledger", func() bool { return len(h.Ledger()) > sequence })
		h.KillAndAwait(endtoend.Host)
	}
	require.Empty(t, commandsWith(t, dltslab.Password))
	require.Equal(t, "DONE", run.Finished(3*endtoend.Patience).Status)
	h.RequireExactlyOnce(run.ID(), 4, nil)
	require.Equal(t, 4, service.Calls("submit"))
	require.Contains(t, h.Must("trials", run.ID(), "--output", "json"), service.URL+"/job/"+dltslab.Team, "where a person can look")
	for _, path := range filesWith(t, h.Dir, dltslab.Password) {
		require.True(t, strings.HasSuffix(path, "/environment"), "%s has the password that only the captured environment may have", path)
	}
	require.Empty(t, filesWith(t, service.Here, dltslab.Password))

	run = h.Follow(h.Experiment(endtoend.Plan{Trials: 1, Concurrency: 1, Steps: "4000", Pause: "0.3", Code: "code", Platform: onDLTS(service)}))
	h.AwaitState(run.ID(), 0, "RUNNING", 1)
	h.Must("stop", run.ID())
	h.AwaitFor(endtoend.Patience, "no job that runs or waits", func() bool {
		states := service.States()
		return states["running"]+states["queued"]+states["killing"] == 0
	})
}
