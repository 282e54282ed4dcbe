package poller

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/perennial-ml/perennial/platforms"
)

var verbSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "perennial_platform_seconds",
	Help:    "What a platform was asked, how long that took and how it ended: ok, or the code of the error.",
	Buckets: prometheus.ExponentialBuckets(0.001, 4, 9), // 1 ms to 65 s
}, []string{"platform", "verb", "outcome"})

// Timings are how long the verbs of platforms take, for Prometheus.
var Timings prometheus.Collector = verbSeconds

func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	return string(platforms.CodeOf(err))
}
