package uaitrain_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/uaitrain"
)

// many is how many trials are run one after another; by hand there may be a thousand.
func many(t *testing.T) int {
	number, err := strconv.Atoi(os.Getenv("PERENNIAL_UAITRAIN_TRIALS"))
	if os.Getenv("PERENNIAL_UAITRAIN_TRIALS") == "" {
		return 60
	}
	require.NoError(t, err)
	return number
}

func TestManyTrialsCostFewCallsNoneOfWhichIsRefused(t *testing.T) {
	t.Parallel()
	const callsAMinute, atOnce = 600, 20
	o := open(t, nil)
	o.Limit, o.Span = callsAMinute+callsAMinute/10, time.Minute // calls arrive a little later than they are counted here
	o.Platform = o.By(func(state string) platforms.Kind {
		return uaitrain.New(uaitrain.Options{StateDirectory: state, Runner: runner, Interval: 2 * time.Second, CallsAMinute: callsAMinute})
	})
	number, submitted, ended := many(t), 0, 0
	var running []platforms.Handle
	for range time.Tick(20 * time.Millisecond) {
		if ended == number {
			break
		}
		for submitted < number && len(running) < atOnce {
			handle, err := o.Submit(t.Context(), o.Job(submitted, "echo 'perennial: final 1'"))
			if platforms.NoRoom(err) {
				break
			}
			require.NoError(t, err)
			running, submitted = append(running, handle), submitted+1
		}
		reports, err := o.Poll(t.Context(), platforms.Ask(running...))
		require.NoError(t, err, "polls are never crowded out by submissions")
		var left []platforms.Handle
		for i, report := range reports {
			if !report.Phase.Definite() {
				left = append(left, running[i])
				continue
			}
			require.Equal(t, platforms.Exited, report.Phase, report.Reason.Text)
			ended++
		}
		running = left
	}
	require.Zero(t, o.Refused())
	require.Equal(t, number, o.Calls("CreateUAITrainJob"))
	t.Logf("%d trials: %d lists, %d lookups", number, o.Calls("GetUAITrainJobList"), o.Calls("GetUAITrainAvailableResource"))
	require.Eventually(t, func() bool {
		err := o.Platform.(platforms.WithCleanup).CleanUp(t.Context())
		return err == nil && len(o.States()) == 0
	}, 10*time.Minute, time.Second)
	require.Zero(t, o.Refused())
}
