package jobs

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms/internal/verbs"
	"github.com/perennial-ml/perennial/runner/mailbox"
	"github.com/perennial-ml/perennial/runner/rundir"
)

// counted is a service that takes every job, all of which run.
type counted struct{ started []string }

func (c *counted) Start(_ context.Context, name string, _ []string, _ *int) error {
	c.started = append(c.started, name)
	return nil
}

func (c *counted) States(_ context.Context, names []string) ([]State, error) {
	states := make([]State, len(names))
	for i := range states {
		states[i].Phase = verbs.Running
	}
	return states, nil
}

func (*counted) Stop(context.Context, string) error { return nil }

func TestATicketThatIsTakenAsTheBoardIsReadNeedsNoFurtherEnvironment(t *testing.T) {
	t.Parallel()
	directory, service := t.TempDir(), &counted{}
	r := Reused{Service: service, Memory: &Memory{}, Here: directory, There: directory, Pool: "pool", Name: "environment-",
		Lock: filepath.Join(t.TempDir(), "lock"), Idle: time.Hour}
	require.NoError(t, r.box().Offer("1", mailbox.Ticket{Directory: filepath.Join(directory, "run-1")}))
	_, err := r.Poll(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"environment-1"}, service.started)
	taker := mailbox.Taker{Mailbox: r.box(), Name: "environment-1"}
	require.NoError(t, taker.Begin())
	_, err = taker.Take()
	require.NoError(t, err)
	// What is read first is as it was before the ticket was taken.
	require.NoError(t, rundir.WriteFile(filepath.Join(directory, "pool", "queue", "1"), []byte("{}"), 0o644))
	_, err = r.Poll(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, service.started, 1)
}
