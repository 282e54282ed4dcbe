package services

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/testsuite/uailab"
)

func onUAITrain(service *uailab.Service, storage string) string {
	return fmt.Sprintf(`  platform: uai-train
  publicKey: %s
  privateKey: %s
  projectId: %s
  endpoint: %s
  image: %s
  nodeType: 1-P40
%s`, uailab.PublicKey, uailab.PrivateKey, uailab.Project, service.URL, uailab.Image, storage)
}

func onUFS(service *uailab.Service) string {
	return onUAITrain(service, fmt.Sprintf("  ufsPath: %s\n  localStorageMountPoint: %s\n", uailab.UFS, service.Here))
}

func onUFile(service *uailab.Service) string {
	return onUAITrain(service, fmt.Sprintf("  ufilePath: %s/team\n  ufileEndpoint: %s\n", uailab.Bucket, service.Address))
}

func TestTrialsOnUAITrainOutliveTheirHostAndAreStopped(t *testing.T) {
	t.Parallel()
	service, h := uailab.New(t), endtoend.NewHome(t)
	run := h.Follow(h.Experiment(endtoend.Plan{Trials: 4, Concurrency: 2, Steps: "10", Pause: "0.3", Code: "code", Platform: onUFS(service)}))
	for sequence := range 2 {
		h.Await("another trial in the ledger", func() bool { return len(h.Ledger()) > sequence })
		h.KillAndAwait(endtoend.Host)
	}
	require.Empty(t, commandsWith(t, uailab.PrivateKey))
	require.Equal(t, "DONE", run.Finished(3*endtoend.Patience).Status)
	h.RequireExactlyOnce(run.ID(), 4, nil)
	require.Equal(t, 4, service.Calls("CreateUAITrainJob"))
	told := h.Must("trials", run.ID(), "--output", "json")
	require.Contains(t, told, "console.ucloud.cn/uaitrain", "where a person can look")
	require.Contains(t, told, "0.07 CNY", "what it costs")
	require.Equal(t, []string{filepath.Join(h.Dir, "experiments", run.ID(), "secrets")}, filesWith(t, h.Dir, uailab.PrivateKey))
	require.Empty(t, filesWith(t, service.Here, uailab.PrivateKey))
	h.AwaitFor(endtoend.Patience, "no job left behind", func() bool { return len(service.States()) == 0 })

	run = h.Follow(h.Experiment(endtoend.Plan{Trials: 1, Concurrency: 1, Steps: "4000", Pause: "0.3", Code: "code", Platform: onUFS(service)}))
	h.AwaitState(run.ID(), 0, "RUNNING", 1)
	h.Must("stop", run.ID())
	h.AwaitFor(endtoend.Patience, "no job that runs or waits", func() bool {
		states := service.States()
		return states["Doing"]+states["Waiting"] == 0
	})
}

func TestTrialsOnUAITrainAndUFileOutliveTheirHost(t *testing.T) {
	t.Parallel()
	service, h := uailab.New(t), endtoend.NewHome(t)
	run := h.Follow(h.Experiment(endtoend.Plan{Trials: 3, Concurrency: 3, Steps: "5", Pause: "0.3", Code: "code", Platform: onUFile(service)}))
	h.Await("a trial in the ledger", func() bool { return len(h.Ledger()) > 0 })
	h.KillAndAwait(endtoend.Host)
	require.Equal(t, "DONE", run.Finished(3*endtoend.Patience).Status)
	h.RequireExactlyOnce(run.ID(), 3, nil)
	require.Equal(t, 3, service.Calls("CreateUAITrainJob"))
	require.Empty(t, commandsWith(t, uailab.PrivateKey))
	require.Equal(t, []string{filepath.Join(h.Dir, "experiments", run.ID(), "secrets")}, filesWith(t, h.Dir, uailab.PrivateKey))
	h.AwaitFor(endtoend.Patience, "nothing left behind", func() bool { return len(service.States())+len(service.Files()) == 0 })
}
