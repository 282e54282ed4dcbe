package remote

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
)

func faultsOf(t *testing.T, section string) platforms.OptionFaults {
	err := CheckOptions(json.RawMessage(section))
	if err == nil {
		return nil
	}
	var faults platforms.OptionFaults
	require.ErrorAs(t, err, &faults, section)
	return faults
}

func TestEveryFaultOfASectionNamesItsFieldAndWhatWouldBeRight(t *testing.T) {
	for section, want := range map[string][]string{
		``:                                  {"machineList"},
		`{"machineList":[]}`:                {"machineList"},
		`{"machineList":[{"user":"ada"}]}`:  {"machineList[0].host"},
		`{"machineList":[{"host":"-p 1"}]}`: {"machineList[0].host"},
		`{"machineList":[{"host":"a"},{"host":"ssh b"},{"host":"a\tb"},{"host":"c","directory":"d"}]}`: {
			"machineList[1].host", "machineList[2].host", "machineList[3].directory"},
		`{"machineList":[{"host":"-a","directory":"b"},{"host":"-a"}]}`: {
			"machineList[0].host", "machineList[0].directory", "machineList[1].host", "machineList[1].host"},
	} {
		var fields []string
		for _, fault := range faultsOf(t, section) {
			require.NotEmpty(t, fault.Message)
			require.NotEmpty(t, fault.Hint)
			fields = append(fields, fault.Field)
		}
		require.Equal(t, want, fields, section)
	}
}

func TestAMachineIsOneByHostPortAndUserWhateverItsDirectory(t *testing.T) {
	for other, twice := range map[string]bool{
		`{"host":"a","port":2,"user":"u"}`:                     true,
		`{"host":"a","port":2,"user":"u","directory":"/disk"}`: true,
		`{"host":"b","port":2,"user":"u"}`:                     false,
		`{"host":"a","port":3,"user":"u"}`:                     false,
		`{"host":"a","port":2,"user":"v"}`:                     false,
	} {
		faults := faultsOf(t, `{"machineList":[{"host":"a","port":2,"user":"u"},`+other+`]}`)
		require.Equal(t, twice, len(faults) > 0, other)
		for _, fault := range faults {
			require.Equal(t, "machineList[1].host: machine u@a:2 is there twice (it is machineList[0] already: remove one of them)", fault.Error())
		}
	}
}

func TestAReferenceIsNoFaultAndWhatItStandsForMayBe(t *testing.T) {
	const section = `{"machineList":[{"host":"${file:my hosts/first}","directory":"${env:DISK}"}]}`
	require.Empty(t, faultsOf(t, section))
	_, err := parse(json.RawMessage(`{"machineList":[{"host":"gpu 1","directory":"disk"}]}`))
	require.ErrorContains(t, err, "no host has blanks in it")
	require.ErrorContains(t, err, "must begin with / or ~/")
}

func TestAHandleNamesTheMachineAsEverythingElseDoes(t *testing.T) {
	for _, address := range []Address{{Host: "gpu1"}, {Host: "gpu1", Port: 22, User: "ada"}, {Host: "gpu1", Port: 2222, Directory: "/disk"}} {
		require.Equal(t, address.String(), placement{Address: address}.handle().Host)
	}
	require.Empty(t, placement{}.handle().Host, "an attempt that was kept from starting is on no machine")
}
