// Package telemetry tells monitoring what a host does: metrics for Prometheus, health
// for probes, traces for OpenTelemetry. Nothing of it has parameters, commands or
// results of trials in it.
package telemetry

import (
	"context"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/perennial-ml/perennial/activities/poller"
	"github.com/perennial-ml/perennial/record"
)

// MetricsPath is where Prometheus finds the metrics of a host.
const MetricsPath = "/metrics"

// Metrics serves what has been counted since the process began, and what the record
// says of the experiments that are under way.
func Metrics(store *record.Store, version string) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		record.Timings, poller.Timings, standing{store}, build(version))
	return promhttp.HandlerFor(prometheus.Gatherers{registry, temporal}, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

func build(version string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "perennial_build_info", Help: "1, with the version of the program.",
		ConstLabels: prometheus.Labels{"version": version},
	}, func() float64 { return 1 })
}

// Handler serves /metrics to who knows the token, and to everybody /healthz, which
// answers as long as the process does, and /readyz, which answers 503 with the reason
// while the host cannot work.
func Handler(metrics http.Handler, token string, ready func(context.Context) error) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+MetricsPath, bearing(token, metrics))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := ready(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Write([]byte("ready\n"))
	})
	return mux
}

func bearing(token string, inside http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !is || subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, `send "Authorization: Bearer" with the content of the file "metrics-token" in the state directory`, http.StatusUnauthorized)
			return
		}
		inside.ServeHTTP(w, r)
	})
}
