package command

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/workflows"
	"github.com/stretchr/testify/require"
)

func TestUpdateSendsTheLimitsInTheirUnits(t *testing.T) {
	space := filepath.Join(t.TempDir(), "space.json")
	require.NoError(t, os.WriteFile(space, []byte(`{"x": {"_type": "uniform", "_value": [0, 5.0]}}`), 0o600))
	for _, c := range []struct {
		args        []string
		name, value string
	}{
		{[]string{"concurrency", anID, "8"}, trial.SetConcurrency, "8"},
		{[]string{"max-trials", "100"}, trial.SetMaxTrials, "100"},
		{[]string{"max-duration", "1.5h"}, trial.SetMaxDuration, "5400"},
		{[]string{"max-duration", "90"}, trial.SetMaxDuration, "90"},
		{[]string{"max-duration", anID, "1.2s"}, trial.SetMaxDuration, "2"},
		{[]string{"trialnum", anID, "--value", "7"}, trial.SetMaxTrials, "7"},
		{[]string{"concurrency", "-v", "7"}, trial.SetConcurrency, "7"},
		{[]string{"duration", anID, "--value", "2h"}, trial.SetMaxDuration, "7200"},
		{[]string{"searchspace", anID, "--filename", space}, trial.SetSearchSpace, `{"x": {"_type": "uniform", "_value": [0, 5.0]}}`},
		{[]string{"search-space", anID, space}, trial.SetSearchSpace, `{"x": {"_type": "uniform", "_value": [0, 5.0]}}`},
	} {
		s := newStage(t)
		s.accepted(anID)
		require.Equal(t, ExitDone, s.run(append([]string{"update"}, c.args...)...), s.err.String())
		require.Equal(t, c.name, s.sent[0].Name)
		require.Equal(t, c.value, string(s.sent[0].Value))
		require.Contains(t, s.out.String(), " set to "+c.args[len(c.args)-1])
	}
}

func TestUpdateRefusesWhatIsNoLimit(t *testing.T) {
	for _, args := range [][]string{{"concurrency", "0"}, {"max-trials", "many"}, {"max-duration", "5 parsecs"}, {"max-duration", "-1"},
		{"max-duration", ""}, {"max-duration", "NaN"}, {"search-space", "/nowhere.json"}, {"concurrency"}} {
		s := newStage(t)
		s.accepted(anID)
		require.Equal(t, ExitBadInput, s.run(append([]string{"update"}, args...)...), args)
		require.Empty(t, s.sent)
	}
}

func TestTrialsAddPassesTheParametersByteForByte(t *testing.T) {
	s := newStage(t)
	s.accepted(anID)
	require.Equal(t, ExitDone, s.run("trials", "add", `{"x": 1.0}`), s.err.String())
	require.Equal(t, json.RawMessage(`{"x": 1.0}`), s.sent[0].Value)
	require.Equal(t, ExitBadInput, s.run("trials", "add", anID, "[1]"))
	golden(t, "add-no-object.txt", s.err.String())
}

func TestParametersOutsideTheSearchSpaceAreTakenOnlyByForce(t *testing.T) {
	s := newStage(t)
	s.accepted(anID)
	require.Equal(t, ExitBadInput, s.run("trials", "add", anID, `{"x": 5, "lr": 1}`))
	golden(t, "add-strays.txt", s.err.String())
	require.Empty(t, s.sent)
	require.Equal(t, ExitDone, s.run("trials", "add", anID, `{"x": 5, "lr": 1}`, "--force"), s.err.String())
	require.Len(t, s.sent, 1)
	s.acceptedWith("aaaaaaaa", `{"className":"mine.Tuner"}`)
	require.Equal(t, ExitDone, s.run("trials", "add", "aaaaaaaa", `{"lr": 1}`), s.err.String())
}

func TestStopWaitsUntilTheExperimentIsStopped(t *testing.T) {
	s := newStage(t)
	s.accepted(anID)
	s.acts(trial.Stop, func(story *story) { story.finishes(record.Stopped) })
	require.Equal(t, ExitDone, s.run("stop"), s.err.String())
	require.Contains(t, s.out.String(), "experiment k3v9x2ab is STOPPED")
	require.Contains(t, s.out.String(), "starter resume k3v9x2ab")
}

func TestStopEarlySendsEarlyStop(t *testing.T) {
	s := newStage(t)
	s.accepted(anID)
	s.acts(trial.EarlyStopCommand, func(story *story) { story.finishes(record.Done) })
	require.Equal(t, ExitDone, s.run("stop", anID, "--early-stop"), s.err.String())
	require.Contains(t, s.out.String(), "experiment k3v9x2ab is DONE")
}

func TestResumeTakesTheStoppedExperimentAndFollowsItToTheEnd(t *testing.T) {
	s := newStage(t)
	s.accepted("aaaaaaaa").finishes(record.Done)
	s.accepted(anID).finishes(record.Stopped)
	s.acts(trial.Resume, func(*story) { succeeds(&story{s, anID}) })
	require.Equal(t, ExitDone, s.run("resume", "-o", "json"), s.err.String())
	require.Equal(t, "resumed", s.events()[0]["event"])
	require.Equal(t, "experiment k3v9x2ab, the only stopped or paused one\n", s.err.String())
}

