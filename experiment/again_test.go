package experiment

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheFileOfAnExperimentGivesItAgain(t *testing.T) {
	t.Setenv("HOME", "/home/nobody")
	eachFile(t, "testdata/good/*.yml", func(t *testing.T, file, _ string) {
		loaded, err := Load(file, buildFor(file))
		require.NoError(t, err)
		before, err := json.Marshal(loaded.Experiment)
		require.NoError(t, err)
		text, err := File(before)
		require.NoError(t, err)
		again, err := Parse("again.yml", text, buildFor(file))
		require.NoError(t, err, "%s", text)
		after, err := json.Marshal(again.Experiment)
		require.NoError(t, err)
		// Where a framework was read from is not needed once it is there.
		source := regexp.MustCompile(`"configPath":"[^"]*",`)
		require.JSONEq(t, source.ReplaceAllString(string(before), ""), source.ReplaceAllString(string(after), ""))
	})
}

func TestOneValueOfAFileIsSet(t *testing.T) {
	file := []byte("trialConcurrency: 1\ntuner:\n    name: TPE\ntrainingService:\n    - platform: local\n")
	for _, change := range []string{"trialConcurrency=8", "tuner.classArgs.optimize_mode=maximize", "trainingService.0.trialCommand=python3 a.py --x=1",
		"searchSpace={x: {_type: uniform, _value: [0, 5.0]}}"} {
		var err error
		file, err = Set(file, change)
		require.NoError(t, err)
	}
	require.Equal(t, "trialConcurrency: 8\ntuner:\n    name: TPE\n    classArgs:\n        optimize_mode: maximize\ntrainingService:\n"+
		"    - platform: local\n      trialCommand: python3 a.py --x=1\nsearchSpace: {x: {_type: uniform, _value: [0, 5.0]}}\n", string(file))
	for _, change := range []string{"", "trialConcurrency", "=8", "trialConcurrency.more=8", "trainingService.1.platform=local", "tuner={", "tuner="} {
		_, err := Set(file, change)
		require.Error(t, err, change)
	}
}
