package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAHostEndsOnlyAfterItHadNothingToDoForLong(t *testing.T) {
	const limit = 40 * time.Millisecond
	looks, last := 0, time.Time{}
	answers := []struct {
		idle bool
		err  error
	}{{idle: true}, {}, {idle: true}, {err: errors.New("the disk is away")}}
	idleness{func(context.Context) (bool, error) {
		if looks++; looks > len(answers) {
			return true, nil
		}
		last = time.Now()
		return answers[looks-1].idle, answers[looks-1].err
	}, limit}.await(t.Context())
	require.GreaterOrEqual(t, time.Since(last), limit)
	require.Greater(t, looks, len(answers))
}

func TestTheLimitOfAnIdleHostIsADurationOrNone(t *testing.T) {
	for value, want := range map[string]time.Duration{"": time.Hour, "20m": 20 * time.Minute, "0": 0} {
		limit, err := idleLimitOf(true, value)
		require.NoError(t, err)
		require.Equal(t, want, limit)
	}
	limit, err := idleLimitOf(false, "20m")
	require.NoError(t, err)
	require.Zero(t, limit, "in the foreground")
	for _, value := range []string{"20", "-1s", "soon"} {
		_, err := idleLimitOf(true, value)
		require.ErrorContains(t, err, "$PERENNIAL_IDLE_LIMIT")
	}
}
