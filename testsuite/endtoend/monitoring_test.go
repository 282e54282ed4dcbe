package endtoend

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// collector is whoever is sent traces, as an OpenTelemetry collector takes them.
type collector struct {
	*httptest.Server
	mu   sync.Mutex
	came []byte
}

func startCollector(t *testing.T) *collector {
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		c.mu.Lock()
		defer c.mu.Unlock()
		if err == nil && r.URL.Path == "/v1/traces" {
			c.came = append(c.came, body...)
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.came)
}

// metrics asks the host's dashboard for them, as Prometheus would.
func (h *Home) metrics() string {
	h.t.Helper()
	token, err := os.ReadFile(filepath.Join(h.Dir, "token"))
	require.NoError(h.t, err)
	code, text := h.call(strings.TrimSpace(string(token)), http.MethodGet, "/metrics", "")
	require.Equal(h.t, http.StatusOK, code, text)
	return text
}

// call asks the host's dashboard for something by a token.
func (h *Home) call(token, method, path, body string) (int, string) {
	h.t.Helper()
	address, _, _ := strings.Cut(strings.TrimSpace(h.Must("dashboard", "--print")), "/?")
	request, err := http.NewRequestWithContext(h.t.Context(), method, address+path, strings.NewReader(body))
	require.NoError(h.t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	require.NoError(h.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(h.t, err)
	return answer.StatusCode, string(text)
}

// requireTokens tries what access tokens of an experiment's host allow.
func (h *Home) requireTokens(id string) {
	h.t.Helper()
	reading := strings.TrimSpace(h.Must("token", "create", "--read-only", "--name", "grafana"))
	acting := strings.TrimSpace(h.Must("token", "create", "--expires", "1d"))
	limit := `{"name": "set-concurrency", "value": 2}`
	for _, try := range []struct {
		code                      int
		token, method, path, body string
	}{
		{http.StatusOK, reading, http.MethodGet, "/api/v1/experiments/" + id, ""},
		{http.StatusOK, reading, http.MethodGet, "/nni/" + id + "/api/v1/nni/trial-jobs", ""},
		{http.StatusForbidden, reading, http.MethodGet, "/api/v1/experiments/" + id + "/temporal", ""},
		{http.StatusForbidden, reading, http.MethodPost, "/api/v1/experiments/" + id + "/commands", limit},
		{http.StatusForbidden, reading, http.MethodDelete, "/nni/" + id + "/api/v1/nni/experiment", ""},
		{http.StatusOK, acting, http.MethodPost, "/api/v1/experiments/" + id + "/commands", limit},
	} {
		code, text := h.call(try.token, try.method, try.path, try.body)
		require.Equal(h.t, try.code, code, "%s %s: %s", try.method, try.path, text)
	}
	h.requireListening(acting, id)
	h.Must("token", "revoke", "grafana")
	code, text := h.call(reading, http.MethodGet, "/api/v1/experiments", "")
	require.Equal(h.t, http.StatusUnauthorized, code)
	require.Contains(h.t, text, "was revoked")
}

// requireListening asks by TLS where the host listens to other machines.
func (h *Home) requireListening(token, id string) {
	h.t.Helper()
	log, err := os.ReadFile(filepath.Join(h.Dir, "log", "host.log"))
	require.NoError(h.t, err)
	found := regexp.MustCompile(`listening beyond this machine.*?(127\.0\.0\.1:\d+)`).FindSubmatch(log)
	require.NotNil(h.t, found, "%s", log)
	certificate, err := os.ReadFile(filepath.Join(h.Dir, "certificate.pem"))
	require.NoError(h.t, err)
	trusted := x509.NewCertPool()
	require.True(h.t, trusted.AppendCertsFromPEM(certificate))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, DisableKeepAlives: true}}
	for path, want := range map[string]int{"": http.StatusOK, "/temporal": http.StatusNotFound} {
		request, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, "https://"+string(found[1])+"/api/v1/experiments/"+id+path, nil)
		require.NoError(h.t, err)
		request.Header.Set("Authorization", "Bearer "+token)
		answer, err := client.Do(request)
		require.NoError(h.t, err)
		require.NoError(h.t, answer.Body.Close())
		require.Equal(h.t, want, answer.StatusCode)
	}
}

func TestMonitoringSeesWhatAnExperimentDoesAndIsSentItsTraces(t *testing.T) {
	t.Parallel()
	traces := startCollector(t)
	h := NewHome(t).With("OTEL_EXPORTER_OTLP_ENDPOINT=" + traces.URL).With("PERENNIAL_LISTEN=127.0.0.1:0")
	run := h.Follow(h.Experiment(endless(2, 2)))
	id := run.ID()
	h.AwaitRunning(id, 2)
	metrics := h.metrics()
	for _, line := range []string{
		fmt.Sprintf(`perennial_trials{experiment=%q,name="endtoend",state="RUNNING"} 2`, id),
		fmt.Sprintf(`perennial_slots{experiment=%q,name="endtoend"} 2`, id),
		`perennial_attempts_open{platform="local"} 2`,
		`perennial_platform_seconds_count{outcome="ok",platform="local",verb="submit"} 2`,
		`perennial_record_commit_seconds_count`, `perennial_metric_lag_seconds_count`, `temporal_request_total{`,
	} {
		require.Contains(t, metrics, line)
	}
	h.requireTokens(id)
	h.Must("stop", id)
	require.Equal(t, "STOPPED", run.Finished(Patience).Status)
	require.NotContains(t, h.metrics(), id, "of ended experiments the record tells")
	h.Must("serve", "--stop")
	require.Contains(t, traces.text(), "RunActivity:RunAttempt")
	require.NotContains(t, traces.text(), `"x"`, "no parameters")
	h.RequireNothingLeft()
}
