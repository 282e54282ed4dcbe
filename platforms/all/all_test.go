package all_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms/all"
)

func TestEveryPlatformIsCalledByItsOwnName(t *testing.T) {
	list := all.All(all.Options{StateDirectory: t.TempDir()})
	require.Len(t, list, 3)
	for name, construct := range list {
		platform := construct()
		require.Equal(t, name, platform.Traits().Name)
		require.NoError(t, platform.Close())
	}
}
