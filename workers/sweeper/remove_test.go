package sweeper_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

func TestWhatKeepsAnExperimentFromBeingRemovedIsItsReasonAndItStays(t *testing.T) {
	f := newFixture(t)
	row, err := f.Experiment(ctx, id)
	require.NoError(t, err)
	place, err := f.PlaceOf(ctx, id, row.LastEvent)
	require.NoError(t, err)
	_, err = f.Finish(ctx, id, record.Stopped, place)
	require.NoError(t, err)
	f.command(trial.Remove, `{}`)
	for _, away := range []string{"the machine", "Temporal"} {
		f.sweeper.RemoveFiles = func(context.Context, string, trial.Removal) error { return nil }
		if away == "Temporal" {
			f.engine.away = errors.New(away + " does not answer")
		} else {
			f.sweeper.RemoveFiles = func(context.Context, string, trial.Removal) error { return errors.New(away + " does not answer") }
		}
		require.ErrorContains(t, f.sweeper.Sweep(ctx), away+" does not answer")
		row, err = f.Experiment(ctx, id)
		require.NoError(t, err)
		require.Equal(t, trial.Reason{Code: "cannot-remove", Text: away + " does not answer"}, row.Reason)
	}
}
