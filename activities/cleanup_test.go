package activities_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

func (f *fixture) cleanUp() error { return activities.CleanUp(ctx, f.Store, f.Sections, id) }

func (f *fixture) leftover() []string {
	f.Helper()
	ids, err := f.Leftover(ctx)
	require.NoError(f, err)
	return ids
}

func (f *fixture) finish() {
	f.Helper()
	row := f.row()
	place, err := f.PlaceOf(ctx, id, row.LastEvent)
	require.NoError(f, err)
	finished, err := f.Store.Finish(ctx, id, record.Done, place)
	require.NoError(f, err)
	require.True(f, finished)
}

func TestWhatAnExperimentLeftOnItsPlatformIsRemovedOnceWhenItIsOver(t *testing.T) {
	f := newFixture(t)
	f.ask(1)
	key := f.begin(0)
	require.Empty(t, f.leftover(), "it runs")
	require.NoError(t, f.cleanUp())
	require.NoError(t, f.Store.Settle(ctx, key, record.Settlement{Outcome: record.OutcomeFault}))
	f.finish()
	require.Equal(t, []string{id}, f.leftover())
	require.NoError(t, f.cleanUp())
	require.Zero(t, f.platform.cleaned, "metrics are still to come")
	require.NoError(t, f.Observe(ctx, key, record.Observation{Phase: string(platforms.Exited), Exit: &trial.Exit{}, Drained: true}))
	for range 2 {
		require.NoError(t, f.cleanUp())
		require.Empty(t, f.leftover())
	}
	require.Equal(t, 1, f.platform.cleaned)
}

func TestACleanUpThatFailedOrWasInterruptedIsDoneAgain(t *testing.T) {
	f := newFixture(t)
	f.finish()
	f.platform.stuck = errors.New("cannot reach it")
	require.ErrorContains(t, f.cleanUp(), "cannot reach it")
	require.Equal(t, []string{id}, f.leftover())
	f.platform.stuck = nil
	f.Activities = f.activities() // of another process
	require.NoError(t, f.cleanUp())
	require.Equal(t, 2, f.platform.cleaned)
	require.Empty(t, f.leftover())
}

func TestAnExperimentThatIsResumedAfterACleanUpIsPreparedAnewAsItWas(t *testing.T) {
	f := newFixture(t)
	f.finish()
	require.NoError(t, f.cleanUp())
	f.command(trial.SetMaxTrials, "200")
	require.Equal(t, record.Running, f.row().Status)
	require.NoError(t, f.PrepareCodeDir(ctx, id, 0))
	require.NoError(t, f.PrepareCodeDir(ctx, id, 0))
	require.Len(t, f.platform.prepared, 2)
	require.Nil(t, f.platform.prepared[0].Again)
	require.JSONEq(t, `{"blob":"b-1"}`, string(f.platform.prepared[1].Again.Data))
	f.ask(1)
	key := f.begin(0)
	f.platform.report(key, platforms.Report{Phase: platforms.Exited, Exit: &trial.Exit{}})
	_, err := call[any](f, f.RunAttempt, key)
	require.NoError(t, err)
}

func TestAPlatformThatIsSlowToTakeTheCodeKeepsNoOtherWaiting(t *testing.T) {
	f := newFixtureWith(t, func(config *experiment.Experiment) {
		for _, code := range []string{"/slow", "/quick"} {
			config.Platforms = append(config.Platforms, experiment.Platform{Name: "scripted", Command: "true", CodeDirectory: code})
		}
	})
	began, goOn, slow, quick := make(chan struct{}), make(chan struct{}), make(chan error), make(chan error)
	f.platform.preparing = func(bundle platforms.Bundle) {
		if bundle.CodeDirectory == "/slow" {
			close(began)
			<-goOn
		}
	}
	go func() { slow <- f.PrepareCodeDir(ctx, id, 1) }()
	<-began
	go func() { quick <- f.PrepareCodeDir(ctx, id, 2) }()
	select {
	case err := <-quick:
		require.NoError(t, err)
		require.NoError(t, f.cleanUp(), "nor does a sweep wait for it")
		require.ErrorContains(t, f.RemoveFiles(ctx, id, trial.Removal{}), "its code is still being prepared", "it would leave that there")
		close(goOn)
	case <-time.After(patience):
		close(goOn)
		<-quick
		t.Error("it waits for the other one")
	}
	require.NoError(t, <-slow)
}
