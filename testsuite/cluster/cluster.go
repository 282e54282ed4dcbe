// Package cluster runs the real program against a Temporal server that is not
// ours: the stock one, untuned, on Debian's PostgreSQL.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
)

// Namespace is the one that tests use.
const Namespace = "somebodys"

// patience is how long a server may take to come up on a busy machine.
const patience = 90 * time.Second

// Cluster is a Temporal server with its PostgreSQL, on loopback ports of its own.
type Cluster struct {
	t        testing.TB
	program  string
	database string
	ports    []string
	log      string
	temporal *exec.Cmd
}

// Start brings a cluster up; it ends with the test. Where PostgreSQL is missing
// root installs it, and others leave the test out, loudly.
func Start(t testing.TB) *Cluster {
	binaries := installed(t)
	base, err := os.MkdirTemp("", "cluster-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	c := &Cluster{t: t, program: filepath.Join(base, "temporal"), log: filepath.Join(base, "temporal.log")}
	build := exec.Command("go", "build", "-o", c.program, "./testsuite/cluster/temporal")
	build.Dir = endtoend.Root()
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	for _, port := range freePorts(t, 4) {
		c.ports = append(c.ports, strconv.Itoa(port))
	}
	c.database = startPostgres(t, binaries, base)
	c.Restart()
	t.Cleanup(c.Kill)
	c.makeNamespace()
	return c
}

// Address is that of the frontend.
func (c *Cluster) Address() string { return "127.0.0.1:" + c.ports[0] }

// Home is a home whose commands use the cluster.
func (c *Cluster) Home(t testing.TB) *endtoend.Home {
	return endtoend.NewHome(t).With("TEMPORAL_ADDRESS=" + c.Address()).With("TEMPORAL_NAMESPACE=" + Namespace)
}

// Kill sends the Temporal server SIGKILL.
func (c *Cluster) Kill() {
	_ = c.temporal.Process.Kill()
	_ = c.temporal.Wait()
}

// Restart starts the Temporal server and waits until it answers.
func (c *Cluster) Restart() {
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(c.t, err)
	defer log.Close()
	c.temporal = exec.Command(c.program, "-ports", strings.Join(c.ports, ","), "-postgres", c.database)
	c.temporal.Stdout, c.temporal.Stderr = log, log
	require.NoError(c.t, c.temporal.Start())
	require.Eventually(c.t, c.answers, patience, 50*time.Millisecond, "Temporal does not come up; its log is %s", c.log)
}

func (c *Cluster) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	temporal, err := client.DialContext(ctx, client.Options{HostPort: c.Address()})
	if err != nil {
		return false
	}
	temporal.Close()
	return true
}

// Client returns a client of the namespace.
func (c *Cluster) Client() client.Client {
	temporal, err := client.Dial(client.Options{HostPort: c.Address(), Namespace: Namespace})
	require.NoError(c.t, err)
	c.t.Cleanup(temporal.Close)
	return temporal
}

func (c *Cluster) makeNamespace() {
	namespaces, err := client.NewNamespaceClient(client.Options{HostPort: c.Address()})
	require.NoError(c.t, err)
	defer namespaces.Close()
	err = namespaces.Register(context.Background(), &workflowservice.RegisterNamespaceRequest{
		Namespace: Namespace, WorkflowExecutionRetentionPeriod: durationpb.New(72 * time.Hour),
	})
	var there *serviceerror.NamespaceAlreadyExists
	if !errors.As(err, &there) {
		require.NoError(c.t, err)
	}
	// Every service has a cache of namespaces of its own.
	require.Eventually(c.t, func() bool {
		_, err := c.Client().CountWorkflow(context.Background(), &workflowservice.CountWorkflowExecutionsRequest{Namespace: Namespace})
		return err == nil
	}, patience, time.Second)
}

// installed returns the directory of PostgreSQL's programs.
func installed(t testing.TB) string {
	if found := binaries(); found != "" {
		return found
	}
	if os.Getuid() == 0 {
		out, err := exec.Command("sh", "-c", "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y postgresql").CombinedOutput()
		t.Logf("installing PostgreSQL: %v\n%s", err, out)
	}
	found := binaries()
	if found == "" {
		endtoend.Skip(t, "PostgreSQL is missing: apt-get install postgresql")
	}
	return found
}

// binaries is where Debian has the newest PostgreSQL's programs, else where PATH
// has them; empty where they are missing.
func binaries() string {
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb"); len(found) > 0 {
		slices.Sort(found)
		return filepath.Dir(found[len(found)-1])
	}
	if found, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(found)
	}
	return ""
}

// startPostgres makes a database cluster below base and returns its address. It
// runs as user postgres where the test is root, for PostgreSQL refuses root.
func startPostgres(t testing.TB, binaries, base string) (address string) {
	directory := filepath.Join(base, "postgres")
	require.NoError(t, os.Mkdir(directory, 0o700))
	require.NoError(t, os.Chmod(base, 0o711))
	port := strconv.Itoa(freePorts(t, 1)[0])
	as := owner(t, directory)
	run := func(name string, args ...string) *exec.Cmd {
		command := exec.Command(filepath.Join(binaries, name), args...)
		command.Dir, command.SysProcAttr = directory, &syscall.SysProcAttr{Credential: as}
		return command
	}
	data := filepath.Join(directory, "data")
	out, err := run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync").CombinedOutput()
	require.NoError(t, err, string(out))
	server := run("postgres", "-D", data, "-p", port, "-k", directory, "-c", "listen_addresses=127.0.0.1")
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGINT) // a fast shutdown
		_ = server.Wait()
	})
	for _, name := range []string{"temporal", "visibility"} {
		require.Eventually(t, func() bool {
			return run("createdb", "-h", "127.0.0.1", "-p", port, "-U", "postgres", name).Run() == nil
		}, patience, 100*time.Millisecond, "PostgreSQL does not come up")
	}
	return "127.0.0.1:" + port
}

// owner gives the directory to the user who shall run PostgreSQL; nil is whoever
// runs the test.
func owner(t testing.TB, directory string) *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	found, err := user.Lookup("postgres")
	require.NoError(t, err)
	var uid, gid uint32
	_, err = fmt.Sscan(found.Uid+" "+found.Gid, &uid, &gid)
	require.NoError(t, err)
	require.NoError(t, os.Chown(directory, int(uid), int(gid)))
	return &syscall.Credential{Uid: uid, Gid: gid}
}

func freePorts(t testing.TB, count int) (ports []int) {
	for range count {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer listener.Close()
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports
}
