package record

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAShareThatCameWithAMovedRecordIsThatOfSomebodyWhoMayComeBack(t *testing.T) {
	f := inPostgres(t)
	f.joins("one")
	_, err := f.writer.conn.ExecContext(background, "UPDATE experiments SET share = '7'")
	require.NoError(t, err)
	require.NoError(t, f.keepShares(background, map[string]string{"record/7": "two on host two"}))
	deserted, err := f.Deserted(background, "7")
	require.NoError(t, err)
	require.False(t, deserted, "what runs on a machine of its own goes on there")
	back := f.another()
	back.joins("two")
	require.Equal(t, "7", back.Share())
}

func TestALeaseThatRanOutWhileTheRecordWasAwayIsThatOfSomebodyWhoMayLive(t *testing.T) {
	begun := time.Now()
	after := func(seconds float64) time.Time { return begun.Add(time.Duration(seconds * float64(time.Second))) }
	var vigil Vigil
	left := func(now, until float64, given bool) bool {
		lease := shareState{name: "2", until: after(until), free: now > until, given: given}
		return len(vigil.left(after(now), []shareState{lease})) > 0
	}
	for now := 0.0; now < 6; now += 1.5 {
		require.False(t, left(now, 6, false))
	}
	require.True(t, left(6.1, 6, false), "it stood still all the time")

	require.False(t, left(20, 6, false), "nobody could look meanwhile")
	require.False(t, left(21.5, 6, false))
	require.False(t, left(23, 29, false), "it lives")
	for now := 24.5; now < 29; now += 1.5 {
		require.False(t, left(now, 29, false))
	}
	require.True(t, left(29.1, 29, false))
	vigil = Vigil{}
	require.True(t, left(40, 39, true), "it was given back")
}
