package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/stretchr/testify/require"
)

// drafted leaves a draft as a run does that was killed at some age.
func (s *stage) drafted(id string, age time.Duration) string {
	made, err := newDraft(filepath.Dir(EnvironmentFile(s.World.Home, id)))
	require.NoError(s.t, err)
	require.NoError(s.t, os.WriteFile(EnvironmentFile(s.World.Home, id), []byte("{}"), 0o600))
	then := time.Now().Add(-age)
	require.NoError(s.t, os.Chtimes(made.lock.Name(), then, then))
	require.NoError(s.t, made.lock.Close())
	return made.directory
}

func TestTheNextRunSweepsWhatAKilledRunLeftAndNothingElse(t *testing.T) {
	s := newStage(t)
	s.accepted(anID)
	known, young := s.drafted(anID, 2*swept), s.drafted("aaaaaaaa", swept/2)
	old, held := s.drafted("bbbbbbbb", 2*swept), s.drafted("cccccccc", 2*swept)
	other := filepath.Join(s.World.Home, "experiments", "dddddddd")
	require.NoError(t, os.Mkdir(other, 0o700))
	alive, err := newDraft(held)
	require.NoError(t, err)
	defer alive.lock.Close()
	require.NoError(t, os.Chtimes(alive.lock.Name(), time.Time{}, time.Now().Add(-2*swept)))
	s.acts(trial.Accept, succeeds)
	require.Equal(t, ExitDone, s.run("run", s.example()), s.err.String())
	require.NoDirExists(t, old)
	require.DirExists(t, young)
	require.DirExists(t, held, "its run lives")
	require.DirExists(t, other, "nobody knows what it is")
	require.FileExists(t, filepath.Join(known, "environment"), "the record knows it")
	require.NoFileExists(t, filepath.Join(known, draftFile))
}

func TestARunThatComesToNothingLeavesNoDirectory(t *testing.T) {
	experiments := func(s *stage) []string {
		found, err := filepath.Glob(filepath.Join(s.World.Home, "experiments", "*"))
		require.NoError(t, err)
		return found
	}
	s := newStage(t)
	s.acts(trial.Accept, succeeds)
	require.Equal(t, ExitDone, s.run("run", s.example()))
	require.Len(t, experiments(s), 1)
	require.NoFileExists(t, filepath.Join(experiments(s)[0], draftFile))

	s = newStage(t)
	s.die()
	s.broken = errors.New("no room")
	require.Equal(t, ExitUnreachable, s.run("run", s.example()))
	require.Empty(t, experiments(s))

	s = newStage(t)
	s.refuse = errors.New("connection refused")
	s.World.Patience = time.Hour
	ctx, interrupt := context.WithCancel(t.Context())
	code, file := make(chan int, 1), s.example()
	go func() { code <- s.runIn(ctx, "run", file) }()
	require.Eventually(t, func() bool { return len(experiments(s)) == 1 }, patience, s.Tick)
	interrupt()
	require.Equal(t, ExitDetached, <-code)
	require.Empty(t, experiments(s))
	_, err := record.OpenReadOnly(RecordFile(s.World.Home))
	require.ErrorIs(t, err, record.ErrNotFound)
}
