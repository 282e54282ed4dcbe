package telemetry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"
)

// temporal has what the clients and workers of this process count.
var temporal = prometheus.NewRegistry()

// inSeconds has histograms tell a millisecond from a minute: all that Temporal's clients
// measure are seconds.
var inSeconds = metric.NewView(metric.Instrument{Kind: metric.InstrumentKindHistogram}, metric.Stream{
	Aggregation: metric.AggregationExplicitBucketHistogram{Boundaries: prometheus.ExponentialBuckets(0.001, 4, 9)},
})

// flushLimit bounds what the last traces may cost a host that ends: it has three seconds
// for everything.
const flushLimit = 500 * time.Millisecond

// Instrument has a client of Temporal, and the workers that are made of it, count what
// they do, and send traces where the variables of OpenTelemetry name a collector
// (OTEL_EXPORTER_OTLP_ENDPOINT and its kin). stop sends the last of them.
func Instrument(options client.Options, variable func(string) string) (instrumented client.Options, stop func(), err error) {
	reader, err := exporter.New(exporter.WithRegisterer(temporal), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		return options, nil, err
	}
	meters := metric.NewMeterProvider(metric.WithReader(reader), metric.WithView(inSeconds))
	options.MetricsHandler = opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{
		Meter: meters.Meter("temporal-sdk-go"), UseMonotonicCounters: true, OnError: func(error) {},
	})
	traces, err := tracing(variable)
	if err != nil || traces == nil {
		return options, func() {}, err
	}
	traced, err := opentelemetry.NewTracingInterceptor(opentelemetry.TracerOptions{Tracer: traces.Tracer("perennial")})
	options.Interceptors = append([]interceptor.ClientInterceptor{traced}, options.Interceptors...)
	return options, func() { flush(traces) }, err
}

func flush(traces *trace.TracerProvider) {
	ctx, cancel := context.WithTimeout(context.Background(), flushLimit)
	defer cancel()
	traces.Shutdown(ctx) //nolint:errcheck // whoever collects traces may be away
}

// tracing returns nil where nobody is named who wants traces.
func tracing(variable func(string) string) (*trace.TracerProvider, error) {
	if variable("OTEL_SDK_DISABLED") == "true" || either(variable, "ENDPOINT") == "" {
		return nil, nil
	}
	sender, err := sender(either(variable, "PROTOCOL"))
	if err != nil {
		return nil, err
	}
	about, err := resource.New(context.Background(), resource.WithAttributes(attribute.String("service.name", "perennial")),
		resource.WithHost(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, err
	}
	return trace.NewTracerProvider(trace.WithBatcher(sender), trace.WithResource(about)), nil
}

// either is a variable for traces alone, or else the one for everything.
func either(variable func(string) string, name string) string {
	if own := variable("OTEL_EXPORTER_OTLP_TRACES_" + name); own != "" {
		return own
	}
	return variable("OTEL_EXPORTER_OTLP_" + name)
}

// sender reads everything else from the variables by itself.
func sender(protocol string) (trace.SpanExporter, error) {
	switch protocol {
	case "", "http/protobuf":
		return otlptracehttp.New(context.Background())
	case "grpc":
		return otlptracegrpc.New(context.Background())
	}
	return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: make it http/protobuf or grpc", protocol)
}
