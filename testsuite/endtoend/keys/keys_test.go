// Package keys looks for planted secrets wherever they must not be, and knocks at
// the doors as another user of the machine.
package keys

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
)

// The planted secrets, each in its own place.
const (
	inFile     = "planted-in-the-experiment-file"
	inVariable = "planted-in-a-variable-of-the-caller"
	inSecret   = "planted-in-a-file-that-is-referred-to"
)

var planted = []string{inFile, inVariable, inSecret}

// credentialed is an experiment whose trials get each secret in turn.
func credentialed(h *endtoend.Home) string {
	h.Write("password", inSecret+"\n")
	section := "  - platform: fake\n    duration: 0.2\n    final: 1\n    token: "
	return h.Experiment(endtoend.Plan{Trials: 6, Concurrency: 3,
		Platform: section + inFile + "\n" + section + "${env:PLANTED}\n" + section + "${file:password}\n"})
}

func TestPlantedSecretsAreFoundInTheirOwnFilesOnly(t *testing.T) {
	h := endtoend.NewHome(t).With("PLANTED=" + inVariable)
	said := h.Must("validate", credentialed(h), "--output", "json")
	run := h.Follow(credentialed(h))
	require.Equal(t, "DONE", run.Finished(endtoend.Patience).Status)
	require.Equal(t, 6, h.Show(run.ID()).Trials["SUCCEEDED"], "every reference was resolved where it was needed")
	id := run.ID()
	said += h.Must("show", id) + h.Must("show", id, "--output", "json") + h.Must("trials", id, "--output", "json")
	said += h.Must("show", id, "--env") + h.Must("export", id, "--format", "json")
	for _, secret := range planted {
		require.NotContains(t, said, secret)
	}
	h.Must("serve", "--stop")

	allowed := map[string]string{
		filepath.Join(h.Dir, "experiments", id, "environment"): inVariable,
		filepath.Join(h.Dir, "experiments", id, "secrets"):     inFile,
	}
	require.Equal(t, allowed, places(t, h.Dir))
	for path := range allowed {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), path)
	}
	requireSearched(t, h, id)
}

// places maps every file that holds a planted secret to the secrets in it.
func places(t *testing.T, directory string) map[string]string {
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		for _, secret := range planted {
			if bytes.Contains(content, []byte(secret)) {
				found[path] += secret
			}
		}
		return err
	}))
	return found
}

// requireSearched shows that the search would have found something: what is no
// secret is there in clear.
func requireSearched(t *testing.T, h *endtoend.Home, id string) {
	for file, plain := range map[string]string{"temporal/temporal.db": "experiment-" + id, "record.sqlite": "${secret:trainingService/0/token}"} {
		var content []byte
		for _, part := range []string{"", "-wal"} {
			more, _ := os.ReadFile(filepath.Join(h.Dir, file+part))
			content = append(content, more...)
		}
		require.Contains(t, string(content), plain, file)
	}
}

func TestNoProcessButTheTrialHoldsASecretOfTheCaller(t *testing.T) {
	h := endtoend.NewHome(t).With("PLANTED=" + inVariable)
	run := h.Follow(h.Experiment(endtoend.Plan{Trials: 1, Concurrency: 1, Script: "#!/bin/sh\nexec sleep 600\n"}))
	h.AwaitRunning(run.ID(), 1)
	h.Await("the trial's own process", func() bool { return holds(h, endtoend.InTrial) })
	for _, process := range h.Processes() {
		arguments, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", process.PID))
		require.NotContains(t, string(arguments), inVariable, process)
	}
	require.NotEmpty(t, h.Processes(endtoend.Host))
	require.NotEmpty(t, h.Processes(endtoend.Runner))
	require.False(t, holds(h, endtoend.Host, endtoend.Runner), "what lives long keeps nothing of one caller")
}

// holds tells whether a process of these roles has the caller's secret in its
// environment.
func holds(h *endtoend.Home, roles ...endtoend.Role) bool {
	for _, process := range h.Processes(roles...) {
		environment, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", process.PID))
		if bytes.Contains(environment, []byte(inVariable)) {
			return true
		}
	}
	return false
}

func TestHistoryIsEncryptedAndTheRightDoorReadsIt(t *testing.T) {
	h := endtoend.NewHome(t)
	run := h.Follow(h.Experiment(endtoend.Plan{Trials: 1, Concurrency: 1, Platform: "  platform: fake\n  duration: 0.2\n  final: 1\n"}))
	require.Equal(t, "DONE", run.Finished(endtoend.Patience).Status)
	view := h.Show(run.ID())
	temporal := h.Temporal(run.ID())
	defer temporal.Close()
	events := endtoend.History(t, temporal, view.Temporal.WorkflowID, "")
	input := events[0].GetWorkflowExecutionStartedEventAttributes().GetInput()
	require.NotEmpty(t, input.GetPayloads())
	for _, payload := range input.Payloads {
		require.Equal(t, "binary/encrypted", string(payload.Metadata["encoding"]))
	}
	token, err := os.ReadFile(view.Temporal.TokenFile)
	require.NoError(t, err)
	decoded := decode(t, base(t, view.Temporal.WebUI), "Bearer "+strings.TrimSpace(string(token)), input)
	require.Equal(t, "json/plain", string(decoded.Payloads[0].Metadata["encoding"]))
}

func TestASignalThatIsNotEncryptedIsUnderstood(t *testing.T) {
	h := endtoend.NewHome(t)
	run := h.Follow(h.Experiment(endtoend.Plan{Trials: 1, Concurrency: 1, Platform: "  platform: fake\n  duration: 600\n"}))
	h.AwaitRunning(run.ID(), 1)
	temporal := h.Temporal(run.ID())
	defer temporal.Close()
	require.NoError(t, temporal.SignalWorkflow(context.Background(), "experiment-"+run.ID()+"/trial-0", "", "early-stop", nil))
	require.Equal(t, "DONE", run.Finished(endtoend.Patience).Status)
	require.Equal(t, "EARLY_STOPPED", h.Trial(run.ID(), 0).State)
}

func TestAHostWithoutItsKeysSaysHowToGoOnAndThenGoesOn(t *testing.T) {
	h := endtoend.NewHome(t)
	run := h.Follow(h.Experiment(endtoend.Plan{Trials: 2, Concurrency: 1, Platform: "  platform: fake\n  duration: 8\n  final: 1\n"}))
	h.AwaitRunning(run.ID(), 1)
	h.Must("keys", "--rotate")
	h.KillAndAwait(endtoend.CLI)
	h.KillAndAwait(endtoend.Host)
	require.NoError(t, os.RemoveAll(filepath.Join(h.Dir, "keys")))
	refused := h.Run("resume", run.ID())
	require.Equal(t, 4, refused.Code, "%+v", refused)
	database := filepath.Join(h.Dir, "temporal")
	require.Contains(t, refused.Stderr, "mv '"+database+"' '"+database+".lost'")
	require.NoDirExists(t, filepath.Join(h.Dir, "keys"))

	require.NoError(t, os.Rename(database, database+".lost"))
	again := h.Start("resume", run.ID(), "--output", "json")
	require.Equal(t, "DONE", again.Finished(endtoend.Patience).Status)
	require.Equal(t, 2, h.Show(run.ID()).Trials["SUCCEEDED"])
	for _, trial := range h.Trials(run.ID()) {
		require.Equal(t, 1, trial.Attempts, "nothing ran twice")
	}
}
