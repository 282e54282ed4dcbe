package experiment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sections are a training service and a shared storage with a value each.
const sections = minimal + "sharedStorage: {storageType: AzureBlob, localMountPoint: /, remoteMountPoint: /m, localMounted: usermount, storageAccountName: a, storageAccountKey: VALUE, containerName: c}\n"

func referring(t *testing.T, value string) (*Loaded, error) {
	directory := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(directory, "key"), []byte("x"), 0o600))
	build := everything()
	build.LookupEnv = func(name string) (string, bool) { return "", name == "EMPTY_BUT_SET" }
	content := strings.Replace(sections, "VALUE", `"`+value+`"`, 1)
	return Parse(filepath.Join(directory, "experiment.yml"), []byte(content), build)
}

func TestReferencesToWhatIsThereAreKept(t *testing.T) {
	loaded, err := referring(t, "${env:EMPTY_BUT_SET}")
	require.NoError(t, err)
	require.Contains(t, string(loaded.Experiment.SharedStorage), `"${env:EMPTY_BUT_SET}"`)
	loaded, err = referring(t, "${file:key}")
	require.NoError(t, err)
	require.Contains(t, string(loaded.Experiment.SharedStorage), `"${file:`+filepath.Join(filepath.Dir(loaded.Path), "key")+`}"`)
}

func TestReferencesToNothingAreFaultsWithTheirPlace(t *testing.T) {
	for value, message := range map[string]string{
		"${env:GONE}":   `the environment variable "GONE" is not set`,
		"${env:}":       `the environment variable "" is not set`,
		"${file:gone}":  `the file "gone" cannot be read: no such file or directory`,
		"${file:.}":     `"." is a directory`,
		"${vault:a/b}":  "is a reference of no known kind",
		"${secret:a/b}": "is a reference of no known kind",
	} {
		_, err := referring(t, value)
		faults := faultsOf(t, err)
		require.Len(t, faults, 1, value)
		require.Equal(t, message, faults[0].Message)
		require.Equal(t, "sharedStorage.storageAccountKey", faults[0].Field)
		require.Contains(t, err.Error(), value, "a reference is no secret and is shown")
	}
}

func TestWhatOnlyLooksLikeAReferenceStaysText(t *testing.T) {
	for _, value := range []string{"$HOME", "${HOME}", "a ${env:GONE}", "${env:GONE} b"} {
		loaded, err := referring(t, value)
		require.NoError(t, err, value)
		require.Contains(t, string(loaded.Experiment.SharedStorage), value)
	}
}
