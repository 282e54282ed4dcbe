package verbs

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

// meeting is a service of which each end by force waits for the other.
type meeting struct {
	Service
	all sync.WaitGroup
}

func (m *meeting) Poll(_ context.Context, questions []Question) ([]Report, error) {
	reports := make([]Report, len(questions))
	for i := range reports {
		reports[i].Phase = Running
	}
	return reports, nil
}

func (m *meeting) Cancel(ctx context.Context, _ Cancellation) error {
	m.all.Done()
	met := make(chan struct{})
	go func() {
		m.all.Wait()
		close(met)
	}()
	select {
	case <-met:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestWhatDoesNotEndIsEndedAllAtOnce(t *testing.T) {
	t.Parallel()
	served, nature := &meeting{}, Nature{SharedDirectory: t.TempDir()}
	served.all.Add(2)
	opened := New(Options{Name: "meeting", StateDirectory: t.TempDir()}).Open(platforms.Section{Experiment: "abcdefgh"},
		func(context.Context, string) (Service, Nature, error) { return served, nature, nil })
	var handles []platforms.Handle
	for sequence := range 2 {
		handles = append(handles, overdue(t, opened, trial.Key{Experiment: "abcdefgh", Sequence: sequence, Attempt: 1}))
	}
	reports, err := opened.Poll(t.Context(), platforms.Ask(handles...))
	require.NoError(t, err)
	for _, report := range reports {
		require.Equal(t, platforms.Running, report.Phase)
		require.Empty(t, report.Reason, "its end by force came to its own end")
	}
}

// overdue is a run that began, and was to end long ago.
func overdue(t *testing.T, opened *Platform, key trial.Key) platforms.Handle {
	d, err := opened.open(t.Context(), "submit")
	require.NoError(t, err)
	a, err := opened.enter(d, key)
	require.NoError(t, err)
	require.NoError(t, a.WriteSpec(rundir.Spec{Key: key, Command: "true"}))
	process, err := rundir.ThisProcess()
	require.NoError(t, err)
	process.Started = time.Now()
	require.NoError(t, a.WriteProcess(process))
	_, err = a.WriteIntent(trial.Intent{Cause: trial.CauseUser})
	require.NoError(t, err)
	before := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(a.Path(rundir.IntentFile), before, before))
	require.NoError(t, a.keep(nil))
	return a.handle(nil)
}
