package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
)

// twoWorkers are both files as docker compose puts them together.
func twoWorkers(t *testing.T) *types.Project {
	options, err := cli.NewProjectOptions(
		[]string{filepath.Join(endtoend.Root(), "docker-compose.yml"), filepath.Join(endtoend.Root(), "deploy", "two-workers.yml")},
		cli.WithWorkingDirectory(endtoend.Root()), cli.WithName("perennial"))
	require.NoError(t, err)
	project, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	return project
}

func TestTheFilesOfTwoWorkersHoldTogether(t *testing.T) {
	project := twoWorkers(t)
	targets := func(service string) (mounted []string) {
		for _, volume := range project.Services[service].Volumes {
			mounted = append(mounted, volume.Target)
			if volume.Type == types.VolumeTypeVolume {
				require.Contains(t, project.Volumes, volume.Source)
			}
		}
		return mounted
	}
	for _, worker := range []string{"worker", "worker-2"} {
		require.ElementsMatch(t, []string{"/work", "/state", "/keys", "/var/run/postgresql"}, targets(worker))
		require.Equal(t, endtoend.Root(), project.Services[worker].Build.Context)
		require.Contains(t, project.Services[worker].DependsOn, "record")
	}
	require.Contains(t, targets("postgresql"), "/var/run/postgresql")
	require.Contains(t, targets("postgresql"), "/var/lib/postgresql/data")
}

// container is a service of the files as a process: its command and its variables, with
// the places of this laboratory for those of containers.
func (c *Cluster) container(t *testing.T, service types.ServiceConfig, home *endtoend.Home, keys string) *exec.Cmd {
	socket, port := c.postgres.Socket()
	here := strings.NewReplacer("temporal:7233", c.Address(), "host=/var/run/postgresql&user=temporal", "host="+socket+"&port="+port+"&user=postgres",
		"/var/run/postgresql", socket, "/state/perennial", home.Dir, " /keys ", " "+keys+" ")
	line := slices.Concat(service.Entrypoint, service.Command)
	for i := range line {
		line[i] = here.Replace(line[i])
	}
	command := exec.Command(line[0], line[1:]...)
	command.Stderr = os.Stderr
	command.Dir, command.SysProcAttr = home.Work, &syscall.SysProcAttr{Setpgid: true}
	command.Env = append(os.Environ(), "PATH="+filepath.Dir(endtoend.Program(t))+":"+c.postgres.Programs()+":"+os.Getenv("PATH"), "PGPORT="+port)
	for name, value := range service.Environment {
		if value != nil {
			command.Env = append(command.Env, name+"="+here.Replace(*value))
		}
	}
	for _, as := range []string{"PGUSER=postgres", "TEMPORAL_NAMESPACE=" + Namespace} { // the lab's own
		command.Env = append(command.Env, as)
	}
	return command
}

// start starts what never ends by itself, and returns what kills it as docker would.
func start(t *testing.T, command *exec.Cmd) (kill func()) {
	require.NoError(t, command.Start())
	kill = func() {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		_ = command.Wait()
	}
	t.Cleanup(kill)
	return kill
}

// composed runs the very commands of the files of two workers, one of which is killed.
func composed(t *testing.T, c *Cluster) {
	services, keys := twoWorkers(t).Services, t.TempDir()
	for range 2 { // it may run any number of times
		out, err := c.container(t, services["record"], c.Home(t), keys).Output()
		require.NoError(t, err, string(out))
	}
	home := func(service string) (*endtoend.Home, *exec.Cmd) {
		home := c.Home(t)
		command := c.container(t, services[service], home, keys)
		for _, variable := range command.Env {
			if strings.HasPrefix(variable, "PERENNIAL_RECORD=") {
				home = home.With(variable)
			}
		}
		return home, command
	}
	one, first := home("worker")
	two, second := home("worker-2")
	kill := start(t, first)
	one.AwaitFor(limit, "the first to work", func() bool { return one.Run("workers").Code == 0 && slices.Equal(staff(t, one), []string{"WORKS"}) })
	start(t, second)
	two.AwaitFor(limit, "the second to work", func() bool { return slices.Equal(staff(t, two), []string{"WORKS", "WORKS"}) })
	kill()
	one.KillAll()
	two.AwaitFor(limit, "the first to be gone", func() bool { return slices.Equal(staff(t, two), []string{"WORKS", "SILENT silent"}) })
	shared, err := os.ReadDir(keys)
	require.NoError(t, err)
	require.Len(t, shared, 1, "both seal with one key")

	plan := small()
	id := two.Follow(two.Experiment(plan)).ID()
	two.AwaitFor(limit, "the end", func() bool { return two.Show(id).Status == "DONE" })
	two.RequireExactlyOnce(id, plan.Trials, nil)
}
