package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/activities/poller"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

func openRecord(t *testing.T) *record.Store {
	store, err := record.Open(filepath.Join(t.TempDir(), "record.sqlite"))
	require.NoError(t, err)
	t.Cleanup(func() { store.Close() })
	command := trial.Command{ID: "1", Name: trial.Accept, Value: json.RawMessage(`{"experimentName":"one",
		"searchSpace":{"x": {}},"trialConcurrency":2,"maxTrialNumber":10,"tuner":{"name":"Random"}}`)}
	_, err = store.Append(t.Context(), "exp", record.CommandEvent(command))
	require.NoError(t, err)
	return store
}

func ask(t *testing.T, server *httptest.Server, path, token string) (int, string) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
	require.NoError(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := server.Client().Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(text)
}

func TestMetricsAreForWhoKnowsTheTokenAndHealthIsForEverybody(t *testing.T) {
	broken := errors.New("waiting for Temporal")
	server := httptest.NewServer(Handler(Metrics(openRecord(t), "1.2.3"), "secret", func(context.Context) error { return broken }))
	defer server.Close()
	for _, wrong := range []string{"", "Secret", "secret "} {
		code, _ := ask(t, server, "/metrics", wrong+"x")
		require.Equal(t, http.StatusUnauthorized, code)
	}
	code, text := ask(t, server, "/metrics", "secret")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, text, `perennial_slots{experiment="exp",name="one"} 2`)
	require.Contains(t, text, `perennial_build_info{version="1.2.3"} 1`)
	code, text = ask(t, server, "/readyz", "")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, text, broken.Error())
	broken = nil
	code, _ = ask(t, server, "/readyz", "")
	require.Equal(t, http.StatusOK, code)
	code, _ = ask(t, server, "/healthz", "")
	require.Equal(t, http.StatusOK, code)
}

func TestNamesOfMetricsAreAsPrometheusWantsThem(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(record.Timings, poller.Timings, standing{openRecord(t)}, build("1"))
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestARecordThatIsAwaySpoilsNoOtherMetric(t *testing.T) {
	store := openRecord(t)
	server := httptest.NewServer(Handler(Metrics(store, "1"), "secret", nil))
	defer server.Close()
	require.NoError(t, store.Close())
	code, text := ask(t, server, "/metrics", "secret")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, text, "perennial_build_info")
	require.NotContains(t, text, "perennial_slots")
}

func TestTracesGoNowhereUnlessSomebodyIsNamed(t *testing.T) {
	variables := map[string]string{}
	variable := func(name string) string { return variables[name] }
	traces, err := tracing(variable)
	require.NoError(t, err)
	require.Nil(t, traces)
	variables["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:4318"
	traces, err = tracing(variable)
	require.NoError(t, err)
	require.NotNil(t, traces)
	variables["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] = "carrier pigeon"
	_, err = tracing(variable)
	require.ErrorContains(t, err, "carrier pigeon")
	variables["OTEL_SDK_DISABLED"] = "true"
	traces, err = tracing(variable)
	require.NoError(t, err)
	require.Nil(t, traces)
}
