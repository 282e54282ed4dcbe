package embedded_test

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/perennial-ml/perennial/embedded"
)

const token = "only the owner knows this"

// serveVariable makes this test binary a server on the directory it names.
const serveVariable = "PERENNIAL_TEST_SERVE"

func TestMain(m *testing.M) {
	if directory := os.Getenv(serveVariable); directory != "" {
		serveForever(directory)
	}
	code := m.Run()
	stopShared()
	os.Exit(code)
}

var sharedDirectory string

// shared is one server for all tests that only look at it.
var shared = sync.OnceValues(func() (server *embedded.Server, err error) {
	if sharedDirectory, err = os.MkdirTemp("", "embedded-*"); err != nil {
		return nil, err
	}
	return embedded.Start(context.Background(), embedded.Options{Directory: sharedDirectory, Token: token})
})

func stopShared() {
	if sharedDirectory == "" {
		return
	}
	if server, err := shared(); err == nil {
		_ = server.Stop()
	}
	_ = os.RemoveAll(sharedDirectory)
}

func running(t *testing.T) *embedded.Server {
	server, err := shared()
	require.NoError(t, err)
	return server
}

func serveForever(directory string) {
	server, err := embedded.Start(context.Background(), embedded.Options{Directory: directory, Token: token})
	if err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
	os.Stdout.WriteString(server.Address() + "\n")
	select {}
}

func start(t *testing.T, directory string) *embedded.Server {
	server, err := embedded.Start(t.Context(), embedded.Options{Directory: directory, Token: token})
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Stop() })
	return server
}

type quiet struct{ log.Logger }

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}

func dial(t *testing.T, address, token string) (client.Client, error) {
	options := client.Options{
		HostPort:          address,
		Namespace:         embedded.Namespace,
		Logger:            quiet{},
		ConnectionOptions: client.ConnectionOptions{TLSDisabled: true},
	}
	if token != "" {
		options.Credentials = client.NewAPIKeyStaticCredentials(token)
	}
	return client.DialContext(t.Context(), options)
}

func connect(t *testing.T, address string) client.Client {
	c, err := dial(t, address, token)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

const queue = "greetings"

func greet(ctx workflow.Context, name string) (string, error) {
	workflow.GetSignalChannel(ctx, "go").Receive(ctx, nil)
	return "hello " + name, nil
}

func startWorker(t *testing.T, c client.Client) {
	w := worker.New(c, queue, worker.Options{})
	w.RegisterWorkflow(greet)
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
}

func startGreeting(t *testing.T, c client.Client) client.WorkflowRun {
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "greeting", TaskQueue: queue}, greet, "world")
	require.NoError(t, err)
	return run
}

func requireGreeting(t *testing.T, c client.Client) {
	require.NoError(t, c.SignalWorkflow(t.Context(), "greeting", "", "go", nil))
	var answer string
	require.NoError(t, c.GetWorkflow(t.Context(), "greeting", "").Get(t.Context(), &answer))
	require.Equal(t, "hello world", answer)
}

func Test_a_workflow_outlives_a_stop_and_a_start(t *testing.T) {
	directory := t.TempDir()
	first := start(t, directory)
	startGreeting(t, connect(t, first.Address()))
	require.NoError(t, first.Stop())

	c := connect(t, start(t, directory).Address())
	startWorker(t, c)
	requireGreeting(t, c)
}

// A queue that is unloaded while the server runs ends as one does at its stop.
func Test_a_task_queue_that_ends_leaves_nobody_at_work(t *testing.T) {
	server := start(t, t.TempDir())
	c := connect(t, server.Address())
	startWorker(t, c)
	startGreeting(t, c)
	requireGreeting(t, c)
	require.Positive(t, watchers(t), "the server has nobody of that name: see what takes its place")
	require.NoError(t, server.Stop())
	require.Eventually(t, func() bool { return watchers(t) == 0 }, time.Minute, 10*time.Millisecond)
}

// watchers are the goroutines of task queues that tell others how long they are.
func watchers(t *testing.T) int {
	var stacks bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&stacks, 2))
	return strings.Count(stacks.String(), "updateEphemeralData(")
}

func Test_a_workflow_outlives_kill_9_of_the_server(t *testing.T) {
	directory := t.TempDir()
	process, address := startProcess(t, directory)
	startGreeting(t, connect(t, address))
	require.NoError(t, process.Process.Kill())
	_ = process.Wait()

	c := connect(t, start(t, directory).Address())
	startWorker(t, c)
	requireGreeting(t, c)
}

