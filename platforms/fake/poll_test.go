package fake

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
)

// BenchmarkPoll500 polls 500 runs beside 4,500 that have ended.
func BenchmarkPoll500(b *testing.B) {
	platform := openIn(b.TempDir(), newClock())
	platform.options = `{"duration": [1, 2], "intermediates": [1, 2, 3], "final": 4}`
	var handles []platforms.Handle
	for n := range 5000 {
		handle, err := platform.Submit(b.Context(), jobOf(keyed(n, 1), "").Job)
		require.NoError(b, err)
		handles = append(handles, handle)
	}
	for b.Loop() {
		_, err := platform.Poll(b.Context(), platforms.Ask(handles[4500:]...))
		require.NoError(b, err)
	}
}
