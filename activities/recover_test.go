package activities_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/activities"
	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

func TestANumberKeptForARunOnAMachineThatWasAwayIsFreeWhereNothingRanThere(t *testing.T) {
	f := newFixture(t)
	f.ask(1)
	f.end(0)
	require.NoError(t, f.Store.TakeIn(ctx, id, record.Found{Unread: []int{1}}))
	require.Equal(t, 2, f.row().Trials())
	placed := platforms.Handle{Platform: "scripted", Key: trial.Key{Experiment: id, Sequence: 1, Attempt: 1}}
	f.platform.list(placed)
	f.platform.report(placed.Key, platforms.Report{Phase: platforms.Absent})
	unread, err := call[int](f, f.Activities.TakeIn, activities.TakeInRequest{Experiment: id, Insist: true})
	require.NoError(t, err)
	require.Zero(t, unread)
	require.Equal(t, 1, f.row().Trials())
	require.Equal(t, 1, f.row().Next(0), "the experiment has as many trials as it shall have")
	require.Empty(t, f.platform.cancelled())
}

// hanging is a platform whose machines do not answer what they run.
type hanging struct{ *scripted }

func (s *scripted) hanging() platforms.Kind {
	kind := s.kind("hanging")
	kind.Open = func(platforms.Section) platforms.Platform { return hanging{s} }
	return kind
}

// Logs implements platforms.WithLogs.
func (hanging) Logs(ctx context.Context, _ platforms.Handle, _ platforms.Log) (io.ReadCloser, error) {
	<-ctx.Done()
	return nil, platforms.Errorf(platforms.Transient, "logs", "no answer: %w", ctx.Err())
}

func TestTheNumbersOfRunsOnMachinesThatHangAreKeptBeforeTheExperimentGoesOn(t *testing.T) {
	f := newFixtureWith(t, func(config *experiment.Experiment) { config.Platforms[0].Name = "hanging" })
	for n := range 3 {
		key := trial.Key{Experiment: id, Sequence: n, Attempt: 1}
		f.platform.listed = append(f.platform.listed, platforms.Handle{Platform: "hanging", Key: key})
	}
	waiting, done := context.WithTimeout(ctx, patience/2)
	defer done()
	unread, err := f.Activities.TakeIn(waiting, activities.TakeInRequest{Experiment: id})
	require.NoError(t, err, "an experiment does not wait long for it")
	require.Equal(t, 3, unread)
	require.Equal(t, 3, f.row().Next(0), "no other trial is taken for one of those")
}
