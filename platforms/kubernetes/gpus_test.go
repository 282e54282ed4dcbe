package kubernetes_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/testsuite/kube"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
	"github.com/perennial-ml/perennial/trial"
)

func TestTheGPUsOfAClusterAreShownWithWhoHasRequestedThem(t *testing.T) {
	cluster := kube.Up(t)
	t.Parallel()
	const resource = "lab.example/gpu"
	cluster.Advertise(t, resource, 2)
	p := open(t, cluster, cluster.Namespace(t), map[string]any{"gpuResource": resource})
	one, wanted := 1, job(t, oneMore(p), platformtest.Behaviour{})
	wanted.GPUs, wanted.Command = &one, "sleep 600"
	handle, err := p.Submit(t.Context(), wanted)
	require.NoError(t, err)
	await(t, p, handle, func(r platforms.Report) bool { return r.Phase == platforms.Running })
	hosts, err := p.(platforms.WithGPUs).GPUs(t.Context())
	require.NoError(t, err)
	require.Len(t, hosts, 1)
	require.Len(t, hosts[0].Inventory.GPUs, 2)
	require.Contains(t, hosts[0].Inventory.GPUs[0].Requested, "of experiment "+handle.Key.Experiment)
	require.Empty(t, hosts[0].Inventory.GPUs[1].Requested)
	require.True(t, hosts[0].Elastic)
	require.NoError(t, p.Cancel(t.Context(), handle, trial.Intent{Cause: trial.CauseUser}))
	require.Eventually(t, func() bool { return free(t.Context(), p) == 2 }, 2*time.Minute, 50*time.Millisecond)
}

// free is how many GPUs nobody has requested.
func free(ctx context.Context, p platforms.Platform) (count int) {
	hosts, _ := p.(platforms.WithGPUs).GPUs(ctx)
	for _, host := range hosts {
		for _, g := range host.Inventory.GPUs {
			if g.Requested == "" {
				count++
			}
		}
	}
	return count
}

func TestGPUsThatMayNotBeSeenAreAFaultAndNoError(t *testing.T) {
	cluster := kube.Up(t)
	t.Parallel()
	hosts, err := open(t, cluster, cluster.Namespace(t), map[string]any{"kubeconfig": "/no/such/kubeconfig"}).(platforms.WithGPUs).GPUs(t.Context())
	require.NoError(t, err)
	require.Equal(t, []gpu.Host{{Name: "kubernetes", Fault: hosts[0].Fault, Elastic: true}}, hosts)
	require.NotEmpty(t, hosts[0].Fault)
}