func TestPauseAsksForAPause(t *testing.T) {
	s := newStage(t)
	s.accepted(anID)
	require.Equal(t, ExitDone, s.run("pause"))
	require.Equal(t, trial.Pause, s.sent[0].Name)
	require.Equal(t, ExitDone, s.run("ls"))
	require.Contains(t, s.out.String(), "RUNNING (paused)")
}

func TestPauseRefusesAnExperimentThatIsOver(t *testing.T) {
	s := newStage(t)
	s.accepted(anID).finishes(record.Done)
	require.Equal(t, ExitBadInput, s.run("pause", anID))
	require.Empty(t, s.sent)
	require.Contains(t, s.err.String(), "experiment k3v9x2ab is DONE: there is nothing to pause")
}

func TestKillEndsATrialByNumberOrId(t *testing.T) {
	s := newStage(t)
	s.told(anID)
	require.Equal(t, ExitDone, s.run("kill", "2"), s.err.String())
	require.Equal(t, trial.CauseUser, s.ended[0].Cause)
	require.Equal(t, ExitDone, s.run("kill", anID, trial.ID(anID, 2), "--early-stop"))
	require.Equal(t, trial.CauseEarlyStop, s.ended[1].Cause)
	require.Equal(t, ExitDone, s.run("kill", "2", "--lost"))
	require.True(t, s.ended[2].Lost)
	require.Contains(t, s.err.String(), "two attempts may run at once")
	require.Equal(t, ExitDone, s.run("kill", "0"))
	require.Equal(t, "trial 0 (xlqz5) is SUCCEEDED already\n", s.out.String())
	require.Len(t, s.ended, 3)
}

func TestKillOfATrialThatEndsMeanwhileSaysSo(t *testing.T) {
	s := newStage(t)
	story := s.told(anID)
	s.ending = func() error {
		story.ends(trial.Key{Experiment: anID, Sequence: 2, Attempt: 2}, trial.Ended{State: trial.Succeeded})
		return workflows.ErrNotDriven
	}
	require.Equal(t, ExitDone, s.run("kill", "2"), s.err.String())
	require.Equal(t, "trial 2 (s8pst) is SUCCEEDED already\n", s.out.String())
	s.ending = func() error { return workflows.ErrNotDriven }
	require.Equal(t, ExitUnreachable, s.run("kill", "3"))
}

func TestASearchSpaceThatTheTunerCannotSearchChangesNothing(t *testing.T) {
	s := newStage(t)
	s.accepted(anID)
	space := filepath.Join(t.TempDir(), "space.json")
	require.NoError(t, os.WriteFile(space, []byte(`{"x": {"_type": "uniform", "_value": [0, 1]}}`), 0o600))
	s.World.Build.CheckTuner = func(name string, _, _ json.RawMessage) error {
		return errors.New(name + " wants whole numbers")
	}
	require.Equal(t, ExitBadInput, s.run("update", "search-space", space))
	require.Contains(t, s.err.String(), "error: the tuner of k3v9x2ab does not take this space: Random wants whole numbers\n")
	for _, bad := range []string{"[]", `{"x": {"_type": "my-own", "_value": [0]}}`} {
		require.NoError(t, os.WriteFile(space, []byte(bad), 0o600))
		require.Equal(t, ExitBadInput, s.run("update", "search-space", space))
	}
	require.Empty(t, s.sent)
}

func TestARangeOfOneValueIsANewSearchSpaceWithAWarning(t *testing.T) {
	s := newStage(t)
	s.accepted(anID)
	space := filepath.Join(t.TempDir(), "space.json")
	require.NoError(t, os.WriteFile(space, []byte(`{"x": {"_type": "uniform", "_value": [1, 1]}}`), 0o600))
	require.Equal(t, ExitDone, s.run("update", "search-space", space), s.err.String())
	require.Contains(t, s.err.String(), "warning: search space /x/_value has low 1 and high 1, so it is always 1.0")
	require.Len(t, s.sent, 1)
}

func TestATunerOfOnesOwnMayHaveASearchSpaceOfItsOwn(t *testing.T) {
	s := newStage(t)
	space := filepath.Join(t.TempDir(), "space.json")
	require.NoError(t, os.WriteFile(space, []byte(`{"x": {"_type": "my-own", "_value": [0]}}`), 0o600))
	s.acceptedWith(anID, `{"className":"mine.Tuner"}`)
	require.Equal(t, ExitDone, s.run("update", "search-space", space), s.err.String())
	require.Len(t, s.sent, 1)
}

func TestARefusedCommandIsBadInputAndNotTriedAgain(t *testing.T) {
	s := newStage(t)
	s.accepted(anID)
	s.World.Patience = patience
	refused := s.send(t.Context(), anID, trial.Command{ID: "x", Name: "fly"})
	require.Equal(t, ExitBadInput, codeOf(refused))
	require.ErrorContains(t, refused, `experiment k3v9x2ab refuses: `)
}
