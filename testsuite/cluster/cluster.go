// Package cluster runs the real program against a Temporal server that is not
// ours: the stock one, untuned, on Debian's PostgreSQL.
package cluster

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/testsuite/machine"
	"github.com/perennial-ml/perennial/testsuite/postgreslab"
)

// Namespace is the one that tests use.
const Namespace = "somebodys"

// patience is how long a server may take to come up on a busy machine.
const patience = 90 * time.Second

// Cluster is a Temporal server with its PostgreSQL, on loopback ports of its own.
type Cluster struct {
	t        testing.TB
	program  string
	postgres *postgreslab.Server
	ports    []string
	log      string
	temporal *exec.Cmd
}

// Start brings a cluster up; it ends with the test. Where PostgreSQL is missing the
// test is left out, loudly.
func Start(t testing.TB) *Cluster {
	database := postgreslab.New(t)
	for _, name := range []string{"temporal", "visibility"} {
		require.NoError(t, database.Create(name))
	}
	base, err := os.MkdirTemp("", "cluster-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	c := &Cluster{t: t, program: filepath.Join(base, "temporal"), log: filepath.Join(base, "temporal.log")}
	build := exec.Command("go", "build", "-o", c.program, "./testsuite/cluster/temporal")
	build.Dir = endtoend.Root()
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	for _, port := range machine.FreePorts(t, 4) {
		c.ports = append(c.ports, strconv.Itoa(port))
	}
	c.postgres = database
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

// Record makes an empty database beside Temporal's and returns its address, for homes that
// share a record.
func (c *Cluster) Record(t testing.TB, name string) string {
	require.NoError(t, c.postgres.Create(name))
	return c.postgres.URL(name)
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
	c.temporal = exec.Command(c.program, "-ports", strings.Join(c.ports, ","), "-postgres", c.postgres.Address())
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
