package frameworkcontroller

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
)

func check(options string) error { return New(Options{}).Check(json.RawMessage(options)) }

func TestAFrameworkThatNoTrialCanRunInIsRefusedByItsPlace(t *testing.T) {
	const role = `{"name": "a", "task": {"pod": {"spec": {"containers": [{"image": "i", "command": ["true"]}]}}}}`
	for text, wanted := range map[string]string{
		`{"kind": "Job"}`: "it is no Framework",
		`{"kind": "Framework", "metadata": {"name": "f"}, "spec": {"taskRoles": [` + role + `,` + role + `]}}`:                                                                              "spec.taskRoles[1].name is missing, or there twice",
		`{"kind": "Framework", "metadata": {"name": "f"}, "spec": {"taskRoles": [{"name": "a", "task": {"pod": {"spec": {"containers": []}}}}]}}`:                                           "spec.taskRoles[0].task.pod.spec.containers must be a list of one container",
		`{"kind": "Framework", "metadata": {"name": "f"}, "spec": {"taskRoles": [{"name": "a", "task": {"pod": {"spec": {"containers": [{"image": "i"}]}}}}]}}`:                             "spec.taskRoles[0].task.pod.spec.containers[0].command is missing",
		`{"kind": "Framework", "metadata": {"name": "f"}, "spec": {"taskRoles": [{"name": "a", "task": {"pod": {"spec": {"containers": [{"command": ["sh", "-c", "it's one word"]}]}}}}]}}`: "spec.taskRoles[0].task.pod.spec.containers[0].image is missing",
	} {
		err := check(`{"framework": ` + text + `}`)
		var faults platforms.OptionFaults
		require.ErrorAs(t, err, &faults, text)
		require.Len(t, faults, 1)
		require.Equal(t, "framework", faults[0].Field)
		require.Equal(t, wanted, faults[0].Message)
	}
	require.NoError(t, check(`{"framework": {"kind": "Framework", "metadata": {"name": "f"}, "spec": {"taskRoles": [`+role+`]}}}`))
}

func TestAFileWithoutCredentialsOfARegistryIsRefusedAndNotQuoted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"auth": "a-secret"}`), 0o600))
	options, err := json.Marshal(map[string]any{"storage": map[string]any{"storageType": "nfs"},
		"taskRoles": []any{map[string]any{"name": "a", "taskNumber": 1, "privateRegistryAuthPath": file}}})
	require.NoError(t, err)
	err = check(string(options))
	require.ErrorContains(t, err, "taskRoles[0].privateRegistryAuthPath: holds no credentials of a registry")
	require.NotContains(t, err.Error(), "a-secret")
}
