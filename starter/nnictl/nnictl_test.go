package nnictl

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/perennial-ml/perennial/starter/command"
	"github.com/stretchr/testify/require"
)

func TestALineIsNnictlsByTheProgramsNameOrByAWordThatStarterDoesNotHave(t *testing.T) {
	for line, args := range map[string]string{
		"/usr/bin/nnictl stop --all": "stop --all", "starter nnictl update trialnum -v 3": "update trialnum -v 3",
		"bin/starter create -c e.yml": "create -c e.yml", "starter trial ls": "trial ls", "nnictl": "",
	} {
		got, meant := Meant(strings.Fields(line))
		require.True(t, meant, line)
		require.Equal(t, args, strings.Join(got, " "), line)
	}
	for _, line := range []string{"starter", "starter stop k3v", "starter trials", "nnictl/starter update concurrency 3", "starter platform check x"} {
		_, meant := Meant(strings.Fields(line))
		require.False(t, meant, line)
	}
}

// known are NNI 3.0's commands, and those of 1.9 and 2.x that it has no more.
var known = strings.Fields(`create resume view stop update/searchspace update/concurrency update/duration update/trialnum
	trial/ls trial/kill trial/export trial/codegen experiment/show experiment/status experiment/list experiment/delete
	experiment/import experiment/export experiment/save experiment/load platform/clean webui/url webui/nas config/show
	log/stdout log/stderr log/trial algo/register algo/unregister algo/show algo/list trainingservice/register
	trainingservice/unregister trainingservice/list package ss_gen hello jupyter-extension/install
	jupyter-extension/uninstall tensorboard top`)

func TestEveryCommandOfNNIIsKnownAndThoseThatAreGoneSayWhatToDo(t *testing.T) {
	refused := 0
	for _, words := range known {
		var out, err bytes.Buffer
		args := strings.Split(words, "/")
		code := Main(t.Context(), command.World{Args: append(args, "--help"), Out: &out, Err: &err})
		if code != command.ExitDone {
			require.Contains(t, err.String(), "nnictl "+strings.Join(args, " ")+" is not here: ", words)
			refused++
			continue
		}
		require.Contains(t, out.String(), "nnictl "+strings.Join(args, " "), words)
	}
	require.Equal(t, len(absent), refused)
}

func TestTheHighestAndTheLowestResultsAreThoseThatDecide(t *testing.T) {
	var jobs []object
	require.NoError(t, json.Unmarshal([]byte(`[
		{"trialJobId": "a", "finalMetricData": [{"data": "\"0.5\""}]}, {"trialJobId": "b"},
		{"trialJobId": "c", "finalMetricData": [{"data": "\"{\\\"default\\\": 2, \\\"loss\\\": 9}\""}]},
		{"trialJobId": "d", "finalMetricData": [{"data": "\"\\\"words\\\"\""}]},
		{"trialJobId": "e", "finalMetricData": [{"data": "\"-1\""}]}]`), &jobs))
	ids := func(list []object) (text string) {
		for _, job := range list {
			text += job["trialJobId"].(string)
		}
		return text
	}
	require.Equal(t, "ca", ids(best(append([]object{}, jobs...), 2, 0)))
	require.Equal(t, "eac", ids(best(append([]object{}, jobs...), 0, 9)))
	require.Equal(t, "abcde", ids(best(jobs, 0, 0)))
}
