package activities_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

func TestAnExperimentIsRefusedOfWhichWhatWasHandedOverCannotBeUsed(t *testing.T) {
	f := newFixture(t)
	accept := trial.Command{ID: "accept-other", Name: trial.Accept}
	f.Fetch = func(context.Context, string) error { return errors.New("no key opens secrets.json") }
	_, err := f.Command(ctx, "otherone", accept)
	var refused *temporal.ApplicationError
	require.ErrorAs(t, err, &refused)
	require.True(t, refused.NonRetryable())
	require.Contains(t, refused.Message(), "no key opens secrets.json")

	row, err := f.Experiment(ctx, id)
	require.NoError(t, err)
	_, err = f.Command(ctx, id, trial.Command{ID: "command-1", Name: trial.Accept, Value: row.Config})
	require.NoError(t, err, "the worker before has accepted it")

	f.Fetch = func(context.Context, string) error { return fmt.Errorf("read: %w", record.ErrUnreachable) }
	_, err = f.Command(ctx, "otherone", accept)
	require.ErrorIs(t, err, record.ErrUnreachable)
	require.False(t, errors.As(err, &refused), "it comes back")
}
