package kubernetes_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/testsuite/kube"
	"github.com/perennial-ml/perennial/trial"
)

func TestWhatIsToBeKeptStaysAfterItsTrialAndGoesByItselfOrWithTheExperiment(t *testing.T) {
	for _, kind := range []string{"Job", "JobSet", "PyTorchJob"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			cluster := kube.Up(t)
			namespace := cluster.Namespace(t)
			there := func() (kept map[string]int) {
				left, err := open(t, cluster, namespace, nil).(platforms.WithLeftovers).Leftovers(t.Context())
				require.NoError(t, err)
				for _, found := range left.Found {
					kept = found.Things
				}
				return kept
			}
			ended := func(keep int64) platforms.Platform {
				p := open(t, cluster, namespace, map[string]any{"kind": kind, "keepFor": keep})
				handle := submit(t, p, "echo seen")
				await(t, p, handle, exited)
				require.NoError(t, p.(platforms.WithForget).Forget(t.Context(), handle))
				return p
			}
			p := ended(3600)
			waiting := submit(t, p, "sleep 600")
			require.NoError(t, p.Cancel(t.Context(), waiting, trial.Intent{Cause: trial.CauseUser}))
			await(t, p, waiting, func(r platforms.Report) bool { return r.Phase.Definite() })
			require.NoError(t, p.(platforms.WithCleanup).CleanUp(t.Context()))
			kept := there()
			require.NotZero(t, kept[kind])
			require.NotZero(t, kept["pod"])
			require.Zero(t, kept["ConfigMap"])
			require.NoError(t, p.(platforms.WithRemoval).Remove(t.Context()))
			cluster.Await(t, "what was kept is removed", func() bool { return there()[kind] == 0 })

			ended(1)
			cluster.Await(t, "the cluster removes it", func() bool { return there()[kind] == 0 })
		})
	}
}

func TestWhatIsToBeKeptOutlivesACleanUpThatComesBeforeItsControllerKnowsOfItsEnd(t *testing.T) {
	cluster := kube.Up(t)
	namespace := cluster.Namespace(t)
	p := open(t, cluster, namespace, map[string]any{"keepFor": 3600})
	handle := submit(t, p, "sleep 2")
	await(t, p, handle, func(r platforms.Report) bool { return r.Phase == platforms.Running })
	cluster.Freeze(t, kube.Controllers)
	defer cluster.Thaw(t, kube.Controllers)
	await(t, p, handle, exited)
	require.NoError(t, p.(platforms.WithForget).Forget(t.Context(), handle))
	require.NoError(t, p.(platforms.WithCleanup).CleanUp(t.Context()))
	left, err := p.(platforms.WithLeftovers).Leftovers(t.Context())
	require.NoError(t, err)
	require.Len(t, left.Found, 1)
	require.Equal(t, 1, left.Found[0].Things["Job"])
}
