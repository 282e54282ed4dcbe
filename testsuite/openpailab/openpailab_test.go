package openpailab

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const good = `
protocolVersion: %v
name: %s
type: job
prerequisites: [{type: dockerimage, name: image, uri: python}]
taskRoles:
  trial: {instances: 1, dockerImage: image, resourcePerInstance: {gpu: 0, cpu: 1, memoryMB: 100}, commands: ["exit 3"]}
defaults: {virtualCluster: %s}
extras: {storages: [{name: %s}]}
`

func (c *Cluster) ask(method, path, token, body string) (int, string, http.Header) {
	request, err := http.NewRequest(method, c.URL+root+path, strings.NewReader(body))
	require.NoError(c.t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "text/yaml")
	told, err := http.DefaultClient.Do(request)
	require.NoError(c.t, err)
	defer told.Body.Close()
	text, err := io.ReadAll(told.Body)
	require.NoError(c.t, err)
	return told.StatusCode, string(text), told.Header
}

// What a real rest-server, write-merger and FrameworkController on a real
// kube-apiserver answered to the same.
func TestItAnswersAsARealServerDid(t *testing.T) {
	t.Parallel()
	c := New(t)
	job := func(version, name, vc, storage string) string { return fmt.Sprintf(good, version, name, vc, storage) }
	for _, call := range []struct {
		method, path, token, body string
		status                    int
		code                      string
	}{
		{"POST", "jobs", Token, job("2", "one", VirtualCluster, Storage), 202, ""},
		{"POST", "jobs", Token, job("2", "one", VirtualCluster, Storage), 409, "ConflictJobError"},
		{"POST", "jobs", Token, job("1", "two", VirtualCluster, Storage), 400, "InvalidProtocolError"},
		{"POST", "jobs", Token, job("2", "two.", VirtualCluster, Storage), 400, "InvalidProtocolError"},
		{"POST", "jobs", Token, job("2", "two", "nowhere", Storage), 403, "ForbiddenUserError"},
		{"POST", "jobs", Token, job("2", "two", VirtualCluster, "nowhere"), 404, "NoStorageError"},
		{"POST", "jobs", "bad", job("2", "two", VirtualCluster, Storage), 401, "UnauthorizedUserError"},
		{"GET", "jobs", "", "", 401, "UnauthorizedUserError"},
		{"GET", "jobs/ada~nobody", Token, "", 404, "NoJobError"},
		{"PUT", "jobs/ada~one/executionType", Token, `{"value":"STOP"}`, 202, ""},
		{"PUT", "jobs/ada~one/executionType", Token, `{"value":"STOP"}`, 202, ""},
		{"PUT", "jobs/ada~one/executionType", Token, `{"value":"PAUSE"}`, 400, "InvalidParametersError"},
		{"DELETE", "jobs/ada~one", Token, "", 404, "NoApiError"},
	} {
		status, text, _ := c.ask(call.method, call.path, call.token, call.body)
		require.Equal(t, call.status, status, "%s %s: %s", call.method, call.path, text)
		require.Contains(t, text, call.code)
	}
}

func TestOverTheLimitOfSubmissionsItAnswersHTML(t *testing.T) {
	t.Parallel()
	c := New(t)
	c.Idle = true
	for i := range 60 {
		status, _, _ := c.ask("POST", "jobs", Token, fmt.Sprintf(good, 2-i%2, fmt.Sprint("job", i), VirtualCluster, Storage))
		require.Contains(t, []int{202, 400}, status, "those that fail count, too")
	}
	status, text, header := c.ask("POST", "jobs", Token, "")
	require.Equal(t, 429, status)
	require.Contains(t, text, "<html>")
	require.Equal(t, "3600", header.Get("Retry-After"))
	require.Contains(t, header.Get("Content-Type"), "text/html")
}

func TestAJobsStateIsThatOfItsProcess(t *testing.T) {
	t.Parallel()
	c := New(t)
	c.ask("POST", "jobs", Token, fmt.Sprintf(good, 2, "failing", VirtualCluster, Storage))
	require.Eventually(t, func() bool { return c.States()["failing"] == "FAILED" }, time.Minute, 10*time.Millisecond)
	_, text, _ := c.ask("GET", "jobs/ada~failing", Token, "")
	require.Contains(t, text, `"appExitCode":3`)
}
