package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perennial-ml/perennial/experiment"
	"github.com/stretchr/testify/require"
)

const remoteInV2 = `trialConcurrency: 2
trialCommand: ./train.sh
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
tuner: {name: Random}
trainingService:
  platform: remote
  machineList:
    - host: -oProxyCommand=x
    - {host: gpu2, user: ada}
    - {host: gpu2, user: ada, directory: disk}
`

const faultsInV2 = `experiment.yml:8:13: trainingService.machineList[0].host: no host begins with a dash, and ssh would take it for an option
        - host: -oProxyCommand=x
                ^
    hint: a name or address, or a Host of ~/.ssh/config; user and port are keys of their own
experiment.yml:10:14: trainingService.machineList[2].host: machine ada@gpu2 is there twice
        - {host: gpu2, user: ada, directory: disk}
                 ^
    hint: it is machineList[1] already: remove one of them
experiment.yml:10:42: trainingService.machineList[2].directory: must begin with / or ~/
        - {host: gpu2, user: ada, directory: disk}
                                             ^
    hint: "~/disk" is below the home directory there`

const remoteInV1 = `trialConcurrency: 2
searchSpacePath: space.json
tuner: {builtinTunerName: Random}
trainingServicePlatform: remote
trial: {command: ./train.sh, codeDir: .}
machineList:
  - {ip: gpu 1, username: ada, sshKeyPath: key}
  - {ip: gpu2, username: ada}
  - {ip: gpu2, username: ada}
`

const faultsInV1 = `experiment.yml:7:10: machineList[0].ip: no host has blanks in it
      - {ip: gpu 1, username: ada, sshKeyPath: key}
             ^
    hint: a name or address, or a Host of ~/.ssh/config; user and port are keys of their own
experiment.yml:7:44: machineList[0].sshKeyPath: there is no such key file
      - {ip: gpu 1, username: ada, sshKeyPath: key}
                                               ^
    hint: it was looked for at HERE/key
experiment.yml:9:10: machineList[2].ip: machine ada@gpu2 is there twice
      - {ip: gpu2, username: ada}
             ^
    hint: it is machineList[1] already: remove one of them`

func TestEveryFaultOfAMachineListIsShownWhereItStands(t *testing.T) {
	here, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	t.Chdir(here)
	require.NoError(t, os.WriteFile("space.json", []byte(`{"x": {"_type": "choice", "_value": [1]}}`), 0o600))
	for content, want := range map[string]string{remoteInV2: faultsInV2, remoteInV1: faultsInV1} {
		_, err := experiment.Parse("experiment.yml", []byte(content), build())
		require.EqualError(t, err, strings.ReplaceAll(want, "HERE", here))
	}
}
