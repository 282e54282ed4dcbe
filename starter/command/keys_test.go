package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/workers/codec"
	"github.com/stretchr/testify/require"
)

func TestKeysListsWhatEncryptsAndRotateChangesIt(t *testing.T) {
	s := newStage(t)
	require.Equal(t, ExitDone, s.run("keys", "--output", "json"), s.err.String())
	require.Equal(t, ExitDone, s.run("keys", "--rotate"), s.err.String())
	require.Equal(t, ExitDone, s.run("keys", "--rotate"), s.err.String())
	require.Equal(t, ExitDone, s.run("keys", "--output", "json"))
	var states []codec.State
	require.NoError(t, json.Unmarshal([]byte(s.out.String()), &states))
	require.Len(t, states, 3)
	require.Equal(t, []bool{false, false, true}, []bool{states[0].Encrypts, states[1].Encrypts, states[2].Encrypts})

	require.NoError(t, os.Remove(filepath.Join(s.Home, "keys", states[0].ID)))
	require.Equal(t, ExitNoSuccess, s.run("doctor"))
	require.Contains(t, s.out.String(), states[0].ID+" is missing from")
	require.Equal(t, ExitBadInput, s.run("keys", "--rotate"))
	require.Contains(t, s.err.String(), states[0].ID+" is missing from")
}

// fakeExperiment writes an experiment on platform fake with one more line in its
// section.
func (s *stage) fakeExperiment(line string) string {
	file := filepath.Join(s.t.TempDir(), "experiment.yml")
	content := "trialConcurrency: 1\nmaxTrialNumber: 1\nsearchSpace: {x: {_type: choice, _value: [1]}}\n" +
		"tuner: {name: Random}\ntrainingService:\n  platform: fake\n  " + line + "\n"
	require.NoError(s.t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

func TestAnInlineSecretLeavesTheMachineOfNobody(t *testing.T) {
	const secret = "tok-seven-of-nine"
	s := newStage(t)
	file := s.fakeExperiment("token: " + secret)
	s.acts(trial.Accept, succeeds)
	require.Equal(t, ExitDone, s.run("run", file), s.err.String())
	require.NotContains(t, string(s.sent[0].Value), secret)
	require.Contains(t, string(s.sent[0].Value), "${secret:trainingService/0/token}")
	require.NotContains(t, s.out.String()+s.err.String(), secret)

	kept := SecretsFile(s.Home, s.sent[0].ID[len("accept-"):])
	content, err := os.ReadFile(kept)
	require.NoError(t, err)
	require.Contains(t, string(content), secret)
	info, err := os.Stat(kept)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestValidateShowsNoSecret(t *testing.T) {
	s := newStage(t)
	file := s.fakeExperiment("token: tok-seven-of-nine")
	for _, as := range []string{"table", "json", "yaml"} {
		require.Equal(t, ExitDone, s.run("validate", file, "--output", as))
		require.NotContains(t, s.out.String()+s.err.String(), "seven-of-nine")
	}
}

func TestReferencesMustLeadSomewhereBeforeAnythingStarts(t *testing.T) {
	s := newStage(t)
	s.Env = append(s.Env, "PLANTED_TOKEN=x")
	require.Equal(t, ExitDone, s.run("validate", s.fakeExperiment("token: ${env:PLANTED_TOKEN}")), s.err.String())
	for line, said := range map[string]string{
		"token: ${env:NO_SUCH_TOKEN}":  `the environment variable "NO_SUCH_TOKEN" is not set`,
		"token: ${file:no/such/file}":  `the file "no/such/file" cannot be read`,
		"token: ${vault:kv/token}":     "is a reference of no known kind",
		"token: ${secret:elsewhere/0}": "is a reference of no known kind",
	} {
		file := s.fakeExperiment(line)
		require.Equal(t, ExitBadInput, s.run("run", file))
		require.Contains(t, s.err.String(), file+":7:", line)
		require.Contains(t, s.err.String(), said)
	}
	require.Empty(t, s.sent)
}
