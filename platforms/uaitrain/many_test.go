package uaitrain_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/uaitrain"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
)

func TestManyTrialsCostFewCallsNoneOfWhichIsRefused(t *testing.T) {
	t.Parallel()
	const callsAMinute, atOnce = 600, 20
	o := open(t, nil)
	o.Allow("", callsAMinute+callsAMinute/10, time.Minute) // calls arrive a little later than they are counted here
	o.Platform = o.By(func(state string) platforms.Kind {
		return uaitrain.New(uaitrain.Options{StateDirectory: state, Runner: runner, Interval: 2 * time.Second, CallsAMinute: callsAMinute})
	})
	number := platformtest.Many(t, 60)
	o.RunMany(number, atOnce, "echo 'perennial: final 1'", platformtest.Tick)
	require.Zero(t, o.Refused())
	require.Equal(t, number, o.Calls("CreateUAITrainJob"))
	t.Logf("%d trials: %d lists, %d lookups", number, o.Calls("GetUAITrainJobList"), o.Calls("GetUAITrainAvailableResource"))
	require.Eventually(t, func() bool {
		err := o.Platform.(platforms.WithCleanup).CleanUp(t.Context())
		return err == nil && len(o.States()) == 0
	}, 10*time.Minute, time.Second)
	require.Zero(t, o.Refused())
}
