package services

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/testsuite/uailab"
)

func onUFile(service *uailab.Service) string {
	return service.SectionWith(fmt.Sprintf("  ufilePath: %s/team\n  ufileEndpoint: %s\n", uailab.Bucket, service.Address))
}

func TestTrialsOnUAITrainOutliveTheirHost(t *testing.T) {
	t.Parallel()
	service, h := uailab.New(t), endtoend.NewHome(t)
	run := h.Follow(h.Experiment(endtoend.Plan{Trials: 4, Concurrency: 2, Steps: "10", Pause: "0.3", Code: "code", Platform: service.Section()}))
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
	require.Contains(t, told, " CNY", "what it costs")
	require.Equal(t, []string{filepath.Join(h.Dir, "experiments", run.ID(), "secrets")}, filesWith(t, h.Dir, uailab.PrivateKey))
	require.Empty(t, filesWith(t, service.Here, uailab.PrivateKey))
	h.AwaitFor(endtoend.Patience, "no job left behind", func() bool { return len(service.States()) == 0 })
}

func TestARefusedKeyOfUAITrainIsRenewedAndATrialEndsEarly(t *testing.T) {
	t.Parallel()
	service, h, secret := uailab.New(t), endtoend.NewHome(t), filepath.Join(t.TempDir(), "private-key")
	renew := func(key string) { require.NoError(t, os.WriteFile(secret, []byte(key+"\n"), 0o600)) }
	renew(uailab.PrivateKey)
	section := strings.ReplaceAll(service.Section(), uailab.PrivateKey, "${file:"+secret+"}")
	plan := endtoend.Plan{Trials: 1, Concurrency: 1, Steps: "4000", Pause: "0.3", Code: "code", Platform: strings.ReplaceAll(section, "1-P40", "8-V100")}
	told := h.Run("validate", h.Experiment(plan))
	require.Equal(t, 2, told.Code, told.Stdout+told.Stderr)
	require.Contains(t, told.Stdout+told.Stderr, "nodeType")
	require.Contains(t, told.Stdout+told.Stderr, "there is 1-P40, 4-P40")
	plan.Platform = section
	file := h.Experiment(plan)
	require.Contains(t, h.Run("doctor", file).Stdout, "unit price of 4.20 CNY")

	run := h.Follow(file)
	h.AwaitState(run.ID(), 0, "RUNNING", 1)
	const renewed = "the-private-key-that-was-made-later"
	service.Renew(renewed)
	h.Await("word of the keys", func() bool {
		reason := h.Trial(run.ID(), 0).Reason
		return reason.Code == "denied" && strings.Contains(reason.Text, "renew publicKey and privateKey of the section")
	})
	renew(renewed)
	h.Await("the end of that", func() bool { return h.Trial(run.ID(), 0).Reason.Code != "denied" })
	h.Must("kill", run.ID(), "0", "--early-stop")
	require.Equal(t, "DONE", run.Finished(3*endtoend.Patience).Status)
	require.Equal(t, "EARLY_STOPPED", h.Trial(run.ID(), 0).State)
	for _, key := range []string{uailab.PrivateKey, renewed} {
		require.Empty(t, filesWith(t, h.Dir, key))
		require.Empty(t, filesWith(t, service.Here, key))
		require.Empty(t, commandsWith(t, key))
	}
	h.AwaitFor(endtoend.Patience, "no job left behind", func() bool { return len(service.States()) == 0 })
}

func TestTrialsOnUAITrainAndUFileOutliveTheirHost(t *testing.T) {
	t.Parallel()
	service, h := uailab.New(t), endtoend.NewHome(t)
	run := h.Follow(h.Experiment(endtoend.Plan{Trials: 3, Concurrency: 3, Steps: "5", Pause: "0.3", Code: "code", Platform: onUFile(service)}))
	h.Await("a trial in the ledger", func() bool { return len(h.Ledger()) > 0 })
	h.KillAndAwait(endtoend.Host)
	require.Equal(t, "DONE", run.Finished(3*endtoend.Patience).Status)
	h.RequireExactlyOnce(run.ID(), 3, nil)
	require.Contains(t, h.Must("logs", run.ID(), "0"), "perennial: final 1")
	require.Equal(t, 3, service.Calls("CreateUAITrainJob"))
	require.Empty(t, commandsWith(t, uailab.PrivateKey))
	require.Equal(t, []string{filepath.Join(h.Dir, "experiments", run.ID(), "secrets")}, filesWith(t, h.Dir, uailab.PrivateKey))
	h.AwaitFor(endtoend.Patience, "nothing left behind", func() bool { return len(service.States())+len(service.Files()) == 0 })
}
