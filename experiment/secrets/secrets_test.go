package secrets_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/experiment/secrets"
)

func with(options string) *experiment.Experiment {
	return &experiment.Experiment{Platforms: []experiment.Platform{{Name: "fake", Options: json.RawMessage(options)}}}
}

func resolve(t *testing.T, options json.RawMessage, file string) string {
	resolved, err := secrets.Resolve(options, secrets.Sources{File: file, LookupEnv: noVariables})
	require.NoError(t, err)
	return string(resolved)
}

func noVariables(string) (string, bool) { return "", false }

func TestInlineSecretsMoveIntoTheFileAndComeBackAsTheyWere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "experiments", "abc", "secrets")
	written := `{"host":"pai.example","token":"tok-1234567","machineList":[{"user":"ada","passwd":"pw <&> 1"},{"sshPassphrase":12e1,"port":22}],"accessKeyId":"public","accessKeySecret":{"deep":["aks-value"]},"rate":5.0,"password":null}`
	e := with(written)
	e.SharedStorage = json.RawMessage(`{"storageAccountName":"a","storageAccountKey":"sak-value"}`)
	require.NoError(t, secrets.Externalize(e, file))

	left, err := json.Marshal(e)
	require.NoError(t, err)
	for _, secret := range []string{"tok-1234567", "pw ", "12e1", "aks-value", "sak-value"} {
		require.NotContains(t, string(left), secret)
	}
	for _, open := range []string{"pai.example", "ada", "public", "5.0", `"port":22`} {
		require.Contains(t, string(left), open)
	}
	require.JSONEq(t, written, resolve(t, e.Platforms[0].Options, file))
	require.Contains(t, resolve(t, e.Platforms[0].Options, file), `"rate":5.0`)
	require.JSONEq(t, `{"storageAccountName":"a","storageAccountKey":"sak-value"}`, resolve(t, e.SharedStorage, file))
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestReferencesStayAndAreResolvedOnlyWhenAsked(t *testing.T) {
	directory := t.TempDir()
	file := filepath.Join(directory, "secrets")
	require.NoError(t, os.WriteFile(filepath.Join(directory, "pw"), []byte("from a file\n"), 0o600))
	options := `{"token":"${env:TOKEN}","password":"${file:` + directory + `/pw}","note":"$HOME and ${x}"}`
	e := with(options)
	require.NoError(t, secrets.Externalize(e, file))
	require.JSONEq(t, options, string(e.Platforms[0].Options))
	require.NoFileExists(t, file)

	resolved, err := secrets.Resolve(e.Platforms[0].Options, secrets.Sources{File: file, LookupEnv: func(name string) (string, bool) {
		return "of " + name, true
	}})
	require.NoError(t, err)
	require.JSONEq(t, `{"token":"of TOKEN","password":"from a file","note":"$HOME and ${x}"}`, string(resolved))
}

func TestMovingTwiceIsMovingOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secrets")
	e := with(`{"token":"once"}`)
	require.NoError(t, secrets.Externalize(e, file))
	first := string(e.Platforms[0].Options)
	require.NoError(t, secrets.Externalize(e, file))
	require.Equal(t, first, string(e.Platforms[0].Options))
	require.JSONEq(t, `{"token":"once"}`, resolve(t, e.Platforms[0].Options, file))
}

func TestWithoutSecretsNothingChangesAndThereIsNoFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secrets")
	for _, options := range []string{"", "{}", `{"duration":5.0,"rules":[]}`} {
		e := with(options)
		require.NoError(t, secrets.Externalize(e, file))
		require.Equal(t, options, string(e.Platforms[0].Options))
	}
	require.NoFileExists(t, file)
}

func TestWhateverIsMovedComesBack(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secrets")
	rapid.Check(t, func(r *rapid.T) {
		keys := rapid.SampledFrom([]string{"token", "a/b", "password", "~", "list", "}"})
		values := rapid.OneOf(rapid.Just(any(nil)), rapid.String().AsAny(), rapid.Int().AsAny(), rapid.Bool().AsAny())
		whole := map[string]any{
			"open":   rapid.MapOf(keys, values).Draw(r, "open"),
			"secret": rapid.SliceOf(rapid.MapOf(keys, values)).Draw(r, "secret"),
		}
		written, err := json.Marshal(whole)
		require.NoError(r, err)
		e := with(string(written))
		require.NoError(r, secrets.Externalize(e, file))
		resolved, err := secrets.Resolve(e.Platforms[0].Options, secrets.Sources{File: file, LookupEnv: noVariables})
		require.NoError(r, err)
		require.JSONEq(r, string(written), string(resolved))
	})
}

func TestRedactedIsWhatPeopleSee(t *testing.T) {
	e := with(`{"token":"tok","password":"${env:PW}","host":"h"}`)
	require.NoError(t, secrets.Redact(e))
	require.JSONEq(t, `{"token":"***","password":"${env:PW}","host":"h"}`, string(e.Platforms[0].Options))
}

func TestWhatCannotBeResolvedIsNamedWithoutAnyValue(t *testing.T) {
	directory := t.TempDir()
	for reference, said := range map[string]string{
		"${env:GONE}":                       "${env:GONE}, named by token: that variable was not set",
		"${file:" + directory + "/gone}":    "no such file",
		"${secret:trainingService/0/token}": "no such file",
		"${vault:x}":                        "no such kind of reference",
	} {
		_, err := secrets.Resolve(json.RawMessage(`{"token":"`+reference+`"}`),
			secrets.Sources{File: filepath.Join(directory, "secrets"), LookupEnv: noVariables})
		require.ErrorContains(t, err, said)
	}
}

func TestASecretFileThatIsDamagedOrNewerIsExplained(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secrets")
	options := json.RawMessage(`{"token":"${secret:trainingService/0/token}"}`)
	for content, said := range map[string]string{
		"soup":                      "is damaged",
		`{"format":2,"values":{}}`:  "update starter",
		`{"format":1,"values":{}}`:  "does not hold it",
		`{"format":1,"values":null`: "is damaged",
	} {
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		_, err := secrets.Resolve(options, secrets.Sources{File: file, LookupEnv: noVariables})
		require.ErrorContains(t, err, said)
	}
}
