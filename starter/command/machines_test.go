package command

import (
	"encoding/json"
	"testing"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/stretchr/testify/require"
)

// placed has a platform of several machines choose one for an attempt.
func (s *story) placed(key trial.Key, data string) {
	handle, err := json.Marshal(platforms.Handle{Format: 1, Platform: "remote", Key: key, Data: json.RawMessage(data)})
	require.NoError(s.t, err)
	require.NoError(s.t, s.store().SetHandle(s.t.Context(), key, handle))
}

// spread is an experiment with a trial on each of two machines, one that moved
// between them, and one that waits.
func (s *stage) spread(id string) *story {
	story := s.accepted(id)
	for n := range 4 {
		story.asks(n, `{"x": 1}`)
	}
	first := story.runs(0)
	story.placed(first, `{"host":"gpu1","user":"ada"}`)
	story.ends(first, trial.Ended{State: trial.Succeeded, Value: number(0.5)})
	story.placed(story.runs(1), `{"host":"gpu2","port":2222}`)
	moved := story.runs(2)
	story.placed(moved, `{"host":"gpu2","port":2222}`)
	fault := record.Settlement{Outcome: record.OutcomeFault, Reason: trial.Reason{Code: "runner-died", Text: "its runner died"}}
	require.NoError(s.t, s.store().Settle(s.t.Context(), moved, fault))
	story.placed(story.runs(2), `{"host":"gpu1","user":"ada"}`)
	return story
}

func TestATrialsPageOnItsPlatformIsNamed(t *testing.T) {
	s := newStage(t)
	story := s.accepted(anID)
	story.asks(0, `{"x": 1}`)
	key := story.runs(0)
	const page, board = "https://console.example.org/jobs/7", "http://board.example.org/7"
	handle, err := json.Marshal(platforms.Handle{Format: 1, Platform: "service", Key: key, URL: page, TensorBoard: board})
	require.NoError(t, err)
	require.NoError(t, s.store().SetHandle(t.Context(), key, handle))
	require.Equal(t, ExitDone, s.run("show", anID, "0"))
	require.Contains(t, s.out.String(), page)
	require.Contains(t, s.out.String(), board)
	require.Equal(t, ExitDone, s.run("trials", anID, "-o", "json"))
	require.Contains(t, s.out.String(), `"url":"`+page+`"`)
}

func TestTrialsAndShowNameTheMachineOfATrial(t *testing.T) {
	s := newStage(t)
	s.spread(anID)
	for name, args := range map[string][]string{"machines.txt": {"trials", anID}, "machines.json": {"trials", anID, "-o", "json"}} {
		require.Equal(t, ExitDone, s.run(args...), s.err.String())
		golden(t, name, s.out.String())
	}
	require.Equal(t, ExitDone, s.run("show", anID))
	require.Contains(t, s.out.String(), "0.5 by trial 0 (xlqz5) on ada@gpu1\n")
	require.Equal(t, ExitDone, s.run("show", anID, "-o", "json"))
	require.Contains(t, s.out.String(), `"host": "ada@gpu1"`)
}

func TestATrialWhoseCodeIsNotReadySaysWhy(t *testing.T) {
	s := newStage(t)
	story := s.accepted(anID)
	story.asks(0, `{"x": 1}`)
	attempt, err := s.store().BeginAttempt(t.Context(), anID, 0, "remote")
	require.NoError(t, err)
	preparing := trial.Reason{Code: "preparing", Text: "the code of experiment k3v9x2ab is not prepared yet"}
	require.NoError(t, s.store().SubmitFailed(t.Context(), attempt.Key, preparing))
	require.NoError(t, s.store().SetReason(t.Context(), anID, trial.Reason{Code: "prepare-invalid", Text: "train.ckpt is larger than 300 MiB"}))
	require.Equal(t, ExitDone, s.run("trials", anID))
	require.Contains(t, s.out.String(), "is not prepared yet: train.ckpt is larger than 300 MiB\n")
	require.NoError(t, s.store().SetReason(t.Context(), anID, trial.Reason{Code: "tuner", Text: "the tuner thinks"}))
	require.Equal(t, ExitDone, s.run("trials", anID))
	require.Contains(t, s.out.String(), "is not prepared yet\n", "another reason does not explain it")
}
