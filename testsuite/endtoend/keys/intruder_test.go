package keys

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
)

// intruderVariable tells this test's own binary to try what it can as whoever it
// is, on the target it holds, and to print what happened.
const intruderVariable = "PERENNIAL_TEST_INTRUDER"

// target is what another user of the machine can know of a host.
type target struct {
	PID       int
	State     string
	WebUI     string
	Address   string
	Namespace string
}

func TestMain(m *testing.M) {
	if text := os.Getenv(intruderVariable); text != "" {
		var at target
		if err := json.Unmarshal([]byte(text), &at); err != nil {
			panic(err)
		}
		json.NewEncoder(os.Stdout).Encode(at.tryEverything())
		return
	}
	os.Exit(m.Run())
}

const (
	unauthorized = "401 Unauthorized"
	denied       = "permission denied"
	refused      = "Request unauthorized."
)

// tryEverything maps what was tried to how it ended.
func (at target) tryEverything() map[string]string {
	tried := map[string]string{"dial": at.dial()}
	for _, path := range []string{"/", "/namespaces", "/api/v1/namespaces", "/codec/decode", "/healthz", "/?t=guess"} {
		tried["GET "+path] = at.ask(http.MethodGet, path)
	}
	tried["POST /codec/decode"] = at.ask(http.MethodPost, "/codec/decode")
	for _, name := range []string{"token", "keys", "record.sqlite", "temporal/temporal.db", "host.lock", "log/host.log"} {
		tried[name] = at.read(filepath.Join(at.State, name))
	}
	tried["environ"] = at.read(filepath.Join("/proc", strconv.Itoa(at.PID), "environ"))
	return tried
}

func (at target) ask(method, path string) string {
	request, err := http.NewRequest(method, at.WebUI+path, bytes.NewReader([]byte(`{"payloads":[]}`)))
	if err != nil {
		return err.Error()
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	return answer.Status
}

func (at target) read(path string) string {
	_, err := os.ReadFile(path)
	if os.IsPermission(err) {
		return denied
	}
	return fmt.Sprint(err)
}

func (at target) dial() string {
	options := client.Options{HostPort: at.Address, Namespace: at.Namespace}
	options.ConnectionOptions.TLSDisabled = true
	c, err := client.NewLazyClient(options)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err = c.WorkflowService().ListWorkflowExecutions(ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: at.Namespace})
	return fmt.Sprint(err)
}

func TestAnotherUserOfTheMachineGetsNothing(t *testing.T) {
	if os.Getuid() != 0 {
		endtoend.Skip(t, "becoming another user takes root")
	}
	h := endtoend.NewHome(t)
	// Only the state directory itself keeps others out.
	require.NoError(t, os.Chmod(filepath.Dir(h.Dir), 0o755))
	run := h.Follow(h.Experiment(endtoend.Plan{Trials: 1, Concurrency: 1, Platform: "  platform: fake\n  duration: 600\n"}))
	h.AwaitRunning(run.ID(), 1)
	at := h.Show(run.ID()).Temporal
	tried := asNobody(t, target{PID: h.Processes(endtoend.Host)[0].PID, State: h.Dir,
		WebUI: base(t, at.WebUI), Address: at.Address, Namespace: at.Namespace})
	require.Len(t, tried, 15)
	for what, ended := range tried {
		require.Contains(t, []string{unauthorized, denied, refused}, ended, what)
	}
	require.Equal(t, refused, tried["dial"])
	require.Equal(t, unauthorized, tried["GET /"])
}

// base is the address of the Web UI without a page and a one-time token.
func base(t *testing.T, link string) string {
	parsed, err := url.Parse(link)
	require.NoError(t, err)
	return "http://" + parsed.Host
}

// asNobody runs this binary as another user, who knows where everything is.
func asNobody(t *testing.T, at target) (tried map[string]string) {
	public, err := os.MkdirTemp("", "intruder-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(public) })
	require.NoError(t, os.Chmod(public, 0o755))
	binary := filepath.Join(public, "intruder")
	content, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(binary, content, 0o755))
	require.NoError(t, os.Chmod(binary, 0o755))
	text, err := json.Marshal(at)
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", binary)
	command.Dir = "/"
	command.Env = []string{"PATH=/usr/bin:/bin", intruderVariable + "=" + string(text)}
	command.Stderr = os.Stderr
	output, err := command.Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(output, &tried))
	return tried
}

// decode has the host's codec endpoint decrypt payloads, as the Web UI and the
// temporal command line do.
func decode(t *testing.T, webUI, authorization string, payloads *commonpb.Payloads) *commonpb.Payloads {
	body, err := protojson.Marshal(payloads)
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, webUI+"/codec/decode", bytes.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", authorization)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode, "%s", content)
	decoded := &commonpb.Payloads{}
	require.NoError(t, protojson.Unmarshal(content, decoded))
	return decoded
}
