package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/workers"
	"github.com/perennial-ml/perennial/workflows"
)

// compose is as much of docker-compose.yml as tests look at.
type compose struct {
	Services map[string]struct {
		Image     string
		Build     string
		DependsOn map[string]struct{ Condition string } `yaml:"depends_on"`
		Command   []string
		Volumes   []string
		Ports     []string
	}
	Volumes map[string]any
}

func readCompose(t *testing.T) (file compose) {
	content, err := os.ReadFile(filepath.Join(endtoend.Root(), "docker-compose.yml"))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(content, &file))
	return file
}

func TestComposeFileHoldsTogether(t *testing.T) {
	file := readCompose(t)
	for name, service := range file.Services {
		_, tag, _ := strings.Cut(service.Image, ":")
		require.NotContains(t, []string{"", "latest"}, tag, "%s is not pinned", name)
		for other, how := range service.DependsOn {
			require.Contains(t, file.Services, other, "%s waits for it", name)
			require.Contains(t, []string{"service_healthy", "service_completed_successfully"}, how.Condition)
		}
		for _, port := range service.Ports {
			require.True(t, strings.HasPrefix(port, "127.0.0.1:"), "%s is open to the network by %s", name, port)
		}
		for _, mounted := range service.Volumes {
			if from, _, _ := strings.Cut(mounted, ":"); !strings.HasPrefix(from, "$") {
				require.Contains(t, file.Volumes, from)
			}
		}
	}
}

func TestComposeRegistersTheSearchAttributesThatWorkflowsSet(t *testing.T) {
	line := workers.SearchAttributes(workflows.SearchAttributes()).Command("a", "n")
	_, wanted, found := strings.Cut(line, "--namespace n ")
	require.True(t, found)
	require.Contains(t, readCompose(t).Services["namespace"].Command[0], wanted)
}

func TestComposeFileIsValidToDocker(t *testing.T) {
	for _, tool := range [][]string{{"docker", "compose"}, {"docker-compose"}} {
		if exec.Command(tool[0], append(tool[1:], "version")...).Run() != nil {
			continue
		}
		check := exec.Command(tool[0], append(tool[1:], "config", "--quiet")...)
		check.Dir = endtoend.Root()
		out, err := check.CombinedOutput()
		require.NoError(t, err, string(out))
		return
	}
	t.Skip("NOT TESTED HERE: docker compose is missing")
}