func startProcess(t *testing.T, directory string) (*exec.Cmd, string) {
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), serveVariable+"="+directory)
	process.Stderr = os.Stderr
	out, err := process.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, process.Start())
	t.Cleanup(func() { _ = process.Process.Kill() })
	line := make([]byte, 100)
	n, err := out.Read(line)
	require.NoError(t, err)
	return process, strings.TrimSpace(string(line[:n]))
}

func Test_the_frontend_refuses_callers_without_the_token(t *testing.T) {
	server := running(t)
	for _, wrong := range []string{"", "a guess", token + "x"} {
		c, err := dial(t, server.Address(), wrong)
		if err == nil {
			defer c.Close()
			_, err = c.DescribeWorkflowExecution(t.Context(), "nobody", "")
		}
		require.ErrorContains(t, err, "Request unauthorized", "token %q", wrong)
	}
	_, err := connect(t, server.Address()).DescribeWorkflowExecution(t.Context(), "nobody", "")
	var notFound *serviceerror.NotFound
	require.ErrorAs(t, err, &notFound)
}

func Test_no_port_of_the_server_answers_callers_without_the_token(t *testing.T) {
	server := running(t)
	listeners := listeningPorts(t)
	require.GreaterOrEqual(t, len(listeners), 5)
	for _, address := range listeners {
		c, err := dialBriefly(t, address)
		if err == nil {
			defer c.Close()
			_, err = c.WorkflowService().ListNamespaces(t.Context(), &workflowservice.ListNamespacesRequest{})
		}
		require.Error(t, err, address)
	}
	require.Contains(t, listeners, server.Address())
}

func dialBriefly(t *testing.T, address string) (client.Client, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	return client.DialContext(ctx, client.Options{
		HostPort:          address,
		Namespace:         embedded.Namespace,
		Logger:            quiet{},
		ConnectionOptions: client.ConnectionOptions{TLSDisabled: true, GetSystemInfoTimeout: time.Second},
	})
}

func Test_every_port_is_on_loopback(t *testing.T) {
	running(t)
	for _, address := range listeningPorts(t) {
		host, _, err := net.SplitHostPort(address)
		require.NoError(t, err)
		require.True(t, net.ParseIP(host).IsLoopback(), address)
	}
}

func Test_finished_workflows_are_kept_for_years(t *testing.T) {
	c := connect(t, running(t).Address())
	answer, err := c.WorkflowService().DescribeNamespace(t.Context(),
		&workflowservice.DescribeNamespaceRequest{Namespace: embedded.Namespace})
	require.NoError(t, err)
	require.Equal(t, embedded.DefaultRetention, answer.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration())
	require.Greater(t, embedded.DefaultRetention, 5*365*24*time.Hour)
}

func Test_search_attributes_are_there_from_the_start(t *testing.T) {
	c := connect(t, running(t).Address())
	answer, err := c.OperatorService().ListSearchAttributes(t.Context(),
		&operatorservice.ListSearchAttributesRequest{Namespace: embedded.Namespace})
	require.NoError(t, err)
	require.Equal(t, map[string]enumspb.IndexedValueType{
		"ExperimentId": enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"Platform":     enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"TrialStatus":  enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"BestMetric":   enumspb.INDEXED_VALUE_TYPE_DOUBLE,
		"FinalMetric":  enumspb.INDEXED_VALUE_TYPE_DOUBLE,
		"TrialIndex":   enumspb.INDEXED_VALUE_TYPE_INT,
	}, answer.GetCustomAttributes())
}

func Test_files_are_readable_by_their_owner_only(t *testing.T) {
	directory := t.TempDir()
	start(t, directory)
	files, err := os.ReadDir(directory)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(directory, "temporal.db-wal"))
	for _, file := range files {
		info, err := file.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), file.Name())
	}
}

func Test_a_directory_may_have_characters_that_mean_something_in_a_uri(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "50% of #1? yes")
	require.NoError(t, os.Mkdir(directory, 0o700))
	start(t, directory)
	require.FileExists(t, filepath.Join(directory, "temporal.db-wal"))
}

func Test_a_server_without_a_token_does_not_start(t *testing.T) {
	_, err := embedded.Start(t.Context(), embedded.Options{Directory: t.TempDir()})
	require.ErrorContains(t, err, "needs a token")
}

func status(t *testing.T, c *http.Client, request *http.Request) int {
	answer, err := c.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	return answer.StatusCode
}
