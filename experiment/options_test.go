package experiment

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const machinesInV2 = `trialConcurrency: 2
trialCommand: ./train.sh
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
tuner: {name: Random}
trainingService:
  - platform: local
  - platform: remote
    machine_list:
      - host: gpu1
      - HOST: gpu2
        directory: data
`

const machinesInV1 = `trialConcurrency: 2
searchSpacePath: search_space.json
tuner: {builtinTunerName: Random}
trainingServicePlatform: remote
trial: {command: ./train.sh, codeDir: .}
machineList:
  - ip: gpu1
    username: ada
  - ip: gpu2
    sshKeyPath: wrong.json
remoteConfig: {reuse: true}
`

// odd is a build whose platform remote finds these fields odd.
func odd(fields ...string) Build {
	build := everything()
	build.CheckPlatform = func(name string, _ json.RawMessage) (faults []OptionFault) {
		for _, field := range fields {
			if name == "remote" {
				faults = append(faults, OptionFault{Field: field, Message: "is odd", Hint: "make it even"})
			}
		}
		return faults
	}
	return build
}

// blame says where a file has which faults.
func blame(t *testing.T, content string, build Build) (places []string) {
	_, err := Parse(filepath.Join("testdata", "bad", "experiment.yml"), []byte(content), build)
	for _, f := range faultsOf(t, err) {
		places = append(places, fmt.Sprintf("%d:%d %s %s", f.Line, f.Column, f.Field, f.Message))
	}
	return places
}

func TestFaultsOfAPlatformsOptionsPointAtTheirFields(t *testing.T) {
	for field, want := range map[string]string{
		"":                          "7:15 trainingService[1].platform",
		"machineList":               "9:7 trainingService[1].machine_list",
		"machineList[0]":            "9:9 trainingService[1].machine_list[0]",
		"machineList[0].host":       "9:15 trainingService[1].machine_list[0].host",
		"machineList[1].host":       "10:15 trainingService[1].machine_list[1].HOST",
		"machineList[1].directory":  "11:20 trainingService[1].machine_list[1].directory",
		"machineList[0].sshKeyFile": "9:9 trainingService[1].machine_list[0].sshKeyFile",
		"machineList[7].host":       "9:7 trainingService[1].machine_list",
		"sshConfigFile":             "7:5 trainingService[1].sshConfigFile",
		"reuseMode":                 "7:5 trainingService[1].reuseMode",
	} {
		require.Equal(t, []string{want + " is odd"}, blame(t, machinesInV2, odd(field)), field)
	}
}

func TestFaultsOfAPlatformsOptionsPointAtTheirFieldsInTheV1SchemaToo(t *testing.T) {
	for field, want := range map[string]string{
		"":                          "4:26 trainingServicePlatform",
		"machineList":               "7:3 machineList",
		"machineList[0].host":       "7:9 machineList[0].ip",
		"machineList[0].user":       "8:15 machineList[0].username",
		"machineList[1].user":       "9:5 machineList[1].username",
		"machineList[1].sshKeyFile": "10:17 machineList[1].sshKeyPath",
		"reuseMode":                 "11:23 remoteConfig.reuse",
	} {
		require.Equal(t, []string{want + " is odd"}, blame(t, machinesInV1, odd(field)), field)
	}
}

func TestAllFaultsOfAPlatformsOptionsAreReportedAtOnce(t *testing.T) {
	require.Equal(t, []string{
		"9:15 trainingService[1].machine_list[0].host is odd", "10:15 trainingService[1].machine_list[1].HOST is odd",
		"11:20 trainingService[1].machine_list[1].directory is odd",
	}, blame(t, machinesInV2, odd("machineList[1].directory", "machineList[0].host", "machineList[1].host")))
	_, err := Parse("testdata/bad/experiment.yml", []byte(machinesInV2), odd("machineList[0].host"))
	require.Equal(t, "make it even", faultsOf(t, err)[0].Hint)
}

func TestAPlatformDoesNotRepeatWhatIsKnownToBeWrong(t *testing.T) {
	content := strings.NewReplacer("host: gpu1", "hoost: gpu1", "directory: data", "port: 3").Replace(machinesInV2)
	require.Equal(t, []string{
		"9:9 trainingService[1].machine_list[0].hoost no such key",
		"11:15 trainingService[1].machine_list[1].port is odd",
	}, blame(t, content, odd("machineList", "machineList[0].host", "machineList[1].port")))
}

func TestAMachineThatCannotBeReadDoesNotMoveTheFaultsOfOthers(t *testing.T) {
	require.Equal(t, []string{
		`9:9 trainingService[1].machine_list[0] must be a mapping, not the text "gpu1"`,
		"10:15 trainingService[1].machine_list[1].HOST is odd",
	}, blame(t, strings.Replace(machinesInV2, "- host: gpu1", "- gpu1", 1), odd("machineList[0].host")))
}

func TestAKeyFileBesideAPasswordIsWarnedAbout(t *testing.T) {
	for content, want := range map[string]string{
		strings.Replace(machinesInV2, "directory: data", "password: hunter2\n        sshKeyFile: nowhere", 1): "trainingService[1].machine_list[1].sshKeyFile",
		strings.Replace(machinesInV1, "sshKeyPath", "passwd: hunter2\n    sshKeyPath", 1):                     "machineList[1].sshKeyPath",
	} {
		loaded, err := Parse("testdata/bad/experiment.yml", []byte(content), everything())
		require.NoError(t, err)
		require.Contains(t, loaded.Warnings[len(loaded.Warnings)-1].String(), want+": is not used: the machine has a password")
	}
}

func TestADirectoryOfAnImageIsNoneOfThisMachines(t *testing.T) {
	e := Experiment{Platforms: []Platform{{Name: "adl", CodeDirectory: "trial"}, {Name: "local", CodeDirectory: "/code"}}}
	var places []string
	for _, place := range e.CodeDirectories() {
		places = append(places, *place)
	}
	require.Equal(t, []string{"", "/code"}, places)
}
