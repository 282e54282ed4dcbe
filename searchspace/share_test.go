package searchspace

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestShareUndoesQuantileAndEmittedIsEmittedAgain(t *testing.T) {
	space := parse(t, everyKind)
	rapid.Check(t, func(t *rapid.T) {
		share := rapid.Float64Range(1e-6, 1-1e-6).Draw(t, "share")
		for i := range space.Dimensions {
			d := &space.Dimensions[i]
			if d.Size > 0 {
				continue
			}
			require.InDelta(t, share, d.Share(d.Quantile(share)), 1e-9, d.Name)
			emitted := d.Emitted(d.Quantile(share))
			require.Equal(t, string(d.Text(d.Quantile(share))), string(d.Text(emitted)), d.Name)
			require.Equal(t, emitted, d.Emitted(emitted), d.Name)
		}
	})
}

func TestAPointIsFoundAgainAfterALogChangedItsSpelling(t *testing.T) {
	space := parse(t, everyKind)
	for n := range 50 {
		parameters := space.Parameters(space.Draw(NewStream(3, n)))
		logged, err := json.Marshal(json.RawMessage(parameters)) // escapes <, > and &
		require.NoError(t, err)
		_, ok := space.Locate(logged)
		require.True(t, ok, string(logged))
	}
}
