package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/trial"
)

func TestAnExperimentIsStartedOnceMoreWithChanges(t *testing.T) {
	s := newStage(t)
	s.acts(trial.Accept, succeeds)
	require.Equal(t, ExitDone, s.run("run", s.example()), s.err)
	s.after = nil
	first := s.sent[0]
	id := strings.TrimPrefix(first.ID, "accept-")
	require.Equal(t, ExitDone, s.run("run", "--from", id, "--id", "aaaaaaaa", "--detach"), s.err)
	require.JSONEq(t, string(first.Value), string(s.sent[1].Value))
	require.Equal(t, ExitDone, s.run("run", "--from", id, "--set", "trialConcurrency=7", "--set", "tuner.name=GridSearch", "--set", "tuner.classArgs={}", "--detach"), s.err)
	var before, after experiment.Experiment
	require.NoError(t, json.Unmarshal(first.Value, &before))
	require.NoError(t, json.Unmarshal(s.sent[2].Value, &after))
	require.Equal(t, 7, after.Concurrency)
	require.Equal(t, "GridSearch", after.Tuner.Name)
	require.Equal(t, before.Platforms, after.Platforms)

	require.Equal(t, ExitBadInput, s.run("run", "--from", id, "--set", "trialConcurrency=none"))
	require.Contains(t, s.err.String(), "experiment "+id+":")
	require.Equal(t, ExitBadInput, s.run("run", "--from", id, "--set", "nonsense"))
	require.Equal(t, ExitBadInput, s.run("run", "--from", id, "experiment.yml"))
	require.Equal(t, ExitBadInput, s.run("run"))
	require.Len(t, s.sent, 3)

	require.Equal(t, ExitDone, s.run("show", id, "--file"), s.err)
	file := filepath.Join(t.TempDir(), "again.yml")
	require.NoError(t, os.WriteFile(file, []byte(s.out.String()), 0o600))
	require.Equal(t, ExitDone, s.run("run", file, "--detach"), s.err)
	require.JSONEq(t, string(first.Value), string(s.sent[3].Value))
}

func TestAnExperimentWithSecretsOfItsOwnIsNotStartedWithoutThem(t *testing.T) {
	s := newStage(t)
	s.acts(trial.Accept, succeeds)
	require.Equal(t, ExitDone, s.run("run", s.fakeExperiment("token: tok-seven-of-nine")), s.err)
	require.Equal(t, ExitBadInput, s.run("run", "--from", strings.TrimPrefix(s.sent[0].ID, "accept-")))
	require.Contains(t, s.err.String(), "has secrets in its file, which are kept for it alone")
	require.Len(t, s.sent, 1)
}
