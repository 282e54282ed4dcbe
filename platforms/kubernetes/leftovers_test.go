package kubernetes_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/testsuite/kube"
)

func TestWhatAHomeLeftIsFoundByItsMarkAndGoesAltogether(t *testing.T) {
	for _, kind := range []string{"Job", "Framework"} { // pods of the second are held
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			cluster := kube.Up(t)
			namespace := cluster.Namespace(t)
			p := openAt(t, "their-machine.aogzexlj", cluster, namespace, map[string]any{"kind": kind})
			handle := submit(t, p, "sleep 600")
			await(t, p, handle, func(r platforms.Report) bool { return r.Phase == platforms.Running })
			require.NoError(t, p.Close())

			there := open(t, cluster, namespace, nil).(platforms.WithLeftovers)
			left, err := there.Leftovers(t.Context())
			require.NoError(t, err)
			require.Contains(t, left.Place, namespace)
			require.Empty(t, left.Unlisted)
			require.Len(t, left.Found, 1)
			found := left.Found[0]
			require.Equal(t, handle.Key.Experiment, found.Experiment)
			require.Equal(t, "their-machine.aogzexlj", found.Home)
			require.Equal(t, 1, found.Things[kind])
			require.Equal(t, 1, found.Things["pod"])
			require.Positive(t, found.Things["ConfigMap"], "the runner")
			require.False(t, found.Since.IsZero())

			require.NoError(t, there.RemoveLeftover(t.Context(), found.Experiment))
			cluster.Await(t, "nothing is left", func() bool {
				if err := there.RemoveLeftover(t.Context(), found.Experiment); err != nil {
					return false
				}
				left, err := there.Leftovers(t.Context())
				return err == nil && len(left.Found) == 0
			})
		})
	}
}
