package record

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/trial"
)

func TestAWorkflowThatReadFurtherThanTheLogGoesIsToldAndWritesNothing(t *testing.T) {
	f := newFixture(t)
	ahead := Place{Number: f.experiment().LastEvent + 1}
	require.ErrorIs(t, f.SetCursor(background, exp, ahead), ErrBehind)
	_, err := f.Finish(background, exp, Done, ahead)
	require.ErrorIs(t, err, ErrBehind)
	require.Zero(t, f.experiment().Cursor)
	require.Equal(t, Running, f.experiment().Status)
}

func TestALogThatWentAnotherWayIsKnownHoweverLongItHasGrown(t *testing.T) {
	f := newFixture(t)
	read, err := f.PlaceOf(background, exp, 1)
	require.NoError(t, err)
	require.NotZero(t, read.Stamp)
	require.NoError(t, f.SetCursor(background, exp, read))
	read.Stamp--
	require.ErrorIs(t, f.SetCursor(background, exp, read), ErrBehind, "this log has another event there")
}

func TestACursorThatLiesBeyondTheLogIsReadAsItsEnd(t *testing.T) {
	f := newFixture(t)
	require.NoError(t, f.edit(background, exp, func(e *experimentRow) { e.Cursor = 79 })) // as older versions could
	read, err := f.PlaceOf(background, exp, f.experiment().Cursor)
	require.NoError(t, err)
	require.Equal(t, f.experiment().LastEvent, read.Number)
	require.NoError(t, f.SetCursor(background, exp, read))
	require.Equal(t, read.Number, f.experiment().Cursor)
}

func asked(n int, parameters string) Ask {
	return Ask{Sequence: n, Asked: trial.Asked{Parameters: []byte(parameters), Source: trial.SourceAlgorithm, ParameterID: []byte("7")}}
}

func TestTrialsThatWereForgottenKeepTheirNumbersAndWhatLiesBetweenIsAskedFirst(t *testing.T) {
	f := newFixture(t)
	_, err := f.Ask(background, exp, []Ask{asked(0, `{"x":0}`)})
	require.NoError(t, err)
	found := Found{Platform: "p", Trials: []Ask{asked(1, `{"x":5.0}`), asked(4, `{"x":4}`)}}
	for range 2 { // the answer of the first may be lost
		require.NoError(t, f.TakeIn(background, exp, found))
	}
	taken, err := f.Trial(background, exp, 1)
	require.NoError(t, err)
	require.Equal(t, `{"x":5.0}`, string(taken.Parameters))
	require.Equal(t, "7", string(taken.ParameterID))
	live, err := f.Live(background, exp)
	require.NoError(t, err)
	require.Equal(t, map[int]bool{1: true, 4: true}, live, "they are driven whatever the limits are")
	e := f.experiment()
	require.Equal(t, 5, e.Asked)
	require.Equal(t, 3, e.Trials())
	require.Equal(t, []int{2, 3}, e.Vacant)
	require.Equal(t, []int{2, 3, 5, 6}, []int{e.Next(0), e.Next(1), e.Next(2), e.Next(3)})
	_, err = f.Ask(background, exp, []Ask{asked(2, `{"x":2}`), asked(3, `{"x":3}`), asked(5, `{"x":5}`), asked(4, `{"x":9}`)})
	require.NoError(t, err)
	kept, err := f.Trial(background, exp, 4)
	require.NoError(t, err)
	require.Equal(t, `{"x":4}`, string(kept.Parameters), "a trial that ran keeps its parameters")
	require.Empty(t, f.experiment().Vacant)
	learned, err := f.Recovered(background, exp)
	require.NoError(t, err)
	require.Equal(t, []trial.Recovered{{TakenIn: 2}}, learned, "counted once")
}

func TestANumberWhoseRunTellsNothingIsAskedAnewWithAnAttemptOfItsOwn(t *testing.T) {
	f := newFixture(t)
	lost := trial.Key{Experiment: exp, Sequence: 0, Attempt: 2}
	why := trial.Reason{Code: "forgotten", Text: "so"}
	require.NoError(t, f.TakeIn(background, exp, Found{Platform: "p", Ended: map[trial.Key]trial.Reason{lost: why},
		Event: trial.Recovered{Ended: []string{"attempt 2"}}}))
	_, err := f.Ask(background, exp, []Ask{asked(0, `{"x":0}`), asked(1, `{"x":1}`)})
	require.NoError(t, err)
	had, err := f.Attempted(background, exp)
	require.NoError(t, err)
	require.Equal(t, []int{0}, had, "somebody may still wait for the ended run")
	begun, err := f.BeginAttempt(background, exp, 0, "p")
	require.NoError(t, err)
	require.Equal(t, 3, begun.Key.Attempt, "the ended run is never taken for it")
	buried, err := f.Attempt(background, lost)
	require.NoError(t, err)
	require.Equal(t, why, buried.Reason)
	require.True(t, buried.Drained)
}

func TestTheNumberOfARunThatCannotBeAskedAboutIsGivenToNobodyElse(t *testing.T) {
	f := newFixture(t)
	require.NoError(t, f.TakeIn(background, exp, Found{Unread: []int{1}, Event: trial.Recovered{Unread: []string{"away"}}}))
	e := f.experiment()
	require.Equal(t, []int{0, 2}, []int{e.Next(0), e.Next(1)})
	require.NoError(t, f.TakeIn(background, exp, Found{Trials: []Ask{asked(1, `{"x":1}`)}}))
	late, err := f.Trial(background, exp, 1)
	require.NoError(t, err)
	require.Equal(t, `{"x":1}`, string(late.Parameters))
}

func TestTheNumberThatWasKeptForARunWhichNeverBeganIsAskedAgain(t *testing.T) {
	f := newFixture(t)
	require.NoError(t, f.TakeIn(background, exp, Found{Unread: []int{1}, Event: trial.Recovered{Unread: []string{"away"}}}))
	require.Equal(t, 1, f.experiment().Trials())
	before := f.experiment().LastEvent
	for range 2 {
		require.NoError(t, f.TakeIn(background, exp, Found{Unbegun: []int{1, 7}}))
	}
	e := f.experiment()
	require.Zero(t, e.Trials(), "or it ended with a trial less than it shall have")
	require.Equal(t, []int{0, 1, 2}, []int{e.Next(0), e.Next(1), e.Next(2)})
	require.Equal(t, before+1, e.LastEvent, "said once")
	_, err := f.Ask(background, exp, []Ask{asked(0, `{"x":0}`), asked(1, `{"x":1}`)})
	require.NoError(t, err)
	require.NoError(t, f.TakeIn(background, exp, Found{Unbegun: []int{0}}))
	require.Equal(t, 2, f.experiment().Trials(), "a trial that has a row keeps its number")
}

func TestThatARecordCameFromABackupIsSaidOnceWithWhatLeftNoTrace(t *testing.T) {
	f := newFixture(t)
	for range 2 {
		require.NoError(t, f.NoteBehind(background, exp, "behind-1", 3))
	}
	learned, err := f.Recovered(background, exp)
	require.NoError(t, err)
	require.Equal(t, []trial.Recovered{{Behind: true, Missing: 3}}, learned)
}
