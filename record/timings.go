package record

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/perennial-ml/perennial/metrics"
)

var (
	commitSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "perennial_record_commit_seconds",
		Help:    "How long a commit of the record took, with all changes that it carried.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 3, 10), // 0.5 ms to 10 s
	})
	changes = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "perennial_record_changes_total", Help: "Changes of the record that commits carried.",
	})
	metricLag = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "perennial_metric_lag_seconds",
		Help:    "From when a runner read a trial's metric, by its clock, until it was on record: the newest of each collection.",
		Buckets: prometheus.ExponentialBuckets(0.01, 4, 10), // 10 ms to 44 min
	})
)

// Timings are how long the record takes, for Prometheus.
var Timings prometheus.Collector = timings{}

type timings struct{}

func (timings) each() []prometheus.Collector {
	return []prometheus.Collector{commitSeconds, changes, metricLag}
}

// Describe implements prometheus.Collector.
func (t timings) Describe(to chan<- *prometheus.Desc) {
	for _, one := range t.each() {
		one.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (t timings) Collect(to chan<- prometheus.Metric) {
	for _, one := range t.each() {
		one.Collect(to)
	}
}

// noteLag notes how late metrics came. A clock that is ahead of this one makes them no
// earlier than now.
func noteLag(records []metrics.Record) {
	if len(records) > 0 {
		metricLag.Observe(max(0, time.Since(records[len(records)-1].Time).Seconds()))
	}
}
