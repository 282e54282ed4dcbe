package all_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/all"
)

func TestEveryPlatformIsCalledByItsOwnNameAndOpensWithoutReachingAnybody(t *testing.T) {
	registry := all.All(all.Options{StateDirectory: t.TempDir()})
	require.NotEmpty(t, registry)
	for name, kind := range registry {
		require.Equal(t, name, kind.Traits.Name)
		require.NoError(t, kind.Open(platforms.Section{Platform: name}).Close())
	}
}

func TestTheRegistryChecksASectionByItsPlatformsOwnRules(t *testing.T) {
	registry := all.All(all.Options{StateDirectory: t.TempDir()})
	require.NoError(t, registry.Check("local", []byte(`{"anything": 1}`)))
	require.Error(t, registry.Check("fake", []byte(`{"durations": 1}`)))
	require.ErrorAs(t, registry.Check("remote", []byte(`{"machineList": []}`)), &platforms.OptionFaults{})
}
