package activities_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/activities"
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
