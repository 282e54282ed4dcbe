package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// variables are an environment.
type variables map[string]string

func (v variables) Environ() (list []string) {
	for _, name := range slices.Sorted(maps.Keys(v)) {
		list = append(list, name+"="+v[name])
	}
	return list
}

func (v variables) LookupEnv(name string) (string, bool) {
	value, found := v[name]
	return value, found
}

// nowhere has no file of profiles.
func nowhere(t *testing.T) string { return filepath.Join(t.TempDir(), "missing.toml") }

func TestTheEmbeddedServerIsMeantWhereNoAddressIsGiven(t *testing.T) {
	for _, given := range []variables{{}, {"TEMPORAL_NAMESPACE": "mine"}, {"TEMPORAL_ADDRESS": ""}, {"TEMPORAL_ADDRESS": "", "TEMPORAL_API_KEY": "k"}} {
		given["TEMPORAL_CONFIG_FILE"] = nowhere(t)
		found, err := findExternal(given)
		require.NoError(t, err, "%v", given)
		require.Nil(t, found, "%v", given)
	}
}

func TestVariablesNameATemporal(t *testing.T) {
	found, err := findExternal(variables{"TEMPORAL_CONFIG_FILE": nowhere(t), "TEMPORAL_ADDRESS": "temporal.example.org:7233",
		"TEMPORAL_UI": "https://temporal.example.org/"})
	require.NoError(t, err)
	require.Equal(t, "temporal.example.org:7233", found.options.HostPort)
	require.Equal(t, "default", found.options.Namespace)
	require.Nil(t, found.options.ConnectionOptions.TLS)
	require.Equal(t, "https://temporal.example.org", found.WebUI())
	require.False(t, found.encrypt)
}

func TestAnAPIKeyTurnsTLSOn(t *testing.T) {
	found, err := findExternal(variables{"TEMPORAL_CONFIG_FILE": nowhere(t), "TEMPORAL_ADDRESS": "eu.example.org:7233",
		"TEMPORAL_NAMESPACE": "mine", "TEMPORAL_API_KEY": "planted-secret", "PERENNIAL_ENCRYPT": "true"})
	require.NoError(t, err)
	require.NotNil(t, found.options.ConnectionOptions.TLS)
	require.NotNil(t, found.options.Credentials)
	require.True(t, found.encrypt)
}

func TestAProfileNamesATemporalAndVariablesComeFirst(t *testing.T) {
	file := filepath.Join(t.TempDir(), "temporal.toml")
	require.NoError(t, os.WriteFile(file, []byte("[profile.work]\naddress = \"work.example.org:7233\"\nnamespace = \"team\"\n"), 0o600))
	given := variables{"TEMPORAL_CONFIG_FILE": file, "TEMPORAL_PROFILE": "work"}
	found, err := findExternal(given)
	require.NoError(t, err)
	require.Equal(t, "work.example.org:7233", found.options.HostPort)
	require.Equal(t, "team", found.options.Namespace)
	given["TEMPORAL_NAMESPACE"] = "mine"
	found, err = findExternal(given)
	require.NoError(t, err)
	require.Equal(t, "mine", found.options.Namespace)
}

func TestSettingsThatMakeNoSenseSayWhatToDo(t *testing.T) {
	for want, given := range map[string]variables{
		"set TEMPORAL_ADDRESS too":       {"TEMPORAL_API_KEY": "k"},
		"profile":                        {"TEMPORAL_PROFILE": "missing"},
		"TEMPORAL_*":                     {"TEMPORAL_ADDRESS": "a:1", "TEMPORAL_TLS_CLIENT_CERT_PATH": "/missing/certificate"},
		`PERENNIAL_ENCRYPT is "perhaps"`: {"TEMPORAL_ADDRESS": "a:1", "PERENNIAL_ENCRYPT": "perhaps"},
	} {
		given["TEMPORAL_CONFIG_FILE"] = nowhere(t)
		_, err := findExternal(given)
		require.ErrorContains(t, err, want)
	}
}
