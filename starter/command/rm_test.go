package command

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

// removes has the engine do what a host does with a removal.
func (s *stage) removes() {
	s.after = func(command trial.Command) {
		if command.Name != trial.Remove {
			return
		}
		removals, _ := s.store().Removing(context.Background())
		for id := range removals {
			_ = s.store().Remove(context.Background(), id) // whoever waits for it tells
		}
	}
}

func TestRmRemovesWhatIsOverAndNothingElse(t *testing.T) {
	s := newStage(t)
	s.accepted("aaaaaaaa").finishes(record.Done)
	s.accepted(anID)
	s.removes()
	require.Equal(t, ExitBadInput, s.run("rm", "aaaaaaaa", anID, "--yes"))
	require.Contains(t, s.err.String(), "experiment k3v9x2ab is RUNNING: nothing was removed")
	require.Contains(t, s.err.String(), "starter stop k3v9x2ab")
	require.Empty(t, s.sent)
	require.Equal(t, ExitDone, s.run("rm", "aaaa", "--yes"), s.err.String())
	require.Equal(t, "aaaaaaaa: removed\n", s.out.String())
	require.Equal(t, ExitDone, s.run("ls"))
	require.NotContains(t, s.out.String(), "aaaaaaaa")
	require.Contains(t, s.out.String(), anID)
}

func TestRmAsksAPersonAndNeedsAWordFromAScript(t *testing.T) {
	s := newStage(t)
	s.accepted(anID).finishes(record.Stopped)
	s.removes()
	require.Equal(t, ExitBadInput, s.run("rm", anID))
	require.Contains(t, s.err.String(), "--yes")
	s.World.Width = func() int { return 100 }
	s.World.In = strings.NewReader("\n")
	require.Equal(t, ExitBadInput, s.run("rm", anID))
	require.Contains(t, s.err.String(), "nothing was removed")
	require.Empty(t, s.sent)
	s.World.In = strings.NewReader("y\n")
	require.Equal(t, ExitDone, s.run("rm", anID), s.err.String())
}

func TestRmOlderThanTakesOnlyWhatEndedThatLongAgo(t *testing.T) {
	s := newStage(t)
	s.accepted("aaaaaaaa").finishes(record.Done)
	s.accepted(anID)
	s.removes()
	require.Equal(t, ExitDone, s.run("rm", "--older-than", "1d", "--yes"))
	require.Contains(t, s.err.String(), "no experiment ended longer than 1d ago")
	s.World.Now = func() time.Time { return time.Now().Add(25 * time.Hour) }
	require.Equal(t, ExitDone, s.run("rm", "--older-than", "1d", "--yes"), s.err.String())
	require.Equal(t, "aaaaaaaa: removed\n", s.out.String())
	require.Equal(t, ExitBadInput, s.run("rm", "--yes"))
	require.Equal(t, ExitBadInput, s.run("rm", "--older-than", "soon", "--yes"))
}

func TestRmSaysWhatKeepsItAndThatAHostGoesOn(t *testing.T) {
	s := newStage(t)
	s.accepted(anID).finishes(record.Done)
	s.after = func(trial.Command) {
		_ = s.store().SetReason(context.Background(), anID, trial.Reason{Code: "cannot-remove", Text: "ada@gpu1: no answer"})
		for !strings.Contains(s.out.String(), "no answer") {
			time.Sleep(time.Millisecond)
		}
		_ = s.store().Remove(context.Background(), anID) // whoever waits for it tells
	}
	require.Equal(t, ExitDone, s.run("rm", anID, "--yes", "--leave-remote"), s.err.String())
	require.Contains(t, s.out.String(), "k3v9x2ab: ada@gpu1: no answer\nk3v9x2ab: removed\n")
	require.JSONEq(t, `{"leaveRemote":true}`, string(s.sent[0].Value))
}
