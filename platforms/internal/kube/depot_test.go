package kube

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/perennial-ml/perennial/platforms"
)

func TestThePodThatBringsCodeIsWhereTrialsAreAndRunsNothingOfTheirs(t *testing.T) {
	code := object{"name": "code", "persistentVolumeClaim": object{"claimName": "code"}}
	other := object{"name": "other", "emptyDir": object{}}
	security := object{"allowPrivilegeEscalation": false}
	theirs := object{"name": "main", "image": "theirs:1", "command": []any{"train"}, "securityContext": security,
		"resources": object{"limits": object{"nvidia.com/gpu": "1"}}}
	pod, _, fault := PodOfTemplate(object{"spec": object{"containers": []any{theirs}, "volumes": []any{code, other},
		"initContainers": []any{object{"name": "first"}}, "nodeSelector": object{"disk": "fast"}}})
	require.Nil(t, fault)
	pod.Patch = object{"spec": object{"securityContext": object{"runAsNonRoot": true}}}
	s := &site{section: Section{Roles: []Role{{Pod: pod}}}, job: batchJob,
		platform: &platform{kind: &kind{Options: Options{Traits: platforms.Traits{Name: "kubeflow"}}}, section: platforms.Section{Experiment: "abcdefgh"}}}
	made, err := s.depotPod("code")
	require.NoError(t, err)
	of := func(fields ...string) any {
		found, _, _ := unstructured.NestedFieldNoCopy(made.Object, fields...)
		return found
	}
	require.Equal(t, []any{code}, of("spec", "volumes"))
	require.Nil(t, of("spec", "initContainers"))
	require.Equal(t, object{"disk": "fast"}, of("spec", "nodeSelector"))
	require.Equal(t, object{"runAsNonRoot": true}, of("spec", "securityContext"))
	containers := of("spec", "containers").([]any)
	require.Len(t, containers, 1)
	container := containers[0].(object)
	require.Equal(t, depotContainer, container["name"])
	require.Equal(t, "theirs:1", container["image"])
	require.NotContains(t, container["resources"].(object)["limits"], "nvidia.com/gpu")
	require.Equal(t, "sh", container["command"].([]any)[0])
	require.Equal(t, []any{object{"name": "code", "mountPath": depotMount}}, container["volumeMounts"])
	require.Equal(t, false, container["securityContext"].(object)["allowPrivilegeEscalation"])
}

func TestCodeOfWhichAVolumeHasLostTheContentIsBroughtAgain(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "perennial", "abcdefgh")
	file := filepath.Join(directory, "hash")
	shell := func(script, input string) string {
		command := exec.CommandContext(t.Context(), "sh", "-c", script)
		command.Stdin = strings.NewReader(input)
		said, err := command.Output()
		require.NoError(t, err)
		return string(said)
	}
	look := fmt.Sprintf(lookForCode, directory, file, len("packed"))
	require.Empty(t, shell(look, ""))
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.Empty(t, shell(look, ""), "it is empty")
	shell(fmt.Sprintf(depositCode, file, len("packed")), "packed")
	require.Equal(t, "there\n", shell(look, ""))
}
